"""Isis & Osiris as a PettingZoo AEC environment, in PettingZoo's form:

    from isis_env import isis_osiris_v0

    env = isis_osiris_v0.env(players=3)

The version is raised whenever behaviour changes; the causes stand in docs/environment.md under "Version history".
"""

from isis_env.envs.aec import IsisOsirisEnv as raw_env
from isis_env.secrecy import Recall


def env(
    players: int = 2,
    common_reserve: bool = False,
    board: str = "standard",
    recall: Recall = 1,
    reward: str = "win",
    illegal: str = "raise",
    render_mode: str | None = None,
) -> raw_env:
    """The environment as one would use it. Checks of order and bounds are built in, so no wrapper is put around it.

    Arguments and errors are those of `isis_env.envs.aec.IsisOsirisEnv`.
    """
    return raw_env(players, common_reserve, board, recall, reward, illegal, render_mode)


__all__ = ["env", "raw_env"]
