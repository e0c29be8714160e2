"""Depth-limited expectimax over whole turns: every stone, every face that a draw can show, every cell for it.

Each seat maximises its own value (max^n); with two players, where one's value is the other's loss, alpha-beta prunes
between decisions and Star1 and Star2 (Ballard, "The *-minimax search procedure for trees containing chance nodes",
1983) at draws: bounds on the faces still to come, and the value of each face's most promising cell as a lower bound of
that face. All of this is sound: the choice is that of the full search. Positions at the horizon are judged by
`agents.search.evaluation`.
"""

import numpy as np

from agents.search.agent import SearchAgent, check_range, run_rows
from agents.search.evaluation import estimate_margins, form_index, load_weights, win_returns
from agents.search.exact import TIE
from agents.search.position import POSITION, free_cells, gain, place
from isis_env import game
from isis_env.agent import Analysis
from isis_env.batch import Decisions
from isis_env.config import MAX_CELLS, MAX_FACE, MAX_PLAYERS
from isis_env.game import FACE_SLOTS
from isis_env.kernels.jit import kernel
from isis_env.kernels.threads import shared_kernel
from isis_env.policy import register
from isis_env.reward import MARGIN_BOUND, REWARDS, WIN, returns

# A bound on values, for Star1
_BOUND = {"win": 1.0, "margin": float(MARGIN_BOUND)}


@register("expectimax")
class Expectimax(SearchAgent):
    """Looks a number of turns ahead through every action and every face, and judges by a fitted evaluation.

    Args:
        depth: turns to look ahead, the own one included.
        reward: which return every seat maximises, `win` or `margin`.
        exact: with how many free cells the exact solver takes over; 0 for never.
    """

    def __init__(self, depth: int = 2, reward: str = "win", exact: int = 6) -> None:
        super().__init__(reward, exact)
        check_range("depth", depth, 1, MAX_CELLS)
        self.depth = depth
        self.weights, self.spread = load_weights()

    def _search(self, positions: np.ndarray, decisions: Decisions, analysis: Analysis) -> None:
        run_rows(
            search_rows,
            len(positions),
            positions,
            self.depth,
            REWARDS[self.reward],
            _BOUND[self.reward],
            self.weights,
            self.spread,
            analysis.values,
            analysis.action_values,
            analysis.probabilities,
        )


# Rows of `work` at every depth
_RESULT, _MEAN = 0, 1

# As variables, not literals, for which numba would compile versions of `_search` that call each other in a circle
_ROOT = np.int64(0)
_ALL, _BEST = np.int64(MAX_CELLS), np.int64(1)


@shared_kernel
def search_rows(first, last, positions, turns, kind, bound, weights, spread, values, action_values, probabilities):
    """Search the positions of rows `first` to `last - 1`; the last three arguments are those of `Analysis`."""
    stack = np.empty(2 * turns + 2, POSITION)
    work = np.empty((2 * turns + 2, 2, MAX_PLAYERS))
    lower = np.empty((2 * turns + 2, FACE_SLOTS))
    order = np.empty((2 * turns + 2, MAX_CELLS), np.int8)
    for row in range(first, last):
        p = positions[row]
        stack[0] = p
        form = form_index(p)
        values[row] = _search_root(
            stack, turns, kind, bound, weights[form], spread[form], work, lower, order, action_values[row]
        )
        ties = 0
        for action in range(action_values.shape[1]):
            ties += action_values[row, action] >= values[row] - TIE
        for action in range(action_values.shape[1]):
            probabilities[row, action] = 1 / ties if action_values[row, action] >= values[row] - TIE else 0.0


@kernel
def _search_root(stack, turns, kind, bound, weights, spread, work, lower, order, action_values):
    """The value of `stack[0]` for the seat on turn, and that of the actions to `action_values`.

    Actions that turn out to be worse than one looked at before keep their nan.
    """
    p = stack[0]
    best = -np.inf
    if game.can_draw(p):
        value = 0.0
        total = game.tiles_to_reveal(p)
        for slot in range(FACE_SLOTS):
            if p.unrevealed[slot] > 0:
                stack[1] = p
                game.draw(stack[1], slot - MAX_FACE)
                _search(
                    stack, _ROOT + 1, turns, -np.inf, np.inf, _ALL, kind, bound, weights, spread, work, lower, order
                )
                value += work[1, _RESULT, p.seat] * p.unrevealed[slot] / total
        action_values[game.cells_of(p)] = value
        best = value
    if game.can_place(p):
        _order_cells(p, order[0])
        for index in range(free_cells(p)):
            cell = order[0, index]
            stack[1] = p
            place(stack[1], cell)
            alpha, beta = _window(p, stack[1], best - 2 * TIE, np.inf)
            _search(stack, _ROOT + 1, turns - 1, alpha, beta, _ALL, kind, bound, weights, spread, work, lower, order)
            value = work[1, _RESULT, p.seat]
            if value > best - 2 * TIE:
                action_values[cell] = value
                best = max(best, value)
    return best


