"""The checks of what a batch is given. Kernels check nothing, so whatever passes here must be safe to work on."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from isis_env import deal
from isis_env.config import FACES, MAX_PLAYERS, MAX_TILES, GameConfig, shown
from isis_env.game import STATE
from isis_env.limits import check_memory
from isis_env.observation import observation_size

# What states and configs both hold of a game's form.
SETTINGS = ("side", "players", "common_reserve")

_SHOWN = 60  # characters of a value in an error


def check_num_games(num_games: object, config: GameConfig, name: str = "num_games") -> None:
    """Raise a ValueError if the arrays of so many games, and of one step of them, do not fit into memory.

    A value that is no integer is left to `check_configs`.
    """
    if isinstance(num_games, int | np.integer) and not isinstance(num_games, bool):
        per_game = sum(dtype.itemsize * math.prod(shape) for shape, dtype in time_step_arrays(1, config).values())
        per_game += 2 * STATE.itemsize + MAX_TILES + 5 * 8  # states, decks; seeds, episodes, rows, actions, configs
        check_memory(name, int(num_games), per_game)


def time_step_arrays(m: int, config: GameConfig) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and type of every array of a `TimeStep` of m rows on the board of `config`."""
    return {
        "observations": ((m, observation_size(config.board)), np.dtype(np.float32)),
        "action_masks": ((m, config.num_actions), np.dtype(np.int8)),
        "seats": ((m,), np.dtype(np.int64)),
        "rewards": ((m, MAX_PLAYERS), np.dtype(np.float64)),
        "done": ((m,), np.dtype(np.bool_)),
    }


def check_out(out: Sequence[Any], wanted: dict[str, tuple[tuple[int, ...], np.dtype]]) -> None:
    """Raise a ValueError unless the arrays of `out` can be written as `wanted`, which has them in the same order."""
    for given, (name, (shape, dtype)) in zip(out, wanted.items(), strict=True):
        # `carray`: C-contiguous, aligned and writeable
        if type(given) is np.ndarray and given.shape == shape and given.dtype == dtype and given.flags.carray:
            continue
        if type(given) is np.ndarray:
            found = f"of shape {given.shape}, type {given.dtype} and strides {given.strides}"
            found += "" if given.flags.writeable else ", read-only"
        else:
            found = f"of type {type(given).__name__}"
        raise ValueError(
            f"out.{name} {found}: must be an array of shape {shape} and type {dtype}, "
            "writeable, aligned and C-contiguous"
        )


def check_apart(out: Sequence[np.ndarray], names: Sequence[str], others: Sequence[np.ndarray]) -> None:
    """Raise a ValueError if arrays of `out` (C-contiguous) share memory with each other or with a batch's own."""
    for (name, array), (other_name, other) in combinations(zip(names, out, strict=True), 2):
        if np.may_share_memory(array, other):
            raise ValueError(f"out.{name} overlaps out.{other_name} in memory: must be an array of its own")
    for name, array in zip(names, out, strict=True):
        if any(np.may_share_memory(array, other) for other in others):
            raise ValueError(f"out.{name} overlaps an array of the batch in memory: must be an array of its own")


def check_actions(actions: Any, m: int) -> np.ndarray:
    """`actions` as a fresh int64[m], or a TypeError: nobody changes it while kernels are at work."""
    given = _as_array(actions)
    if given.shape != (m,) or given.dtype.kind not in "iu":
        raise TypeError(f"actions of shape {given.shape} and type {given.dtype}: must be {m} integers")
    return given.astype(np.int64)


def check_rows(rows: Any, num_games: int) -> np.ndarray:
    """`rows` as a fresh int64[m]: distinct and all of them there, or a TypeError, IndexError or ValueError."""
    given = _as_array(rows)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        shown = " ".join(str(rows).split())[:_SHOWN]
        raise TypeError(f"rows={shown} of shape {given.shape} and type {given.dtype}: must be a list of integers")
    outside = (given < 0) | (given >= num_games)
    if outside.any():
        raise IndexError(f"rows: {given[outside][0]} must be from 0 to {num_games - 1}")
    given = given.astype(np.int64)
    repeated = np.flatnonzero(np.bincount(given, minlength=1) > 1)
    if repeated.size:
        raise ValueError(f"rows: {repeated[0]} must not be given twice")
    return given


