"""Isis & Osiris: the board game as an environment for reinforcement learning."""

import gymnasium

from isis_env import isis_osiris_v0
from isis_env.config import GameConfig
from isis_env.version import __version__

__all__ = ["GameConfig", "__version__", "isis_osiris_v0"]

gymnasium.register(
    "isis_env/IsisOsiris-v0",
    entry_point="isis_env.envs.single:IsisOsirisSingleEnv",
    vector_entry_point="isis_env.envs.vector:IsisOsirisVectorEnv",
)

try:
    from pettingzoo import register
except ImportError:  # pettingzoo < 1.27 has no registry
    pass
else:
    register("aec", "isis_env/isis_osiris_v0", entry_point="isis_env.isis_osiris_v0:env")
