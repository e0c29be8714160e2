"""How fast this is, beside peers in the same run: `make bench`.

Every workload runs several times, ours and the peer's by turns, and the medians are compared: absolute times depend on
the machine, ratios in one run much less. Workloads:

- Start-up: a new process that imports `isis_env`, and one that also takes a step (see `starting.py`).
- AEC: `last()`, `int(rng.choice(np.flatnonzero(mask)))`, `step()`, games reset as they end, on `isis_osiris_v0.env()`
  and on PettingZoo's `connect_four_v3.env()`.
- Batch: random legal actions chosen in the loop; masks, observations under full recall, rewards and auto-reset
  included (see `batches.py`). 1,024 games beside pgx's `connect_four`, on one core and on all, and beside a plain C
  program that does the same work as ours, bit for bit (`engine.c`); the cost of a step of one game from 64 to 1 M
  games; the memory that a batch takes.
- Vector environments: a learner against `random` in 1,024 games, through Gymnasium's `VectorEnv` and SB3's `VecEnv`,
  beside the engine for as many decisions (see `learner_batches.py`).
- The network on one or more positions: our kernel beside torch, and `mcts` guided by it (see `inferring.py`).
- Training: `configs/ppo_2p.yaml` beside MaskablePPO over one AEC environment in the way of PettingZoo's tutorial, with
  the same network of 48 channels and two rounds, 3 epochs, minibatches of 2,048 (see `training.py`).
- Tree search with random playouts, on one core, beside OpenSpiel's C++ `MCTSBot` (see `searching.py`).

`make bench` gives OpenSpiel and pgx an environment of their own, `.venv-peers`; where one cannot be had, its rows are
left out, and so are those of the C program without a compiler. Names of parts run only these: `python -m
tests.benchmarks aec batches`. All of them together are also written to `results/bench.json` and `results/bench.md`.
"""

import argparse
import os
import platform
from pathlib import Path

from rich.console import Console

from tests.benchmarks import batches, inferring, learner_batches, searching, starting, stepping, training
from tests.benchmarks.rates import rich_table, write

FOLDER = Path("results")
PARTS = {
    "starting": (starting.compare,),
    "aec": (stepping.compare,),
    "batches": (batches.speed, batches.cost_per_game, batches.memory),
    "learner": (learner_batches.compare,),
    "network": (inferring.compare,),
    "training": (training.compare,),
    "tree": (searching.compare,),
}


def main() -> None:
    """Measure all workloads, or those of some parts, print the tables and write them."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure how fast this is.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; by default all")
    parts = parser.parse_args().parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: parts are {', '.join(PARTS)}")
    console = Console(width=120)
    machine = f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    console.print(machine)
    comparisons = []
    for part in parts:
        for compare in PARTS[part]:
            comparisons.append(compare())
            console.print(rich_table(comparisons[-1]))
    if len(parts) == len(PARTS):
        write(FOLDER, machine, comparisons)


def _processor() -> str:
    """As the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
