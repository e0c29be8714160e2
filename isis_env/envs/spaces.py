"""What the environments share: spaces, actions, the settings of their games, options that `reset` does not have."""

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from isis_env.batch_arguments import check_num_games
from isis_env.config import GameConfig, check_configs, shown
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


def configs_of(config: GameConfig | Sequence[GameConfig], num_envs: int | None) -> list[GameConfig]:
    """The settings of `num_envs` games, by default of one, or of one per config; errors are of `check_configs`."""
    if isinstance(config, GameConfig):
        check_num_games(num_envs, config, "num_envs")
    one = num_envs is None and isinstance(config, GameConfig)
    return check_configs(config, 1 if one else num_envs, "num_envs")


def ignore_options(options: dict[str, Any] | None) -> None:
    """Warn the caller of `reset` of options that do nothing."""
    if options:
        warnings.warn(f"reset options {', '.join(map(repr, options))} ignored: there are none", stacklevel=3)


def as_integer(action: object) -> int:
    """An action of some integer type as int; of arrays those that hold one integer and have no axes.

    Raises:
        TypeError: it is no integer.
    """
    try:
        if isinstance(action, bool | np.bool_):
            raise TypeError
        return operator.index(action)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"action {shown(action)} of type {type(action).__name__}: must be an integer") from None
