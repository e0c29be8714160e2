"""Monte-Carlo tree search with PUCT, greedy priors and explicit chance nodes, for any number of players.

PUCT after Silver et al., "Mastering the game of Go without human knowledge" (Nature 2017): an action's mean value for
the seat on turn plus `c * prior * sqrt(visits of all) / (1 + its visits)`, values scaled to the range met in the tree
(Schrittwieser et al., MuZero, 2020). Priors are a softmax of what an action gains at once, or a network's policy; so an
unguided tree's trouble, 37 actions times chance, does not arise. Every seat keeps its own total (max^n). Faces at chance
nodes are tried in proportion to their odds, the one furthest behind first, rather than drawn at random: less noise.

A tree is a `Tree` of arrays. Nodes are decisions or draws; the edges of a node lie in a row and are its legal actions,
or the faces.
"""

import time
from typing import NamedTuple

import numpy as np

from agents.evaluation import form_index, load_weights
from agents.expectimax import judge
from agents.playout import GREEDY, RANDOM, play_out
from agents.position import POSITION, draw_value, free_cells, highest_and_lowest_weight, place, tiles_to_reveal, weight
from agents.search import SearchAgent, run_rows
from isis_env import game
from isis_env._jit import kernel
from isis_env.config import MAX_CELLS, MAX_FACE, MAX_PLAYERS, check_choice
from isis_env.deal import random_bits
from isis_env.game import FACE_SLOTS, NOTHING
from isis_env.policy import Analysis, Decisions, register
from isis_env.reward import REWARDS, returns

EVALUATION = 2
LEAVES = {"random": RANDOM, "greedy": GREEDY, "evaluation": EVALUATION}

MAX_EDGES = MAX_CELLS + 1  # of a node
NO_NODE = -1
NOBODY = -1  # a draw is nobody's choice

# An action not tried yet counts as what its node is worth so far, less this share of the range of values.
UNTRIED_LOSS = 0.1


class Tree(NamedTuple):
    """The arrays of one tree; node 0 is the root, and edge 0 the one that leads to it.

    Attributes:
        first, edges: int32[nodes], a node's first edge and how many it has.
        seat: int8[nodes], whose decision it is, or -1 at a draw.
        action: int8[edges], the action, or the face at a draw.
        prior: float32[edges], which add up to 1 at every node; at a draw the odds.
        child: int32[edges], the node it leads to, or -1.
        visits: int32[edges].
        total: float64[edges, 4], the sum of the values of every seat.
        used: int64[2], nodes and edges in use.
        span: float64[2], the lowest and highest mean value met.
    """

    first: np.ndarray
    edges: np.ndarray
    seat: np.ndarray
    action: np.ndarray
    prior: np.ndarray
    child: np.ndarray
    visits: np.ndarray
    total: np.ndarray
    used: np.ndarray
    span: np.ndarray


@register("mcts")
class Mcts(SearchAgent):
    """Monte-Carlo tree search (PUCT) with greedy priors, chance nodes and a choice of leaf values.

    Args:
        simulations: per decision; with `seconds` the most there may be.
        leaf: how new positions are judged: `evaluation` (fitted, see `agents.evaluation`), or playouts that are
            `greedy` or `random`.
        c: weight of exploration.
        temperature: of the priors, in points of margin; 0 for uniform priors.
        reward: which return every seat maximises, `win` or `margin`.
        exact: with how many free cells the exact solver takes over; 0 for never.
        seconds: stop a decision after so long (then what is played depends on the machine); 0 for no limit.
    """

    def __init__(
        self,
        simulations: int = 1000,
        leaf: str = "evaluation",
        c: float = 1.5,
        temperature: float = 0.5,
        reward: str = "win",
        exact: int = 6,
        seconds: float = 0.0,
    ) -> None:
        super().__init__(reward, exact)
        check_choice("leaf", leaf, tuple(LEAVES))
        if simulations < 1:
            raise ValueError(f"simulations={simulations!r}: must be at least 1")
        for name, value in (("c", c), ("temperature", temperature), ("seconds", seconds)):
            if not 0 <= value < np.inf:
                raise ValueError(f"{name}={value!r}: must be at least 0")
        self.simulations = simulations
        self.leaf = leaf
        self.c = c
        self.temperature = temperature
        self.seconds = seconds
        self.weights, self.spread = load_weights()

    def _search(self, positions: np.ndarray, decisions: Decisions, analysis: Analysis) -> None:
        if self.seconds:
            for row in range(len(positions)):
                self._search_for_seconds(
                    positions[row : row + 1], decisions.seeds[row : row + 1], analysis[row : row + 1]
                )
            return
        run_rows(search_rows, len(positions), positions, decisions.seeds, *self._settings(), *_arrays(analysis))

    def _search_for_seconds(self, position: np.ndarray, seeds: np.ndarray, analysis: Analysis) -> None:
        stop = time.perf_counter() + self.seconds
        tree = new_tree(self.simulations)
        clear(tree)
        done = 0
        while done < self.simulations and (done == 0 or time.perf_counter() < stop):
            portion = min(64, self.simulations - done)
            simulate(tree, position, seeds[0], done, portion, *self._settings()[1:])
            done += portion
        report(tree, *_arrays(analysis))

    def _settings(self) -> tuple:
        kind = REWARDS[self.reward]
        return self.simulations, LEAVES[self.leaf], self.c, self.temperature, kind, self.weights, self.spread


