"""What the exact solver takes: `make exact`. One core, every position solved from an empty table.

- `mini3` from the empty board, for both returns: its value and that of every first action.
- Positions with so many free cells in games between greedy players, under `win`: time and nodes, median and most.
"""

import argparse
import statistics
import time

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from agents.search.exact import BudgetExceededError, Solution, Solver
from isis_env import game
from isis_env.batch import Batch
from isis_env.config import GameConfig
from isis_env.game import NOTHING
from isis_env.notation import cell_name
from isis_env.policy import make_agent

POSITIONS = 25
FORMS = [GameConfig("standard", n, common) for common in (False, True) for n in (2, 3, 4)]
FREE = range(4, 10)
GROWTH = 8  # at most so many times the work with every free cell
PATIENCE = 4.0  # seconds; more free cells are tried if the median can be expected to stay below


def positions(config: GameConfig, free: int, seed: int = 0) -> np.ndarray:
    """`STATE[POSITIONS]`: turns that begin with `free` cells left, one per game."""
    batch = Batch(config, POSITIONS, threads=1)
    batch.reset(seed)
    greedy = make_agent("greedy")
    while len(rows := np.flatnonzero(_before(batch, config, free))):
        batch.step(greedy.act(batch.decisions(rows)), rows)
    return batch.states


def _before(batch: Batch, config: GameConfig, free: int) -> np.ndarray:
    return (config.cells - batch.states["placed"] > free) | (batch.states["held"] != NOTHING)


def timed(state: np.record, reward: str) -> tuple[Solution, float]:
    """The solution and the seconds that it took."""
    begin = time.perf_counter()
    solution = Solver(reward).solve(state)
    return solution, time.perf_counter() - begin


def mini3(console: Console) -> None:
    """Print the value of `mini3` and of its first actions, for the start player."""
    state = game.new_state(GameConfig("mini3"))[0]
    for reward in ("win", "margin"):
        solution, seconds = timed(state, reward)
        own = solution.action_values[:, 0]
        actions = [f"{cell_name(cell, 3)} {own[cell]:+.4f}" for cell in range(9)] + [f"draw {own[9]:+.4f}"]
        console.print(f"mini3, {reward}: {solution.values[0]:+.6f}, {seconds:.1f} s, {solution.nodes:,} nodes")
        console.print("  " + "  ".join(actions))


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(prog="python -m tests.benchmarks.exact", description=__doc__.splitlines()[0]).parse_args()
    console = Console(width=110)
    timed(positions(GameConfig(), 4)[0], "win")  # compile
    mini3(console)
    table = Table(box=box.SIMPLE_HEAD, title=f"{POSITIONS} positions each, standard board, win")
    for heading in ("players", "reserve", "free cells", "median s", "most s", "median nodes", "most nodes"):
        table.add_column(heading, justify="right")
    for config in FORMS:
        for free in FREE:
            try:
                solved = [timed(state, "win") for state in positions(config, free)]
            except BudgetExceededError as error:
                table.add_row(str(config.players), _reserve(config), str(free), str(error), "", "", "")
                break
            seconds = [s for _, s in solved]
            nodes = [solution.nodes for solution, _ in solved]
            median = statistics.median(seconds)
            numbers = (f"{median:.4f}", f"{max(seconds):.3f}", f"{statistics.median(nodes):,.0f}", f"{max(nodes):,}")
            table.add_row(str(config.players), _reserve(config), str(free), *numbers)
            if median * GROWTH > PATIENCE:
                break
    console.print(table)


def _reserve(config: GameConfig) -> str:
    return "common" if config.common_reserve else "personal"


if __name__ == "__main__":
    main()
