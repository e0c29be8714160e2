"""Monte-Carlo tree search with greedy priors and chance nodes, for any number of players (see `agents.search.tree`).

Priors are a softmax of what an action gains at once, or a network's policy; so the trouble of an unguided tree, 37
actions times chance, does not arise. New positions are judged by the fitted evaluation, by a playout, or by a network.
"""

import time

import numpy as np

from agents.learned.agent import load_network, not_finite
from agents.learned.inference import Weights, answer, from_network, new_scratch
from agents.search.agent import SearchAgent, check_range, run_rows
from agents.search.evaluation import form_index, load_weights
from agents.search.expectimax import judge
from agents.search.playout import GREEDY, RANDOM, play_out
from agents.search.position import POSITION, best_cell, free_cells, place
from agents.search.tree import (
    BYTES_PER_SIMULATION,
    MAX_PATH,
    Tree,
    back_up,
    clear,
    descend,
    kept_part,
    new_tree,
    report,
)
from isis_env import game
from isis_env.agent import Analysis
from isis_env.batch import Decisions
from isis_env.config import MAX_PLAYERS, check_choice
from isis_env.deal import random_bits
from isis_env.game import FACE_SLOTS, NOTHING
from isis_env.kernels.jit import kernel
from isis_env.kernels.threads import available_cores, shared_kernel
from isis_env.limits import check_memory
from isis_env.observation import CELL_PLANES, observe
from isis_env.policy import register
from isis_env.reward import REWARDS, WIN, returns
from isis_env.secrecy import FULL

EVALUATION = 2
LEAVES = {"random": RANDOM, "greedy": GREEDY, "evaluation": EVALUATION}


@register("mcts")
class Mcts(SearchAgent):
    """Monte-Carlo tree search (PUCT) with greedy priors, chance nodes and a choice of leaf values.

    Args:
        simulations: per decision; with `seconds` the most there may be.
        leaf: how new positions are judged: by a `greedy` or `random` playout, or by the fitted `evaluation` of
            `agents.search.evaluation`, which is faster, but gains less from more simulations.
        c: weight of exploration.
        temperature: of the priors, in points of margin; 0 for uniform priors.
        reward: which return every seat maximises, `win` or `margin`.
        exact: with how many free cells the exact solver takes over; 0 for never.
        seconds: stop a decision after so long (then what is played depends on the machine); 0 for no limit.
        network: run folder or checkpoint whose policy gives the priors and whose value judges, in place of `leaf`.
        reuse: keep the part of a game's tree that came true for the next decision. Without it a choice depends on the
            position and the seed alone.

    Raises:
        ValueError: an argument is not one of those, or trees for so many simulations do not fit into the memory
            available.
        CheckpointError: there is no network that can be used; by `act` and `analyse`: its answer is not finite.
    """

    def __init__(
        self,
        simulations: int = 1000,
        leaf: str = "greedy",
        c: float = 1.5,
        temperature: float = 0.5,
        reward: str = "win",
        exact: int = 6,
        seconds: float = 0.0,
        network: str = "",
        reuse: bool = False,
    ) -> None:
        super().__init__(reward, exact)
        check_choice("leaf", leaf, tuple(LEAVES))
        check_range("simulations", simulations, 1, 2**31 - 1)
        # One tree per thread; a tree that is kept stands beside its successor while that is filled.
        check_memory("simulations", simulations, BYTES_PER_SIMULATION * (2 if reuse else available_cores()))
        for name, value in (("c", c), ("temperature", temperature), ("seconds", seconds)):
            check_range(name, value, 0, 1e6)
        self.simulations = simulations
        self.leaf = leaf
        self.c = c
        self.temperature = temperature
        self.seconds = seconds
        self.reuse = reuse
        self._kept: dict[tuple[int, int], tuple[Tree, np.ndarray]] = {}  # by game and seat: tree and its position
        self._network: Weights | None = None
        if network:
            if leaf != "greedy" or reward != "win" or seconds or reuse:
                raise ValueError(f"network={network!r}: must not come with leaf, reward, seconds or reuse")
            self._network_path = network
            loaded = load_network(network)
            self._network = from_network(loaded)
            self.board = loaded.board
        self.weights, self.spread = load_weights()

    def _search(self, positions: np.ndarray, decisions: Decisions, analysis: Analysis) -> None:
        if self._network is not None:
            settings = self.simulations, self.c, self._network
            run_rows(search_rows_with_network, len(positions), positions, *settings, *_arrays(analysis))
            if np.isnan(analysis.values).any():
                raise not_finite(self._network_path)
        elif self.seconds or self.reuse:
            for row in range(len(positions)):
                one = slice(row, row + 1)
                self._search_alone(positions[one], decisions[one], analysis[one])
        else:
            run_rows(search_rows, len(positions), positions, decisions.seeds, self._settings(), _arrays(analysis))

    def _search_alone(self, position: np.ndarray, decision: Decisions, analysis: Analysis) -> None:
        stop = time.perf_counter() + (self.seconds or np.inf)
        memory = (int(decision.games[0]), int(decision.seats[0]))
        tree = None
        if not decision.first[0] and memory in self._kept:
            tree = kept_part(*self._kept[memory], position, self.simulations)
        if tree is None:
            tree = new_tree(self.simulations)
            clear(tree)
        done = 0
        while done < self.simulations and (done == 0 or time.perf_counter() < stop):
            portion = min(64, self.simulations - done)
            simulate(tree, position, decision.seeds[0], done, portion, *self._settings()[1:])
            done += portion
        report(tree, *_arrays(analysis))
        if self.reuse:
            self._kept[memory] = tree, position.copy()

    def _settings(self) -> tuple:
        kind = REWARDS[self.reward]
        return self.simulations, LEAVES[self.leaf], self.c, self.temperature, kind, self.weights, self.spread


