"""What the environments for one learner share: their spaces, their number of games, what `reset` has no options for."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from isis_env.config import GameConfig, check_configs, check_positive
from isis_env.observation import observation_size


def observation_space(board: str) -> spaces.Dict:
    """`observation` float32[L] and `action_mask` int8[A] on `board`, a fresh space."""
    return spaces.Dict(
        {
            "observation": spaces.Box(-1.0, 1.0, (observation_size(board),), np.float32),
            "action_mask": spaces.Box(0, 1, (GameConfig(board).num_actions,), np.int8),
        }
    )


def action_space(board: str) -> spaces.Discrete:
    """The cells and, last, draw; a fresh space."""
    return spaces.Discrete(GameConfig(board).num_actions)


def number_of_games(config: GameConfig | Sequence[GameConfig], num_envs: int | None) -> int:
    """How many games `num_envs` asks for: by default one, or one per config.

    Raises:
        ValueError: it is no such number.
    """
    if isinstance(config, GameConfig):
        return 1 if num_envs is None else check_positive("num_envs", num_envs)
    configs = check_configs(config)
    if not configs or num_envs not in (None, len(configs)):
        raise ValueError(f"num_envs={num_envs!r}: must be the number of configs, {len(configs)}, and not 0")
    return len(configs)


def ignore_options(options: dict[str, Any] | None) -> None:
    """Warn the caller of `reset` of options that do nothing."""
    if options:
        warnings.warn(f"reset options {', '.join(map(repr, options))} ignored: there are none", stacklevel=3)
