"""The memory that a batch takes; prints JSON, in bytes. Runs in a fresh process, on Linux.

Usage: python -m tests.benchmarks.batch_memory GAMES
"""

import json
import re
import sys
from pathlib import Path

from isis_env.batch import Batch
from isis_env.config import GameConfig
from tests.benchmarks.batches import STAGES, Ours, array_bytes, make_seeds


def resident(name: str) -> int:
    """What the system says of this process: `VmRSS`, what it has in memory now, or `VmHWM`, the most it ever had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)[1]) * 1024


def play(games: int, seeds) -> Ours:
    """Play until a game has ended in every row, so that every array has been written to."""
    batch = Batch(GameConfig(), games)
    player = Ours(batch, batch.reset(0))
    for _ in range(0, STAGES, len(seeds)):
        player.play(seeds)
    return player


def main() -> None:
    """Load what is compiled with a small batch, then play the large one."""
    games = int(sys.argv[1])
    play(1, make_seeds(1))
    seeds = make_seeds(games)
    before = resident("VmRSS")
    player = play(games, seeds)
    after = resident("VmHWM")
    print(json.dumps({"arrays": array_bytes(player), "resident": after - before}))


if __name__ == "__main__":
    main()
