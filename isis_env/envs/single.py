"""One game as a Gymnasium environment: a learner against opponents that move inside the step.

After `import isis_env`, `gymnasium.make("isis_env/IsisOsiris-v0")` makes one too.
"""

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from isis_env.agent import Agent
from isis_env.config import GameConfig
from isis_env.envs.spaces import action_space, ignore_options, observation_space
from isis_env.learner_batch import LearnerBatch, Step
from isis_env.render.text import render_text
from isis_env.secrecy import Recall, known_states


class IsisOsirisSingleEnv(gymnasium.Env):
    """A learner against opponents, see `isis_env.learner_batch`; in episode e of a seed it sits on seat e mod n.

    Observations are a dict of `observation` (float32[L], see `isis_env.observation.layout`) and `action_mask` (int8[A],
    the learner's legal actions, all zero after the end), fresh arrays at every call. The reward is zero until the game
    ends, whoever ends it, and then the learner's whole return. `info` is empty but at the end, where it has `win_share`
    (1/k for one of k winners, else 0) and `opponents` (the index of the agent on every other seat, clockwise).

    Args:
        opponents: the agents, or their specs, that the other seats are drawn from, anew for every seat and episode.
        config: the form of the game.
        shares: how often each opponent is drawn, relative to their sum; equally by default.
        recall, reward, illegal: as in `isis_env.isis_osiris_v0.env`, but for the default of recall.
        render_mode: None or `"ansi"`.
    """

    metadata = {"render_modes": ["ansi"]}

    def __init__(
        self,
        *,
        opponents: Sequence[Agent | str] = ("random",),
        config: GameConfig = GameConfig(),
        shares: Sequence[float] | None = None,
        recall: Recall = "full",
        reward: str = "win",
        illegal: str = "raise",
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode={render_mode!r}: must be None or 'ansi'")
        self.games = LearnerBatch(
            config, 1, opponents=opponents, shares=shares, recall=recall, reward=reward, illegal=illegal, threads=1
        )
        self.observation_space = observation_space(config.board)
        self.action_space = action_space(config.board)
        self.render_mode = render_mode
        self._recall = recall
        self._step: Step | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin the first game of a seed; without one the next of the same seed, or of a fresh one the first time.

        There are no options: those given are ignored with a warning.
        """
        super().reset(seed=seed)
        ignore_options(options)
        if seed is not None or self._step is None:
            self._step = self.games.reset(seed)
        elif not self._step.done[0]:
            self._step = self.games.reset()
        else:  # the step that ended the last game has begun the next
            self._step = self.games.look()
        return self._seen(), {}

    def step(self, action: int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Take the learner's decision, and let the opponents move until it is on turn or the game has ended.

        Raises:
            IllegalActionError: the action is outside the mask and `illegal="raise"`; the game is as it was.
            ResetNeeded: there is no game, or it has ended.
        """
        if self._step is None or self._step.done[0]:
            raise gymnasium.error.ResetNeeded("step() without a game under way: call reset() first")
        step = self._step = self.games.step(np.atleast_1d(action))
        if not step.done[0]:
            return self._seen(), 0.0, False, False, {}
        others = step.ended.opponents[0]
        info = {"win_share": float(step.ended.win_shares[0]), "opponents": others[others >= 0]}
        return self._seen(), float(step.rewards[0]), True, False, info

    def action_masks(self) -> np.ndarray:
        """int8[A]: the learner's legal actions, as sb3-contrib asks for them."""
        return self._seen()["action_mask"]

    def render(self) -> str | None:
        """The position as the learner may know it, face up after the end, as text."""
        if self._step is None:
            raise gymnasium.error.ResetNeeded("render() before reset(): call reset() first")
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render_mode: pass render_mode='ansi'")
            return None
        batch = self.games.batch
        if self._step.done[0]:
            return render_text(batch.final_states[0], ended=True)
        return render_text(known_states(batch.states, batch.states["seat"], self._recall)[0])

    def __copy__(self) -> "IsisOsirisSingleEnv":
        """A deep copy: two environments on the same games would corrupt each other."""
        return copy.deepcopy(self)

    def _seen(self) -> dict[str, np.ndarray]:
        if self._step is None:
            raise gymnasium.error.ResetNeeded("no game yet: call reset() first")
        if self._step.done[0]:
            mask = np.zeros_like(self._step.action_masks[0])
            return {"observation": self._step.ended.observations[0].copy(), "action_mask": mask}
        return {
            "observation": self._step.observations[0].copy(),
            "action_mask": self._step.action_masks[0].copy(),
        }