def _arrays(analysis: Analysis) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return analysis.values, analysis.action_values, analysis.probabilities


@shared_kernel
def search_rows(first, last, positions, seeds, settings, found):
    """Search the positions of rows `first` to `last - 1`; `found` are the arrays of an `Analysis`."""
    simulations, leaf, c, temperature, kind, weights, spread = settings
    values, action_values, probabilities = found
    tree = new_tree(simulations)
    for row in range(first, last):
        clear(tree)
        position = positions[row : row + 1]
        simulate(tree, position, seeds[row], 0, simulations, leaf, c, temperature, kind, weights, spread)
        one = slice(row, row + 1)
        report(tree, values[one], action_values[one], probabilities[one])


@kernel
def simulate(tree, position, seed, begin, count, leaf, c, temperature, kind, weights, spread):
    """Add simulations number `begin` to `begin + count - 1` to the tree of `position` (`POSITION[1]`)."""
    work = np.empty(1, POSITION)
    path = np.empty((MAX_PATH, 2), np.int64)
    value = np.empty(MAX_PLAYERS)
    scratch = np.empty(FACE_SLOTS)
    form = form_index(position[0])
    for number in range(begin, begin + count):
        work[0] = position[0]
        p = work[0]
        length = descend(tree, p, c, temperature, path)
        if leaf != EVALUATION:
            play_out(p, leaf, random_bits(seed, number + 1))
        elif p.held != NOTHING:
            place(p, best_cell(p))
        if game.is_over(p):
            returns(p, kind, value)
        else:
            judge(p, kind, weights[form], spread[form, free_cells(p)], scratch, value)
        back_up(tree, path, length, value)


@shared_kernel
def search_rows_with_network(first, last, positions, simulations, c, network, values, action_values, probabilities):
    """`search_rows` with the priors and values of a network, given as `agents.learned.inference.Weights`.

    The value of a row becomes NaN where an answer of the network was not finite.
    """
    tree = new_tree(simulations)
    work = np.empty(1, POSITION)
    path = np.empty((MAX_PATH, 2), np.int64)
    value = np.empty(MAX_PLAYERS)
    cells = len(network.neighbours)
    observation = np.empty(CELL_PLANES * cells + len(network.game_in), np.float32)
    logits = np.empty(cells + 1, np.float32)
    scratch = new_scratch(network)
    for row in range(first, last):
        clear(tree)
        finite = True
        for _ in range(simulations):
            work[0] = positions[row]
            p = work[0]
            length = descend(tree, p, c, 0.0, path)
            if game.is_over(p):
                returns(p, WIN, value)
            else:
                observe(p, p.seat, FULL, observation)
                own = answer(network, observation, scratch, logits)
                finite = finite and np.isfinite(own) and np.isfinite(np.sum(logits))
                _share_value(p, own, value)
                _set_priors(tree, tree.child[path[length - 1, 0]], logits)
            back_up(tree, path, length, value)
        one = slice(row, row + 1)
        report(tree, values[one], action_values[one], probabilities[one])
        if not finite:
            values[row] = np.nan


@kernel
def _share_value(p, own, value):
    """Write every seat's value: that of the seat on turn its own, the others' loss shared.

    The network's value is of the return trained on, a win and a little for the margin, and is cut to [-1, 1].
    """
    own = min(1.0, max(-1.0, own))
    value[:] = 0.0
    value[: p.players] = -own / (p.players - 1)
    value[p.seat] = own


@kernel
def _set_priors(tree, node, logits):
    """Give a node just added the policy: a softmax over its actions."""
    first, last = tree.first[node], tree.first[node] + tree.edges[node]
    priors = tree.prior[first:last]
    for edge in range(first, last):
        tree.prior[edge] = logits[tree.action[edge]]
    priors[:] = np.exp(priors - np.max(priors))
    priors /= np.sum(priors)