def _arrays(analysis: Analysis) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return analysis.values, analysis.action_values, analysis.probabilities


@kernel
def new_tree(simulations):
    """An empty tree with room for so many simulations: each adds two nodes at most, a draw and what follows it."""
    nodes = 2 * simulations
    edges = 1 + simulations * (MAX_EDGES + FACE_SLOTS)
    return Tree(
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int8),
        np.empty(edges, np.int8),
        np.empty(edges, np.float32),
        np.empty(edges, np.int32),
        np.empty(edges, np.int32),
        np.empty((edges, MAX_PLAYERS)),
        np.zeros(2, np.int64),
        np.empty(2),
    )


@kernel
def clear(tree):
    """Empty the tree: no node, and the one edge that leads to the root."""
    tree.used[0], tree.used[1] = 0, 0
    tree.span[0], tree.span[1] = np.inf, -np.inf
    _add_edge(tree, 0, 1.0)


@kernel
def search_rows(
    first,
    last,
    positions,
    seeds,
    simulations,
    leaf,
    c,
    temperature,
    kind,
    weights,
    spread,
    values,
    action_values,
    probabilities,
):
    """Search the positions of rows `first` to `last - 1`; the last three arguments are those of `Analysis`."""
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
    path = np.empty((4 * MAX_CELLS, 2), np.int64)
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
            place(p, _best_cell(p))
        if game.is_over(p):
            returns(p, kind, value)
        else:
            judge(p, kind, weights[form], spread[form, free_cells(p)], scratch, value)
        back_up(tree, path, length, value)


@kernel
def descend(tree, p, c, temperature, path):
    """Go down the tree, taking `p` along, to a position that is new to it and is added, or to the end of the game.

    Writes the edges taken and whose choice they were (-1 for nobody's) to `path` and returns how many they are.
    """
    path[0, 0], path[0, 1] = 0, NOBODY
    length = 1
    while True:
        arrived = path[length - 1, 0]
        node = tree.child[arrived]
        if node == NO_NODE:
            tree.child[arrived] = _add_decision(tree, p, temperature)
            return length
        drawing = False
        if tree.seat[node] == NOBODY:
            edge = _furthest_behind(tree, node, arrived)
            game.draw(p, tree.action[edge])
        else:
            edge = _most_urgent(tree, node, arrived, c)
            drawing = tree.action[edge] == game.cells_of(p)
            if not drawing:
                place(p, tree.action[edge])
        path[length, 0], path[length, 1] = edge, tree.seat[node]
        length += 1
        if game.is_over(p):
            return length
        if drawing and tree.child[edge] == NO_NODE:
            tree.child[edge] = _add_draw(tree, p)


@kernel
def back_up(tree, path, length, value):
    """Add the value of every seat (float64[4]) to the edges of the path."""
    for step in range(length):
        edge, chooser = path[step, 0], path[step, 1]
        tree.visits[edge] += 1
        for seat in range(MAX_PLAYERS):
            tree.total[edge, seat] += value[seat]
        if chooser != NOBODY:
            mean = tree.total[edge, chooser] / tree.visits[edge]
            tree.span[0] = min(tree.span[0], mean)
            tree.span[1] = max(tree.span[1], mean)