def _as_array(values: Any) -> np.ndarray:
    """An array of `values`, of bools where one of a list is: numpy would take it for a 1 among integers."""
    mixed = isinstance(values, list | tuple) and any(isinstance(value, bool | np.bool_) for value in values)
    return np.asarray(values, np.bool_ if mixed else None)


def per_row(
    name: str, values: Any, configs: Sequence[GameConfig], check: Callable[[Any, GameConfig, str], Any]
) -> list:
    """`values` checked row by row against that row's config; an error names the row."""
    try:
        values = list(values)
    except TypeError:
        raise TypeError(f"{name}={values!r}: must be a sequence with one per row") from None
    if len(values) != len(configs):
        raise ValueError(f"{name}: {len(values)} given, must be {len(configs)}, one per row")
    return [
        check(value, config, f"{name}[{row}]") for row, (value, config) in enumerate(zip(values, configs, strict=True))
    ]


def check_seed_rows(seed: Any, configs: Sequence[GameConfig]) -> np.ndarray:
    """The seed of every row, uint64[n]: `seed` and those after it, or those of a sequence."""
    if isinstance(seed, int | np.integer):
        first = deal.check_seeds(seed, len(configs), "row")
        return np.uint64(first) + np.arange(len(configs), dtype=np.uint64)
    return np.array(per_row("seed", seed, configs, _check_seed), np.uint64)


def check_episode_rows(episode: Any, configs: Sequence[GameConfig]) -> np.ndarray:
    """The episode of every row, uint64[n]: `episode` in all, or those of a sequence."""
    if isinstance(episode, int | np.integer):
        return np.full(len(configs), deal.check_seed(episode, "episode"), np.uint64)
    return np.array(per_row("episode", episode, configs, _check_seed), np.uint64)


def _check_seed(value: Any, _config: GameConfig, name: str) -> int:
    return deal.check_seed(value, name)


def check_arrays(arrays: dict[str, np.ndarray], wanted: dict[str, tuple[tuple[int, ...], type]]) -> None:
    """Raise a ValueError unless these are among `arrays`, each of its shape and type."""
    if not isinstance(arrays, dict):
        raise ValueError(f"snapshot={shown(arrays)}: must be a dict with the arrays {', '.join(wanted)}")
    for name, (shape, dtype) in wanted.items():
        given = arrays.get(name)
        if not isinstance(given, np.ndarray) or given.shape != shape or given.dtype != dtype:
            found = f"of shape {given.shape} and type {given.dtype}" if isinstance(given, np.ndarray) else shown(given)
            raise ValueError(f"{name} {found}: must be of shape {shape} and type {np.dtype(dtype)}")


def check_snapshot(arrays: dict[str, np.ndarray], own_states: np.ndarray, side: int) -> tuple[np.ndarray, ...]:
    """States (`STATE[n]`), decks, seeds and episodes of a snapshot that fits a batch with `own_states`.

    Raises:
        ValueError: an array is missing or of another form, the settings are others, or a deck does not lead to its
            row's state.
    """
    n = len(own_states)
    check_arrays(
        arrays,
        {
            "states": ((n, STATE.itemsize), np.uint8),
            "decks": ((n, MAX_TILES), np.int8),
            "seeds": ((n,), np.uint64),
            "episodes": ((n,), np.uint64),
        },
    )
    states = np.ascontiguousarray(arrays["states"]).view(STATE).reshape(n)
    for name in SETTINGS:
        if (states[name] != own_states[name]).any():
            raise ValueError(f"states of another {name} than this batch has")
    decks = np.ascontiguousarray(arrays["decks"])
    fits = (np.sort(decks, axis=1) == np.sort(FACES[side])).all(axis=1)
    if fits.all():
        fits = deal.lead_to(decks, states)
    if not fits.all():
        raise ValueError(f"row {fits.argmin()}: its deck does not lead to its state")
    return states, decks, arrays["seeds"], arrays["episodes"]
