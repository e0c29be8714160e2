"""The agent protocol: what chooses moves, for many games at once; a single game is a batch of one.

Row i of an answer depends on row i and on what the agent remembers for that game and seat, never on the other rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from isis_env.batch import Batch, Decisions
from isis_env.secrecy import Recall


@runtime_checkable
class Agent(Protocol):
    """What an agent must offer."""

    recall: Recall
    """Which recall it is to be given: an integer >= 1 or `"full"`."""

    def act(self, decisions: Decisions) -> np.ndarray:
        """Choose one legal action per row: integers [n]."""
        ...


@dataclass(frozen=True)
class Analysis:
    """What an agent makes of n pending decisions; agents that can tell have `analyse(decisions) -> Analysis`.

    Attributes:
        values: float64[n], the return that the seat on turn can expect; nan where the agent has no idea of it.
        action_values: float64[n, A], the same after each action; nan where the agent did not work it out.
        probabilities: float64[n, A], how the agent weighs the actions, 0 for illegal ones; rows add up to 1.
    """

    values: np.ndarray
    action_values: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def blank(cls, n: int, actions: int) -> "Analysis":
        """To be filled in: values nan, probabilities 0."""
        return cls(np.full(n, np.nan), np.full((n, actions), np.nan), np.zeros((n, actions)))

    def __getitem__(self, rows) -> "Analysis":
        """The analysis of some rows; of a slice a view."""
        return Analysis(self.values[rows], self.action_values[rows], self.probabilities[rows])

    def __setitem__(self, rows, other: "Analysis") -> None:
        self.values[rows] = other.values
        self.action_values[rows] = other.action_values
        self.probabilities[rows] = other.probabilities


def ask(agent: Agent, decisions: Decisions) -> np.ndarray:
    """An agent's answer, int64[n].

    Raises:
        TypeError: it is not one integer per decision.
    """
    answer = np.asarray(agent.act(decisions))
    if answer.shape != (len(decisions),) or answer.dtype.kind not in "iu":
        found = f"shape {answer.shape} and type {answer.dtype}"
        raise TypeError(f"{type(agent).__name__}.act() answered with {found}: must be {len(decisions)} integers")
    return answer.astype(np.int64, copy=False)


def ask_each(agents: Sequence[Agent], chooser: np.ndarray, batch: Batch, rows: np.ndarray) -> np.ndarray:
    """The actions int64[m] of the games in `rows` (int64[m]), each chosen by the agent of index `chooser` (int[m])."""
    actions = np.empty(len(rows), np.int64)
    for index in np.unique(chooser):
        mine = chooser == index
        actions[mine] = ask(agents[index], batch.decisions(rows[mine], agents[index].recall))
    return actions