@kernel
def report(tree, values, action_values, probabilities):
    """Write what the tree found at its root to the first row of the arrays of an `Analysis`."""
    seat = tree.seat[0]
    values[0] = tree.total[0, seat] / tree.visits[0]
    visits = 0
    for edge in range(tree.first[0], tree.first[0] + tree.edges[0]):
        visits += tree.visits[edge]
    for edge in range(tree.first[0], tree.first[0] + tree.edges[0]):
        # After a single simulation nothing has been tried yet, and the priors stand.
        probabilities[0, tree.action[edge]] = tree.visits[edge] / visits if visits else tree.prior[edge]
        if tree.visits[edge]:
            action_values[0, tree.action[edge]] = tree.total[edge, seat] / tree.visits[edge]


@kernel
def _add_edge(tree, action, prior):
    edge = tree.used[1]
    tree.used[1] += 1
    tree.action[edge] = action
    tree.prior[edge] = prior
    tree.child[edge] = NO_NODE
    tree.visits[edge] = 0
    tree.total[edge] = 0.0


@kernel
def _add_node(tree, seat):
    node = tree.used[0]
    tree.used[0] += 1
    tree.seat[node] = seat
    tree.first[node] = tree.used[1]
    return node


@kernel
def _add_draw(tree, p):
    """A node for the draw of the seat on turn."""
    node = _add_node(tree, NOBODY)
    total = tiles_to_reveal(p)
    for slot in range(FACE_SLOTS):
        if p.unrevealed[slot] > 0:
            _add_edge(tree, slot - MAX_FACE, p.unrevealed[slot] / total)
    tree.edges[node] = tree.used[1] - tree.first[node]
    return node


@kernel
def _add_decision(tree, p, temperature):
    """A node for the decision in `p`, its priors by what every action gains at once."""
    node = _add_node(tree, p.seat)
    if game.can_place(p):
        for index in range(free_cells(p)):
            _add_edge(tree, p.free[index], _gain(p, p.free[index]))
    if game.can_draw(p):
        highest, lowest = highest_and_lowest_weight(p)
        gain = draw_value(p, highest, lowest) / (tiles_to_reveal(p) * (p.players - 1))
        _add_edge(tree, game.cells_of(p), gain)
    first, last = tree.first[node], tree.used[1]
    tree.edges[node] = last - first
    priors = tree.prior[first:last]
    if temperature > 0:
        priors[:] = np.exp((priors - np.max(priors)) / temperature)
        priors /= np.sum(priors)
    else:
        priors[:] = 1.0 / len(priors)
    return node


@kernel
def _gain(p, cell):
    return p.held * weight(p, cell) / (p.players - 1) if p.held != NOTHING else float(p.tiles_near[cell])


@kernel
def _best_cell(p):
    """The cell of the largest gain."""
    best, chosen = -np.inf, 0
    for index in range(free_cells(p)):
        gain = _gain(p, p.free[index])
        if gain > best:
            best, chosen = gain, index
    return p.free[chosen]


@kernel
def _furthest_behind(tree, node, arrived):
    """The face whose visits lag most behind its odds."""
    best, chosen = -np.inf, 0
    for edge in range(tree.first[node], tree.first[node] + tree.edges[node]):
        lag = tree.prior[edge] * (tree.visits[arrived] + 1) - tree.visits[edge]
        if lag > best:
            best, chosen = lag, edge
    return chosen


@kernel
def _most_urgent(tree, node, arrived, c):
    """The action to try next by PUCT; `arrived` is the edge that led to the node."""
    seat = tree.seat[node]
    low, high = tree.span[0], tree.span[1]
    scale = 1.0 / (high - low) if high > low else 1.0
    here = tree.total[arrived, seat] / tree.visits[arrived]
    untried = (here - low) * scale - UNTRIED_LOSS if high > low else 0.0
    explore = c * np.sqrt(tree.visits[arrived])
    best, chosen = -np.inf, 0
    for edge in range(tree.first[node], tree.first[node] + tree.edges[node]):
        visits = tree.visits[edge]
        mean = (tree.total[edge, seat] / visits - low) * scale if visits > 0 else untried
        urgency = mean + explore * tree.prior[edge] / (1 + visits)
        if urgency > best:
            best, chosen = urgency, edge
    return chosen
