"""Many games as a Stable-Baselines3 `VecEnv`, see `isis_env.learner_batch`."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise ImportError("isis_env.envs.sb3 needs Stable-Baselines3: pip install 'isis-env[sb3]'") from error

from isis_env import deal
from isis_env.agent import Agent
from isis_env.config import GameConfig
from isis_env.envs.spaces import configs_of
from isis_env.learner_batch import LearnerBatch, Step
from isis_env.secrecy import Recall


class IsisOsirisVecEnv(VecEnv):
    """`num_envs` games, each with one learner; observations float32[n, L], masks through `env_method("action_masks")`.

    `infos` are empty but for the last step of a game, which has `terminal_observation` (the learner's view of the full
    board), `episode` (`r` its return, `l` its decisions; `t` is there for SB3 and always 0), `win_share` (1/k for one
    of k winners, else 0) and `opponents` (the index of the agent on every other seat, clockwise from the learner).

    Args:
        config: one setting for all games, or one per game, all on one board.
        num_envs: number of games; by default one, or one per config.
        opponents: the agents, or their specs, that the other seats are drawn from, anew for every seat and episode.
        shares: how often each is drawn, relative to their sum; equally by default.
        seed: slot i plays the deals of `seed + i`; fresh ones without a seed.
        recall, reward, illegal, threads: as in `isis_env.batch.Batch`.
        margin_weight: the learner's return is the reward's plus this much per point of margin.
    """

    def __init__(
        self,
        config: GameConfig | Sequence[GameConfig],
        num_envs: int | None = None,
        *,
        opponents: Sequence[Agent | str],
        shares: Sequence[float] | None = None,
        seed: int | None = None,
        recall: Recall = "full",
        reward: str = "win",
        illegal: str = "raise",
        margin_weight: float = 0.0,
        threads: int | None = None,
    ) -> None:
        self.games = LearnerBatch(
            configs_of(config, num_envs),
            opponents=opponents,
            shares=shares,
            recall=recall,
            reward=reward,
            illegal=illegal,
            margin_weight=margin_weight,
            threads=threads,
        )
        self.batch = self.games.batch
        self.render_mode = None
        super().__init__(
            self.batch.num_games,
            spaces.Box(-1.0, 1.0, (self.batch.observation_size,), np.float32),
            spaces.Discrete(self.batch.num_actions),
        )
        self._seed = self._check_seed(seed)
        self._actions = np.zeros(self.num_envs, np.int64)
        self._masks: np.ndarray | None = None

    def set_opponents(self, opponents: Sequence[Agent | str], shares: Sequence[float] | None = None) -> None:
        """Change the agents and their shares; games under way go on against whoever has the same index now."""
        self.games.set_opponents(opponents, shares)

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Take effect at the next `reset`: slot i plays the deals of `seed + i`."""
        self._seed = self._check_seed(seed)
        return [None if seed is None else seed + slot for slot in range(self.num_envs)]

    def _check_seed(self, seed: int | None) -> int | None:
        return None if seed is None else deal.check_seeds(seed, self.num_envs, "slot")

    def reset(self) -> np.ndarray:
        """Begin a game in every slot, and let the opponents move until the learner is on turn everywhere."""
        seed, self._seed = self._seed, None
        return self._show(self.games.reset(seed))

    def snapshot(self) -> dict[str, np.ndarray]:
        """Copies of all that the games and their players depend on, the opponents themselves apart."""
        return self.games.snapshot()

    def restore(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Go on from a `snapshot` of an environment with the same settings; returns the pending observations."""
        return self._show(self.games.restore(arrays))

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Observations [n, L], rewards float32[n], dones bool[n], and the infos of the class description."""
        step = self.games.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        views, *ended = step.ended.observations, *(part.tolist() for part in step.ended[2:])
        for slot, view, paid, share, length, others in zip(step.ended.rows.tolist(), views, *ended, strict=True):
            infos[slot] = {
                "terminal_observation": view,
                "episode": {"r": paid, "l": length, "t": 0.0},
                "win_share": share,
                "opponents": [index for index in others if index >= 0],
            }
        return self._show(step), step.rewards, step.done, infos

    def action_masks(self) -> np.ndarray:
        """int8[n, A]: the learner's legal actions, a fresh array."""
        if self._masks is None:
            raise RuntimeError("action_masks() before reset(): call reset() first")
        return self._masks.copy()

    def _show(self, step: Step) -> np.ndarray:
        self._masks = step.action_masks
        return step.observations

    def __copy__(self) -> "IsisOsirisVecEnv":
        """A deep copy: two environments on the same games would corrupt each other."""
        return copy.deepcopy(self)

    # What SB3 asks of a VecEnv beyond stepping. One object serves all games, so indices select rows of one answer.

    def close(self) -> None:
        """Nothing to release."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        if indices is not None:
            raise NotImplementedError("set_attr with indices: all games are one object")
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        answer = getattr(self, method_name)(*args, **kwargs)
        if method_name == "action_masks":  # one array for all games; its rows are the games' answers
            return answer if indices is None else answer[list(self._get_indices(indices))]
        return [answer] * len(list(self._get_indices(indices)))

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))
