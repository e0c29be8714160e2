"""Memory of a training run: how much it needs, how much there is, and what the allocator does with what is freed."""

import ctypes
import ctypes.util
import sys

from isis_env.config import BOARDS
from isis_env.game import STATE
from isis_env.kernels.threads import available_cores
from isis_env.limits import available_memory
from isis_env.observation import observation_size
from train.config import ConfigError, TrainConfig

# A run on fewer cores than it was begun with may keep its number of threads, within reason.
MAX_THREADS = 64


def check_resources(config: TrainConfig) -> None:
    """Refuse a run that this machine cannot hold, before anything is made.

    Raises:
        ConfigError: it needs more memory than there is, or has too many threads.
    """
    most = max(MAX_THREADS, available_cores())
    if config.threads > most:
        raise ConfigError(f"threads={config.threads} must be at most {most}")
    parts = estimate_bytes(config)
    needed, free = sum(parts.values()), available_memory()
    if needed > free:
        keys, size = max(parts.items(), key=lambda part: part[1])
        values = ", ".join(f"{key}={_value(config, key)}" for key in keys)
        raise ConfigError(
            f"{values}: takes about {size / 2**30:,.1f} GiB, the run {needed / 2**30:,.1f} GiB in all, must be at most "
            f"the {free / 2**30:,.1f} GiB of memory that are free"
        )


def estimate_bytes(config: TrainConfig) -> dict[tuple[str, ...], int]:
    """About how many bytes a run takes, from below, by the keys that say so."""
    ppo, channels, rounds = config.ppo, config.network.channels, config.network.rounds
    cells = BOARDS[config.game.board].side ** 2
    seen, actions, number = observation_size(config.game.board), cells + 1, 4
    weights = number * channels * ((3 * rounds + 2) * channels + 2 * seen)
    snapshots = min(config.self_play.pool, config.steps // config.self_play.snapshot_every)
    rollout = ppo.n_envs * ppo.n_steps
    return {
        # State, final state, deck, observations and masks of every game
        ("ppo.n_envs",): ppo.n_envs * (2 * STATE.itemsize + 2 * number * (seen + actions) + 256),
        # The rollout, and the copy of it that minibatches are taken from
        ("ppo.n_envs", "ppo.n_steps"): 2 * number * rollout * (seen + actions + 8),
        # What the backward pass of a minibatch needs of every layer
        ("ppo.batch_size", "network.channels", "network.rounds"): number
        * min(ppo.batch_size, rollout)
        * cells
        * channels
        * (4 * rounds + 4),
        # The weights, their gradients and two moments of each, and a copy
        ("network.channels", "network.rounds"): 5 * weights,
        ("self_play.pool", "network.channels", "network.rounds"): snapshots * weights,
    }


def keep_freed_memory() -> None:
    """Have glibc keep what is freed rather than return it to the system.

    Each minibatch frees and takes the same tens of megabytes; without this every one of them pays for fresh pages.
    """
    name = ctypes.util.find_library("c") if sys.platform == "linux" else None
    mallopt = getattr(ctypes.CDLL(name), "mallopt", None) if name else None
    if mallopt:
        m_trim_threshold, m_mmap_threshold = -1, -3
        mallopt(m_trim_threshold, 1 << 30)
        mallopt(m_mmap_threshold, 1 << 30)


def _value(config: TrainConfig, key: str) -> int:
    group, name = key.split(".")
    return getattr(getattr(config, group), name)
