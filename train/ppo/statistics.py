"""What PPO measures in an update: the learner's losses, and what happened in the games of its rollout."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

_NAMES_IN_SB3 = {
    "learning_rate": "train/learning_rate",
    "policy_loss": "train/policy_gradient_loss",
    "value_loss": "train/value_loss",
    "approx_kl": "train/approx_kl",
    "clip_fraction": "train/clip_fraction",
    "explained_variance": "train/explained_variance",
}

# What `learner_metrics` and `EpisodeStatistics.summary` measure, returns by kind of opponent aside.
COLUMNS = (*_NAMES_IN_SB3, "entropy", "decisions", "draw_share")


def learner_metrics(model: MaskablePPO) -> dict[str, float]:
    """The learner's own numbers of its last update."""
    values = model.logger.name_to_value
    found = {ours: float(values[theirs]) for ours, theirs in _NAMES_IN_SB3.items()}
    found["entropy"] = -float(values["train/entropy_loss"])
    return {name: float(f"{value:.5g}") for name, value in found.items()}


class EpisodeStatistics(BaseCallback):
    """Collects what happens in the games between two updates.

    Args:
        kind: what to call an opponent, by its index in the environment.
    """

    def __init__(self, kind: Callable[[int], str]) -> None:
        super().__init__()
        self._kind = kind
        self.clear()

    def clear(self) -> None:
        """Forget the games so far."""
        # By kind of the opponent on the seat after the learner's
        self.returns: dict[str, list[float]] = defaultdict(list)
        self.shares: dict[str, list[float]] = defaultdict(list)  # of the win
        self._lengths: list[int] = []
        self._choices = self._draws = 0

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                kind = self._kind(info["opponents"][0])
                self.returns[kind].append(info["episode"]["r"])
                self.shares[kind].append(info["win_share"])
                self._lengths.append(info["episode"]["l"])
        masks, actions = self.locals["action_masks"], self.locals["actions"]
        choice = (masks[:, -1] == 1) & (masks[:, :-1].any(axis=1))
        self._choices += int(choice.sum())
        self._draws += int((actions[choice] == masks.shape[1] - 1).sum())
        return True

    def summary(self) -> dict[str, float]:
        """Mean return per kind of opponent, decisions per game, and the share of draws where both kinds were legal."""
        summary = {f"return_{kind}": round(float(np.mean(r)), 4) for kind, r in self.returns.items()}
        if self._lengths:
            summary["decisions"] = round(float(np.mean(self._lengths)), 2)
        if self._choices:
            summary["draw_share"] = round(self._draws / self._choices, 4)
        return summary
