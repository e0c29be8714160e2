"""Several runs in one picture and one table: `python -m train.compare RUN RUN ... [--out FOLDER]`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from train.command import ArgumentParser, check_writable, make_console, run_command
from train.runs.folder import open_run_folder
from train.runs.metrics import METRICS_FILE, read_metrics
from train.runs.report import CURVES_FILE, draw_curves, form_name, read_evaluations


def read_run(folder: Path) -> tuple[str, list[dict], list[dict]]:
    """Name, metrics rows and evaluations of a run; a run that has not ended yet has none of the last.

    Raises:
        ConfigError: the folder holds no run.
    """
    open_run_folder(folder)
    return str(folder), read_metrics(folder / METRICS_FILE), read_evaluations(folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point: the exit status, see `isis_env.command_line.run_command`."""
    return run_command(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    parser = ArgumentParser(prog="python -m train.compare", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--out", type=Path, default=Path("results"), help="folder of the picture (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    check_writable(options.out / CURVES_FILE)
    runs = [read_run(folder) for folder in options.runs]
    draw_curves(runs, options.out / CURVES_FILE)
    make_console().print(_table(runs))
    print(f"picture: {options.out / CURVES_FILE}")
    return 0


def _table(runs: Sequence[tuple[str, list[dict], list[dict]]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("run", "steps", "steps/s", "game", "opponent", "score", "95 % interval"):
        table.add_column(heading, justify="left" if heading in ("run", "game", "opponent") else "right")
    for name, rows, results in runs:
        rates = sorted(row["steps_per_second"] for row in rows)
        start = [name, f"{rows[-1]['step']:,}" if rows else "0", f"{rates[len(rates) // 2]:,.0f}" if rates else ""]
        if not results:
            table.add_row(*start, "", "not ended", "", "")
        for result in results:
            ours, rival = result["agents"]
            low, high = ours["interval"]
            interval = f"{low:.3f} to {high:.3f}"
            table.add_row(*start, form_name(result), rival["agent"], f"{ours['score_rate']:.3f}", interval)
            start = ["", "", ""]
    return table


if __name__ == "__main__":
    sys.exit(main())