@kernel
def _search(stack, depth, turns, alpha, beta, tries, kind, bound, weights, spread, work, lower, order):
    """Write the value of `stack[depth]`, `turns` turns before the horizon, to `work[depth, _RESULT]`.

    With two players it is exact where the seat on turn gets between `alpha` and `beta`, else a bound on that side; with
    more it is exact. Where a tile is held, no more than `tries` cells are tried for it, the most promising first.
    """
    p = stack[depth]
    result = work[depth, _RESULT]
    if game.is_over(p):
        returns(p, kind, result)
        return
    if turns == 0:
        judge(p, kind, weights, spread[free_cells(p)], lower[depth], result)
        return
    prune = p.players == 2
    best = -np.inf
    if game.can_place(p):
        _order_cells(p, order[depth])
        for index in range(min(tries, free_cells(p))):
            child = stack[depth + 1]
            stack[depth + 1] = p
            place(child, order[depth, index])
            low, high = _window(p, child, max(alpha, best), beta)
            _search(stack, depth + 1, turns - 1, low, high, _ALL, kind, bound, weights, spread, work, lower, order)
            if work[depth + 1, _RESULT, p.seat] > best:
                best = work[depth + 1, _RESULT, p.seat]
                result[:] = work[depth + 1, _RESULT]
                if prune and best >= beta:
                    return
    if not game.can_draw(p):
        return

    total = game.tiles_to_reveal(p)
    mean = work[depth, _MEAN]
    mean[:] = 0.0
    rest_lower, rest_odds = -np.inf, 1.0  # of the faces still to come
    if prune and beta < np.inf:
        rest_lower = 0.0
        for slot in range(FACE_SLOTS):
            if p.unrevealed[slot] > 0:
                stack[depth + 1] = p
                game.draw(stack[depth + 1], slot - MAX_FACE)
                _search(
                    stack, depth + 1, turns, -np.inf, np.inf, _BEST, kind, bound, weights, spread, work, lower, order
                )
                lower[depth, slot] = work[depth + 1, _RESULT, p.seat] * p.unrevealed[slot] / total
                rest_lower += lower[depth, slot]
        if rest_lower >= beta:
            result[:] = -rest_lower
            result[p.seat] = rest_lower
            return
    needed = max(alpha, best)
    for slot in range(FACE_SLOTS):
        if p.unrevealed[slot] == 0:
            continue
        odds = p.unrevealed[slot] / total
        rest_odds -= odds
        low, high = -np.inf, np.inf
        if prune:
            low = (needed - mean[p.seat] - rest_odds * bound) / odds
            if beta < np.inf:
                rest_lower -= lower[depth, slot]
                high = (beta - mean[p.seat] - rest_lower) / odds
        stack[depth + 1] = p
        game.draw(stack[depth + 1], slot - MAX_FACE)
        _search(stack, depth + 1, turns, low, high, _ALL, kind, bound, weights, spread, work, lower, order)
        mean += odds * work[depth + 1, _RESULT]
        if prune:
            value = mean[p.seat]
            if value + rest_odds * bound <= needed:
                value += rest_odds * bound
            elif value + rest_lower >= beta:
                value += rest_lower
            else:
                continue
            mean[:] = -value
            mean[p.seat] = value
            break
    if mean[p.seat] > best:
        result[:] = mean


@kernel
def judge(p, kind, weights, spread, work, out):
    """Write every seat's estimated return to `out` for a position between two turns (`work` float64[8])."""
    estimate_margins(p, weights, work, out)
    if kind == WIN:
        win_returns(out, p.players, spread)


@kernel
def _window(p, child, alpha, beta):
    """The window of the seat on turn in `p` as that of the seat on turn in `child`."""
    if p.players > 2:
        return -np.inf, np.inf
    if child.seat == p.seat:
        return alpha, beta
    return -beta, -alpha


@kernel
def _order_cells(p, order):
    """Write the free cells to `order`, those first that gain most at once."""
    for count in range(free_cells(p)):
        cell = p.free[count]
        here = gain(p, cell)
        place_at = count
        while place_at > 0 and gain(p, order[place_at - 1]) < here:
            order[place_at] = order[place_at - 1]
            place_at -= 1
        order[place_at] = cell
