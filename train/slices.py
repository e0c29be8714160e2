"""Asking slow agents in slices, so that a progress bar moves and Ctrl-C takes effect soon."""

import time
from collections.abc import Callable

import numpy as np

from isis_env.agent import Agent, ask
from isis_env.batch import Decisions
from isis_env.game import NOTHING
from isis_env.kernels.threads import available_cores

# How long a slice should take.
SLICE_SECONDS = 1.0

# Fewest decisions in a slice per core, so that no core is idle while an agent shares its rows among threads.
MIN_PER_CORE = 4


class SlicedAgent:
    """An agent that is asked for some of the decisions at a time; no answer depends on the others in a batch.

    Args:
        agent: who is asked.
        report: called after every slice with the number of turns in it that began. Every cell of the board is filled in
            one turn, so a whole game has as many turns as cells.
    """

    def __init__(self, agent: Agent, report: Callable[[int], object]) -> None:
        self.recall = agent.recall
        self._agent = agent
        self._report = report
        self._min_size = MIN_PER_CORE * available_cores()
        self._size = self._min_size

    def act(self, decisions: Decisions) -> np.ndarray:
        """As `Agent.act`."""
        actions = np.empty(len(decisions), np.int64)
        first = 0
        while first < len(decisions):
            part = decisions[first : first + self._size]
            begin = time.perf_counter()
            actions[first : first + len(part)] = ask(self._agent, part)
            seconds = time.perf_counter() - begin
            self._size = max(self._min_size, int(len(part) * SLICE_SECONDS / max(seconds, 1e-9)))
            self._report(int((part.states["held"] == NOTHING).sum()))
            first += len(part)
        return actions
