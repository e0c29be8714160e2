"""How fast this is, beside peers in the same run: `make bench`.

Every workload runs several times, ours and the peer's by turns, and the medians are compared: absolute times depend on
the machine, ratios in one run much less. Workloads:

- AEC: `last()`, `int(rng.choice(np.flatnonzero(mask)))`, `step()`, games reset as they end, on `isis_osiris_v0.env()`
  and on PettingZoo's `connect_four_v3.env()`.
- Batch: 1,024 games on one thread, 16,384 on one and on all; random legal actions chosen in the loop; masks,
  observations under full recall, rewards and auto-reset included.
- Tree search with random playouts, on one core, beside OpenSpiel's C++ `MCTSBot` (see `searching.py`). `make bench`
  gives OpenSpiel an environment of its own, `.venv-peers`; where that fails, its row is left out.

The tables are also written to `results/bench.json` and `results/bench.md`.
"""

import os
import platform
from pathlib import Path

from rich.console import Console

from tests.benchmarks import searching, stepping
from tests.benchmarks.rates import rich_table, write

FOLDER = Path("results")


def main() -> None:
    """Measure all workloads, print the tables and write them."""
    console = Console(width=120)
    machine = (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    console.print(machine)
    comparisons = []
    for compare in (stepping.compare, searching.compare):
        comparisons.append(compare())
        console.print(rich_table(comparisons[-1]))
    write(FOLDER, machine, comparisons)


if __name__ == "__main__":
    main()
