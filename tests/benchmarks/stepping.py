"""Environment steps: PettingZoo's loop on ours and on its `connect_four_v3`."""

import os
import time
import warnings
from collections.abc import Callable

import numpy as np

from isis_env import isis_osiris_v0
from isis_env.observation import observation_size
from tests.benchmarks.rates import Comparison, by_turns

AEC_STEPS = 20_000
PEER = "connect_four_v3.env()"
BARE_PEER = "connect_four_v3.raw_env()"


def aec_steps_per_second(env, steps: int) -> float:
    """Steps of the standard random loop."""
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    begin = time.perf_counter()
    for _ in range(steps):
        observation, _, terminated, truncated, _ = env.last()
        if terminated or truncated:
            env.reset()
        else:
            env.step(int(rng.choice(np.flatnonzero(observation["action_mask"]))))
    return steps / (time.perf_counter() - begin)


def choice_time() -> float:
    """Microseconds that the loop takes for a random legal action."""
    rng = np.random.default_rng(0)
    mask = np.ones(37, np.int8)
    begin = time.perf_counter()
    for _ in range(AEC_STEPS):
        int(rng.choice(np.flatnonzero(mask)))
    return (time.perf_counter() - begin) / AEC_STEPS * 1e6


def connect_four() -> dict[str, Callable[[], float]]:
    """The peer with its wrappers and without; its module warns that there is a registry now, and pygame greets."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pettingzoo.classic import connect_four_v3

        envs = {PEER: connect_four_v3.env(), BARE_PEER: connect_four_v3.raw_env()}
    return {name: lambda env=env: aec_steps_per_second(env, AEC_STEPS // 5) for name, env in envs.items()}


def compare() -> Comparison:
    """Measure all of them."""
    remarks = [f"The choice of a random action, the same everywhere, takes {choice_time():.1f} us of every step."]
    try:
        workloads = connect_four()
    except ImportError as error:
        workloads = {}
        remarks.append(f"{PEER} is left out: {error}")
    for players in (2, 3, 4):
        for recall in (1, "full"):
            env = isis_osiris_v0.env(players=players, recall=recall)
            name = f"AEC, {players} players, recall {recall}"
            workloads[name] = lambda env=env: aec_steps_per_second(env, AEC_STEPS)
    rates = by_turns(workloads)
    return Comparison(
        f"Environment steps, observation of {observation_size()} entries",
        [
            {"workload": name, "steps/s": rate, f"x {PEER}": rate / rates[PEER] if PEER in rates else None}
            for name, rate in rates.items()
        ],
        remarks,
    )
