"""Flat Monte Carlo: playouts from every promising action, their number shared out by sequential halving.

Karnin, Koren & Somekh, "Almost optimal exploration in multi-armed bandits" (ICML 2013): the budget is split evenly over
the rounds, each round over the candidates left, and the worse half of them drops out. The i-th playout of every action
draws from the same stream, so that luck common to all cancels to some degree.
"""

import numpy as np

from agents.search.agent import SearchAgent, check_range, run_rows
from agents.search.playout import GREEDY, play_out, random_face
from agents.search.position import POSITION, free_cells, gain, place
from isis_env import game
from isis_env.agent import Analysis
from isis_env.batch import Decisions
from isis_env.config import MAX_CELLS, MAX_PLAYERS
from isis_env.deal import random_bits
from isis_env.kernels.jit import kernel
from isis_env.kernels.threads import shared_kernel
from isis_env.policy import register
from isis_env.reward import REWARDS, returns

MAX_SIMULATIONS = 10**9  # hours per decision


@register("flat_mc")
class FlatMc(SearchAgent):
    """Greedy playouts from every promising action, by sequential halving.

    Args:
        simulations: playouts per decision.
        candidates: how many cells are looked at, those of the largest gain at once; drawing always is.
        reward: which return playouts are counted by, `win` or `margin`.
        exact: with how many free cells the exact solver takes over; 0 for never.
    """

    def __init__(self, simulations: int = 4000, candidates: int = 16, reward: str = "margin", exact: int = 6) -> None:
        super().__init__(reward, exact)
        check_range("simulations", simulations, 1, MAX_SIMULATIONS)
        check_range("candidates", candidates, 1, MAX_CELLS)
        self.simulations = simulations
        self.candidates = candidates

    def _search(self, positions: np.ndarray, decisions: Decisions, analysis: Analysis) -> None:
        run_rows(
            search_rows,
            len(positions),
            positions,
            decisions.seeds,
            self.simulations,
            self.candidates,
            REWARDS[self.reward],
            analysis.values,
            analysis.action_values,
            analysis.probabilities,
        )


@shared_kernel
def search_rows(first, last, positions, seeds, simulations, candidates, kind, values, action_values, probabilities):
    """Search the positions of rows `first` to `last - 1`; the last three arguments are those of `Analysis`."""
    work = np.empty(1, POSITION)
    result = np.empty(MAX_PLAYERS)
    for row in range(first, last):
        p = positions[row]
        actions = _candidates(p, candidates)
        totals = np.zeros(len(actions))
        playouts = 0  # of every action still in
        rounds = max(1, int(np.ceil(np.log2(len(actions)))))
        left = len(actions)
        for _ in range(rounds):
            share = max(1, simulations // (rounds * left))
            for index in range(left):
                for number in range(playouts, playouts + share):
                    work[0] = p
                    key = random_bits(seeds[row], number + 1)
                    _take(work[0], actions[index], key)
                    play_out(work[0], GREEDY, key)
                    returns(work[0], kind, result)
                    totals[index] += result[p.seat]
            playouts += share
            for index in range(left):
                action_values[row, actions[index]] = totals[index] / playouts
            best_first = np.argsort(-totals[:left])
            actions[:left] = actions[:left][best_first]
            totals[:left] = totals[:left][best_first]
            left = (left + 1) // 2
        values[row] = totals[0] / playouts
        probabilities[row, actions[0]] = 1.0


@kernel
def _take(p, action, key):
    """Take an action of the action space; which tile is drawn comes from the stream of `key`."""
    if action == game.cells_of(p):
        # The playout counts on from 0, so the draw takes a number far off.
        game.draw(p, random_face(p, key, 2**20))
    else:
        place(p, action)


@kernel
def _candidates(p, most):
    """The legal actions worth a look, int64[k]: the cells of the largest gains, and drawing."""
    free = free_cells(p)
    cells = np.zeros(free, np.int64)
    gains = np.zeros(free)
    for index in range(free):
        cell = int(p.free[index])
        cells[index] = cell
        gains[index] = gain(p, cell)
    cells = cells[np.argsort(-gains)][: most if game.can_place(p) else 0]
    if not game.can_draw(p):
        return cells
    return np.append(cells, game.cells_of(p))
