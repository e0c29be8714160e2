"""How fast this is, beside peers in the same run: `make bench`.

Every workload runs several times, ours and the peer's by turns, and the medians are compared: absolute times depend on
the machine, ratios in one run much less. Workloads:

- AEC: `last()`, `int(rng.choice(np.flatnonzero(mask)))`, `step()`, games reset as they end, on `isis_osiris_v0.env()`
  and on PettingZoo's `connect_four_v3.env()`.
- Batch: 1,024 games on one thread, 16,384 on one and on all; random legal actions chosen in the loop; masks,
  observations under full recall, rewards and auto-reset included.
"""

import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from isis_env import isis_osiris_v0
from isis_env._threads import available_cores
from isis_env.batch import Batch
from isis_env.config import GameConfig
from isis_env.observation import observation_size
from isis_env.policy import make_agent

ROUNDS = 5
AEC_STEPS = 20_000
BATCH_GAMES = 1024
MANY_GAMES = 16_384  # enough to share among threads
BATCH_STEPS = 500


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


def by_turns(workloads: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median rate of each, measured by turns."""
    for run in workloads.values():
        run()  # compile and warm up
    rates: dict[str, list[float]] = {name: [] for name in workloads}
    for _ in range(ROUNDS):
        for name, run in workloads.items():
            rates[name].append(run())
    return {name: statistics.median(values) for name, values in rates.items()}


def main() -> None:
    """Measure all workloads and print one table."""
    console = Console()
    console.print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )

    peer = "connect_four_v3.env()"
    aec = {peer: connect_four()}
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

    table = Table(box=box.SIMPLE_HEAD, title=f"observation of {observation_size()} entries, medians of {ROUNDS} rounds")
    table.add_column("workload")
    table.add_column("steps/s", justify="right")
    table.add_column(f"x {peer}", justify="right")
    rates = {**by_turns(aec), **by_turns(batch)}
    for name, rate in rates.items():
        table.add_row(name, f"{rate:,.0f}", f"{rate / rates[peer]:.1f}" if name in aec else "")
    console.print(table)


if __name__ == "__main__":
    main()
