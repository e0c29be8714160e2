"""Perfect memory for agents that see no more than lies open on the table."""

from dataclasses import replace

import numpy as np

from isis_env import game
from isis_env.agent import Agent, Analysis, ask
from isis_env.batch import Decisions
from isis_env.config import MAX_CELLS, MAX_PLAYERS
from isis_env.game import TILE, UNKNOWN
from isis_env.kernels.jit import kernel
from isis_env.observation import observe
from isis_env.policy import make_agent, register
from isis_env.secrecy import FULL, Recall


@register("remember")
class Remember:
    """Takes recall 1, keeps every face that it is shown, and tells them to another agent, which decides.

    Every seat is shown every face at one of its own decisions. So this is what full recall tells, but for the order of
    the placements, which stays `UNKNOWN`; a search with `reuse` then begins anew at every decision.

    Args:
        agent: spec of the agent that decides; it must take full recall.
    """

    recall: Recall = 1

    def __init__(self, agent: str) -> None:
        self._agent: Agent = make_agent(agent)
        if self._agent.recall != "full":
            raise ValueError(f"agent={agent!r}: takes recall {self._agent.recall}, must take 'full'")
        self._faces = np.empty((0, MAX_PLAYERS, MAX_CELLS), np.int8)  # by game and seat; UNKNOWN where none was seen
        if hasattr(self._agent, "analyse"):
            self.analyse = self._analyse

    def act(self, decisions: Decisions) -> np.ndarray:
        """Choose as the agent does that knows all faces shown in the game.

        Raises:
            ValueError: faces are missing, for this was not asked at every decision of a game from the first on.
        """
        return ask(self._agent, self._completed(decisions))

    def _analyse(self, decisions: Decisions) -> Analysis:
        return self._agent.analyse(self._completed(decisions))  # type: ignore[attr-defined]

    def _completed(self, decisions: Decisions) -> Decisions:
        more = int(decisions.games.max(initial=-1)) + 1 - len(self._faces)
        if more > 0:
            self._faces = np.concatenate([self._faces, np.full((more, MAX_PLAYERS, MAX_CELLS), UNKNOWN, np.int8)])
        completed = replace(
            decisions, states=decisions.states.copy(), observations=np.empty_like(decisions.observations)
        )
        missing = _complete(
            completed.states, completed.observations, decisions.seats, decisions.games, decisions.first, self._faces
        )
        if missing >= 0:
            raise ValueError(
                f"game {decisions.games[missing]}: seat {decisions.seats[missing]} has not seen all faces; "
                "the agent must be asked at every decision of a game, from the first on"
            )
        return completed


@kernel
def _complete(states, observations, seats, games, first, faces):
    """Fill in concealed states from `faces`, which take in what these show; a row where some are missing, or -1."""
    for row in range(len(states)):
        s = states[row]
        seen = faces[games[row], seats[row]]
        if first[row]:
            seen[:] = UNKNOWN
        for cell in range(game.cells_of(s)):
            if s.board[cell] == TILE:
                if s.face[cell] != UNKNOWN:
                    seen[cell] = s.face[cell]
                elif seen[cell] == UNKNOWN:
                    return row
                s.face[cell] = seen[cell]
        game.recount(s)
        observe(s, seats[row], FULL, observations[row])
    return -1
