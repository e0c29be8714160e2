"""Rates measured by turns, the medians compared, and how they are shown."""

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich import box
from rich.table import Table

ROUNDS = 9
ROOT = Path(__file__).parents[2]
PEER_PYTHON = ROOT / ".venv-peers/bin/python"


@dataclass(frozen=True)
class Comparison:
    """A table of workloads.

    Attributes:
        title: what it is a table of.
        rows: one per workload; heading -> what stands there, None for nothing. All have the same headings.
        remarks: what a reader must know besides.
    """

    title: str
    rows: list[dict[str, str | float | None]]
    remarks: list[str] = field(default_factory=list)

    @property
    def headings(self) -> list[str]:
        """The headings of all columns."""
        return list(self.rows[0])

    def cells(self) -> list[list[str]]:
        """The rows as text."""
        return [[_as_text(value) for value in row.values()] for row in self.rows]


def by_turns(workloads: dict[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, float]:
    """The median of what each returns, called by turns."""
    for run in workloads.values():
        run()  # compile and warm up
    rates: dict[str, list[float]] = {name: [] for name in workloads}
    for _ in range(rounds):
        for name, run in workloads.items():
            rates[name].append(run())
    return {name: statistics.median(values) for name, values in rates.items()}


def reason(error: OSError | subprocess.CalledProcessError) -> str:
    """Why another program could not be had, in one line."""
    lines = (getattr(error, "stderr", None) or str(error)).split("\n")
    return next((line for line in reversed(lines) if line.strip()), type(error).__name__)


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and the processes that it starts, on one core where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def rich_table(comparison: Comparison) -> Table:
    """The comparison for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, title=comparison.title, caption="\n".join(comparison.remarks) or None)
    table.caption_justify = "left"
    for column, heading in enumerate(comparison.headings):
        table.add_column(heading, justify="right" if column else "left")
    for row in comparison.cells():
        table.add_row(*row)
    return table


def write(folder: Path, machine: str, comparisons: list[Comparison]) -> None:
    """Write `bench.json`, with unrounded numbers, and `bench.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {"machine": machine, "rounds": ROUNDS, "tables": [asdict(comparison) for comparison in comparisons]}
    (folder / "bench.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    lines = ["# Speed", "", f"{machine}; medians of {ROUNDS} rounds where nothing else is said."]
    for comparison in comparisons:
        headings = comparison.headings
        rule = ["---", *["---:"] * (len(headings) - 1)]
        lines += ["", f"{comparison.title}:", ""]
        lines += [f"| {' | '.join(row)} |" for row in (headings, rule, *comparison.cells())]
        lines += ["", *(f"- {remark}" for remark in comparison.remarks)] if comparison.remarks else []
    (folder / "bench.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _as_text(value: str | float | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
