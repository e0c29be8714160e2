"""How fast this is, beside peers in the same run: `make bench`.

Every workload runs several times, ours and the peer's by turns, and the medians are compared: absolute times depend on
the machine, ratios in one run much less. Workloads:

- AEC: `last()`, `int(rng.choice(np.flatnonzero(mask)))`, `step()`, games reset as they end, on `isis_osiris_v0.env()`
  and on PettingZoo's `connect_four_v3.env()`.
- Batch: 1,024 games on one thread, 16,384 on one and on all; random legal actions chosen in the loop; masks,
  observations under full recall, rewards and auto-reset included.
- Search: `mcts` with random playouts from the empty standard board, on one core, and OpenSpiel's C++ `MCTSBot` on
  `connect_four` (random rollouts, one per leaf). Moves of playouts are simulations times the mean length of a random
  game, a draw and its placement counted as two; what of it is played inside the tree is counted in both.

The table is also written to `results/bench.json` and `results/bench.md`.
"""

import json
import os
import platform
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from agents.__main__ import pending
from agents.mcts import Mcts
from isis_env import game, isis_osiris_v0
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
SIMULATIONS = 20_000

# Peers that do not go with what is installed here have an environment of their own, made by `make bench`.
PEERS_PYTHON = Path(".venv-peers/bin/python")
PEER_SEARCH = Path(__file__).with_name("open_spiel_peer.py")
RESULTS = Path("results")


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


def mcts_simulations_per_second() -> float:
    """Simulations of one search from the empty board, which is one row and so one thread."""
    agent = Mcts(simulations=SIMULATIONS, leaf="random", exact=0)
    decisions = pending(game.new_state(GameConfig()), agent, seed=0)
    begin = time.perf_counter()
    agent.act(decisions)
    return SIMULATIONS / (time.perf_counter() - begin)


def has_open_spiel() -> bool:
    """Whether the peers' environment is there and has it."""
    command = [str(PEERS_PYTHON), "-c", "import pyspiel"]
    return PEERS_PYTHON.exists() and subprocess.run(command, capture_output=True).returncode == 0


def open_spiel(key: str) -> float:
    """What the peer's script reports."""
    command = [str(PEERS_PYTHON), str(PEER_SEARCH), str(SIMULATIONS)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)[key]


def decisions_per_game(games: int = 2000) -> float:
    """Mean number of decisions of a game between `random` players."""
    batch = Batch(GameConfig(), games)
    batch.reset(0)
    agent, rows, decisions = make_agent("random"), np.arange(games), 0
    while len(rows):
        decisions += len(rows)
        turn = batch.step(agent.act(batch.decisions(rows)), rows)
        rows = rows[~turn.done]
    return decisions / games


def search_rows() -> list[tuple[str, float, float | None]]:
    """Workload, rate and ratio to the peer's; without the peer only ours."""
    ours = "mcts, random playouts: simulations/s"
    workloads: dict[str, Callable[[], float]] = {ours: mcts_simulations_per_second}
    peer = "OpenSpiel MCTSBot, connect_four: simulations/s"
    if has_open_spiel():
        workloads = {peer: lambda: open_spiel("simulations_per_second"), **workloads}
    else:
        print(f"no open_spiel under {PEERS_PYTHON}: the search is measured without its peer")
    rates = by_turns(workloads)
    moves = rates[ours] * decisions_per_game()
    if peer not in rates:
        return [(ours, rates[ours], None), ("mcts, random playouts: moves/s", moves, None)]
    peer_moves = rates[peer] * open_spiel("moves_per_game")
    return [
        (peer, rates[peer], 1.0),
        (ours, rates[ours], rates[ours] / rates[peer]),
        ("OpenSpiel MCTSBot, connect_four: moves/s", peer_moves, 1.0),
        ("mcts, random playouts: moves/s", moves, moves / peer_moves),
    ]


def write(rows: list[tuple[str, float, float | None]], title: str) -> None:
    """The table as JSON and Markdown."""
    RESULTS.mkdir(exist_ok=True)
    data = [{"workload": name, "per_second": rate, "ratio": ratio} for name, rate, ratio in rows]
    (RESULTS / "bench.json").write_text(json.dumps({"title": title, "rows": data}, indent=2) + "\n")
    lines = ["| workload | per second | x peer |", "|---|---|---|"]
    lines += [f"| {name} | {rate:,.0f} | {'' if ratio is None else f'{ratio:.1f}'} |" for name, rate, ratio in rows]
    (RESULTS / "bench.md").write_text("\n".join([title, "", *lines]) + "\n")


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

    rates = {**by_turns(aec), **by_turns(batch)}
    rows: list[tuple[str, float, float | None]] = [
        (f"{name}: steps/s", rate, rate / rates[peer] if name in aec else None) for name, rate in rates.items()
    ]
    rows += search_rows()
    title = f"observation of {observation_size()} entries, medians of {ROUNDS} rounds"
    table = Table(box=box.SIMPLE_HEAD, title=title)
    for heading in ("workload", "per second", "x peer"):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for name, rate, ratio in rows:
        table.add_row(name, f"{rate:,.0f}", "" if ratio is None else f"{ratio:.1f}")
    console.print(table)
    write(rows, title)


if __name__ == "__main__":
    main()
