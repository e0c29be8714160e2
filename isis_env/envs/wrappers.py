"""PettingZoo wrappers for those who want the same environment in another shape."""

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo.utils import BaseWrapper

from isis_env import game
from isis_env.config import MAX_FACE
from isis_env.envs.aec import IsisOsirisEnv
from isis_env.game import EMPTY, NOTHING, STATE, TILE
from isis_env.observation import FACE_SCALE, layout, planes

_FACES = np.array([face for face in range(-MAX_FACE, MAX_FACE + 1) if face])  # in the order of the vector's parts


class PerfectMemory(BaseWrapper):
    """Under any recall, shows every agent what `recall="full"` would: it keeps the faces that the agent was shown.

    Works on observations alone. What an agent sees is taken in whenever it is observed, and before each of its steps.

    Args:
        env: of `isis_osiris_v0.env`; games that are under way already are remembered from here on.
    """

    def __init__(self, env: IsisOsirisEnv) -> None:
        if not isinstance(env, IsisOsirisEnv):
            raise TypeError(f"env={env}: must be an IsisOsirisEnv; other wrappers go around this one")
        super().__init__(env)
        self._config = env.config
        self._forget()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game, of which nothing has been seen."""
        super().reset(seed, options)
        self._forget()

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        """What the environment shows `agent`, with all faces seen before, unrevealed tiles and scores."""
        seen = super().observe(agent)
        self._complete(seen["observation"], self._faces[agent])
        return seen

    def step(self, action: int | None) -> None:
        """Take in what the agent on turn sees, then step."""
        if self.agents:
            self.observe(self.agent_selection)
        super().step(action)

    def _forget(self) -> None:
        side = self._config.side
        self._faces = {agent: np.zeros((side, side), np.float32) for agent in self.possible_agents}

    def _complete(self, vector: np.ndarray, faces: np.ndarray) -> None:
        """Take the faces that `vector` shows into `faces`, as entries of the vector, and fill in all others."""
        *stones, tiles, shown = planes(vector, self._config.board)
        faces[shown != 0] = shown[shown != 0]
        faces[tiles == 0] = 0  # of a game before
        shown[:] = faces
        if ((faces != 0) != (tiles != 0)).any():
            return  # it was not there when some were shown, and so cannot count
        # The rulebook counts on a state that holds what the vector tells, seats relative as they are there.
        parts, cells = layout(self._config.board), self._config.cells
        table = np.zeros(1, STATE)[0]
        table.side = self._config.side
        table.board[:] = EMPTY
        for seat, plane in enumerate(stones):
            table.board[:cells][plane.ravel() != 0] = seat
        table.board[:cells][tiles.ravel() != 0] = TILE
        table.face[:cells] = np.rint(faces.ravel() * FACE_SCALE)
        held = vector[parts["held"].slice]
        table.held = _FACES[held.argmax()] if held.any() else NOTHING
        game.recount(table)
        unrevealed, scores = parts["unrevealed"], parts["scores"]
        vector[unrevealed.slice] = table.unrevealed[_FACES + MAX_FACE] / unrevealed.scale
        vector[scores.slice] = table.score / scores.scale


class MaskInInfo(BaseWrapper):
    """Observations are the plain vector, and masks stand in `infos[agent]["action_mask"]`, as some libraries want it.

    Args:
        env: of `isis_osiris_v0.env`, or a `PerfectMemory` of one.
    """

    def __init__(self, env: IsisOsirisEnv | PerfectMemory) -> None:
        super().__init__(env)
        self.observation_spaces = {
            agent: spaces.Box(-1.0, 1.0, env.observation_space(agent)["observation"].shape, np.float32)
            for agent in self.possible_agents
        }
        self._infos: dict[str, dict[str, Any]] | None = None  # made when they are asked for

    def observation_space(self, agent: str) -> spaces.Box:
        """float32[L]; the same object at every call for one agent."""
        return self.observation_spaces[agent]

    def observe(self, agent: str) -> np.ndarray:
        """The vector of what `agent` may know now, a fresh array."""
        return super().observe(agent)["observation"]

    @property
    def infos(self) -> dict[str, dict[str, Any]]:
        """For every agent `action_mask`, int8[A], all zero off turn; the same object until the next step."""
        if self._infos is None:
            self._infos = {
                agent: {**info, "action_mask": self.env.observe(agent)["action_mask"]}
                for agent, info in self.env.infos.items()
            }
        return self._infos

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """As the environment does."""
        super().reset(seed, options)
        self._infos = None

    def step(self, action: int | None) -> None:
        """As the environment does."""
        super().step(action)
        self._infos = None
