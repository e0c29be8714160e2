"""Many games as a Gymnasium `VectorEnv`, see `isis_env.learner_batch`. Needs gymnasium 1.1 or later.

After `import isis_env`, `gymnasium.make_vec("isis_env/IsisOsiris-v0", num_envs=64)` makes one too.
"""

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

try:
    from gymnasium.vector import AutoresetMode
except ImportError as error:
    raise ImportError(
        f"isis_env.envs.vector needs Gymnasium 1.1 or later, not {gymnasium.__version__}: pip install 'gymnasium>=1.1'"
    ) from error

from isis_env.agent import Agent
from isis_env.config import GameConfig
from isis_env.envs.spaces import action_space, configs_of, ignore_options, observation_space
from isis_env.learner_batch import LearnerBatch, Step
from isis_env.secrecy import Recall


class IsisOsirisVectorEnv(VectorEnv):
    """`num_envs` games, each with one learner, reset in the step that ends them (`AutoresetMode.SAME_STEP`).

    Observations are a dict of `observation` (float32[n, L], see `isis_env.observation.layout`) and `action_mask`
    (int8[n, A], the learner's legal actions), fresh arrays at every call; rewards float64[n], zero until a game ends
    and then its whole return; nothing is ever truncated.

    `infos` are empty but for steps that end games. They then have, as Gymnasium's own vector environments do,
    `final_obs` (object[n], the learner's view of the end) and `final_info` with `episode` (`r` returns float64[n], `l`
    the learner's decisions int64[n]), `win_share` (float64[n], 1/k for one of k winners, else 0) and `opponents`
    (int64[n, 3], the index of the agent on every other seat, clockwise from the learner; -1 beyond them), each with a
    mask bool[n] under its name with an underscore before it.

    Args:
        num_envs: number of games; by default one, or one per config.
        opponents: the agents, or their specs, that the other seats are drawn from, anew for every seat and episode.
        config: one setting for all games, or one per game, all on one board.
        shares: how often each opponent is drawn, relative to their sum; equally by default.
        recall, reward, illegal, threads: as in `isis_env.batch.Batch`.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        num_envs: int | None = None,
        *,
        opponents: Sequence[Agent | str] = ("random",),
        config: GameConfig | Sequence[GameConfig] = GameConfig(),
        shares: Sequence[float] | None = None,
        recall: Recall = "full",
        reward: str = "win",
        illegal: str = "raise",
        threads: int | None = None,
    ) -> None:
        self.games = LearnerBatch(
            configs_of(config, num_envs),
            opponents=opponents,
            shares=shares,
            recall=recall,
            reward=reward,
            illegal=illegal,
            threads=threads,
        )
        self.num_envs = self.games.num_games
        self.single_observation_space = observation_space(self.games.batch.board)
        self.single_action_space = action_space(self.games.batch.board)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.render_mode = None

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin a game in every row; row i plays the deals of `seed + i`, or of `seed[i]`.

        Without a seed every row goes to the next episode of its seed; the very first time the seeds are fresh. There
        are no options: those given are ignored with a warning.
        """
        ignore_options(options)
        return _seen(self.games.reset(seed)), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take the learner's decisions, integers [n], and let the opponents move until it is on turn everywhere.

        Raises:
            IllegalActionError: an action is outside its mask and `illegal="raise"`; no game has changed.
            RuntimeError: there are no games yet.
            TypeError: `actions` are not n integers.
        """
        step = self.games.step(actions)
        infos = self._final_infos(step) if len(step.ended.rows) else {}
        truncations = np.zeros(self.num_envs, np.bool_)
        return _seen(step), step.rewards.astype(np.float64), step.done, truncations, infos

    def __copy__(self) -> "IsisOsirisVectorEnv":
        """A deep copy: two environments on the same games would corrupt each other."""
        return copy.deepcopy(self)

    def _final_infos(self, step: Step) -> dict[str, Any]:
        ended = step.ended
        no_actions = np.zeros(step.action_masks.shape[1:], np.int8)
        final = np.full(self.num_envs, None, object)
        for row, view in zip(ended.rows.tolist(), ended.observations, strict=True):
            final[row] = {"observation": view, "action_mask": no_actions.copy()}

        def spread(values: np.ndarray, dtype: type) -> np.ndarray:
            """[k, ...], one for each ended game -> [n, ...], zero in the other rows."""
            found = np.zeros((self.num_envs, *values.shape[1:]), dtype)
            found[ended.rows] = values
            return found

        def masked(**entries: Any) -> dict[str, Any]:
            return {**entries, **{f"_{name}": step.done.copy() for name in entries}}

        episode = masked(r=spread(ended.returns, np.float64), l=spread(ended.lengths, np.int64))
        final_info = masked(
            episode=episode,
            win_share=spread(ended.win_shares, np.float64),
            opponents=spread(ended.opponents, np.int64),
        )
        return masked(final_obs=final, final_info=final_info)


def _seen(step: Step) -> dict[str, np.ndarray]:
    return {"observation": step.observations, "action_mask": step.action_masks}
