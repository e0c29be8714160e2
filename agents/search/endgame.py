"""The exact solver as an agent: perfect play once few enough cells are free."""

import numpy as np

from agents.search.agent import SearchAgent, check_range
from agents.search.exact import DEFAULT_MAX_NODES
from isis_env.agent import Agent, Analysis, ask
from isis_env.batch import Decisions
from isis_env.config import MAX_CELLS
from isis_env.policy import make_agent, register


@register("exact")
class Exact(SearchAgent):
    """Plays the end of the game perfectly, and leaves what comes before to another agent.

    Args:
        free: with how many free cells it takes over, 0 to 36; 9 is all of `mini3`.
        before: spec of the agent that plays until then; it must take full recall.
        reward: which return every seat maximises, `win` or `margin`.
        max_nodes: positions that it may hold; one that takes more is refused with an error.
    """

    def __init__(
        self, free: int = 6, before: str = "greedy", reward: str = "win", max_nodes: int = DEFAULT_MAX_NODES
    ) -> None:
        check_range("free", free, 0, MAX_CELLS)
        super().__init__(reward, free, max_nodes)
        self._before: Agent = make_agent(before)
        if self._before.recall != "full":
            raise ValueError(f"before={before!r}: takes recall {self._before.recall}, must take 'full'")

    def _search(self, positions: np.ndarray, decisions: Decisions, analysis: Analysis) -> None:
        analysis.probabilities[np.arange(len(decisions)), ask(self._before, decisions)] = 1.0
