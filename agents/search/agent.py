"""What the search agents share: exact ends, threads over rows, analysis, and the choice from it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from agents.search.exact import DEFAULT_MAX_NODES, TIE, Solver
from agents.search.position import new_positions
from isis_env.agent import Analysis
from isis_env.batch import Decisions
from isis_env.config import MAX_CELLS, check_choice, shown
from isis_env.deal import random_below
from isis_env.kernels.jit import kernel
from isis_env.kernels.threads import available_cores, run_shared
from isis_env.reward import REWARDS
from isis_env.secrecy import Recall


class SearchAgent:
    """An agent that searches from the position that full recall knows; draws are chance nodes.

    Subclasses implement `_search`. Where `exact` free cells or fewer are left, the exact solver decides instead.

    Args:
        reward: which return every seat maximises, `win` or `margin`.
        exact: with how many free cells the exact solver takes over, 0 to 36; 0 for never.
        max_nodes: positions that the exact solver may hold.

    Raises:
        ValueError: an argument is not one of those.
    """

    recall: Recall = "full"

    def __init__(self, reward: str = "win", exact: int = 6, max_nodes: int = DEFAULT_MAX_NODES) -> None:
        check_choice("reward", reward, tuple(REWARDS))
        check_range("exact", exact, 0, MAX_CELLS)
        self.reward = reward
        self.exact = exact
        self._solver = Solver(reward, max_nodes)

    def act(self, decisions: Decisions) -> np.ndarray:
        """The most probable action of each row, int64[n]; the row's seed decides between equals."""
        actions = np.empty(len(decisions), np.int64)
        _choose_most_probable(self.analyse(decisions).probabilities, decisions.seeds, actions)
        return actions

    def analyse(self, decisions: Decisions) -> Analysis:
        """What the search finds for each row."""
        analysis = Analysis.blank(*decisions.action_masks.shape)
        free = (analysis.probabilities.shape[1] - 1) - decisions.states["placed"].astype(np.int64)
        for row in np.flatnonzero(free <= self.exact):
            self._solve(decisions.states[row], analysis[row : row + 1])
        rows = np.flatnonzero(free > self.exact)
        if len(rows):
            found = Analysis.blank(len(rows), analysis.probabilities.shape[1])
            self._search(new_positions(decisions.states[rows]), decisions[rows], found)
            analysis[rows] = found
        return analysis

    def _solve(self, state: np.record, analysis: Analysis) -> None:
        solution = self._solver.solve(state)
        best = solution.best_actions(int(state.seat))
        analysis.values[0] = solution.values[state.seat]
        analysis.action_values[0] = solution.action_values[:, state.seat]
        analysis.probabilities[0, best] = 1 / len(best)

    def _search(self, positions: np.ndarray, decisions: Decisions, analysis: Analysis) -> None:
        """Fill in the analysis of `positions` (`POSITION[n]`), the decisions' own."""
        raise NotImplementedError


def check_range(name: str, value: float, lowest: float, highest: float) -> None:
    """Refuse a number, NaN included, that is not from `lowest` to `highest`, by a ValueError that calls it `name`."""
    if not lowest <= value <= highest:
        raise ValueError(f"{name}={shown(value)}: must be from {lowest} to {highest}")


def run_rows(shared: Callable[..., None], rows: int, *arguments: Any) -> None:
    """Have a kernel search every row of its arguments, on all cores."""
    run_shared(shared, rows, available_cores(), *arguments, min_rows=1)


@kernel
def _choose_most_probable(probabilities, seeds, actions):
    for row in range(len(actions)):
        highest = np.max(probabilities[row])
        ties = 0
        for action in range(probabilities.shape[1]):
            ties += probabilities[row, action] >= highest - TIE
        nth = random_below(seeds[row], 0, ties)
        for action in range(probabilities.shape[1]):
            if probabilities[row, action] >= highest - TIE:
                if nth == 0:
                    actions[row] = action
                    break
                nth -= 1
