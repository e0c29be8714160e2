"""Environment steps: PettingZoo's loop on ours and on its `connect_four_v3`, and our batches."""

import os
import time
import warnings
from collections.abc import Callable

import numpy as np

from isis_env import isis_osiris_v0
from isis_env._threads import available_cores
from isis_env.batch import Batch
from isis_env.config import GameConfig
from isis_env.observation import observation_size
from isis_env.policy import make_agent
from tests.benchmarks.rates import Comparison, by_turns

AEC_STEPS = 20_000
BATCH_GAMES = 1024
MANY_GAMES = 16_384  # enough to share among threads
BATCH_STEPS = 500
PEER = "connect_four_v3.env()"


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


def batch_steps_per_second(config: GameConfig, games: int, threads: int) -> float:
    """Decisions of `games` games under uniformly random legal actions."""
    batch = Batch(config, games, threads=threads)
    turn = batch.reset(0)
    choose = type(make_agent("uniform"))._choose
    seeds = np.random.default_rng(0).integers(0, 2**63, (64, games)).astype(np.uint64)
    actions = np.empty(games, np.int64)
    steps = BATCH_STEPS * BATCH_GAMES // games
    begin = time.perf_counter()
    for step in range(steps):
        choose(batch.states, turn.action_masks, seeds[step % 64], actions)
        turn = batch.step(actions, out=turn)
    return steps * games / (time.perf_counter() - begin)


def connect_four() -> Callable[[], float]:
    """The peer's workload; its module warns that there is a registry now, and pygame greets."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pettingzoo.classic import connect_four_v3

        env = connect_four_v3.env()
    return lambda: aec_steps_per_second(env, AEC_STEPS // 5)


def compare() -> Comparison:
    """Measure all of them."""
    aec = {PEER: connect_four()}
    for players in (2, 3, 4):
        for recall in (1, "full"):
            env = isis_osiris_v0.env(players=players, recall=recall)
            aec[f"AEC, {players} players, recall {recall}"] = lambda env=env: aec_steps_per_second(env, AEC_STEPS)
    batch = {}
    for name, config in (("2 players", GameConfig()), ("4 players, common", GameConfig("standard", 4, True))):
        for games, threads in ((BATCH_GAMES, 1), (MANY_GAMES, 1), (MANY_GAMES, available_cores())):
            label = f"batch of {games:,}, {name}, threads: {threads}"
            batch[label] = lambda config=config, games=games, threads=threads: batch_steps_per_second(
                config, games, threads
            )
    rates = {**by_turns(aec), **by_turns(batch)}
    return Comparison(
        f"Environment steps, observation of {observation_size()} entries",
        [
            {"workload": name, "steps/s": rate, f"x {PEER}": rate / rates[PEER] if name in aec else None}
            for name, rate in rates.items()
        ],
    )
