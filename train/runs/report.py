"""What came of a run, for reading: `report.md` and `curves.png` in its folder."""

import csv
import io
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from isis_env.config import GameConfig
from train.command import write_bytes, write_text
from train.config import ConfigError, TrainConfig
from train.runs.folder import CONFIG_FILE, EVALUATION_FILE, git_revision, open_run_folder
from train.runs.metrics import METRICS_FILE, read_metrics

REPORT_FILE, CURVES_FILE = "report.md", "curves.png"

# Score rates over 400 paired games on the way of one run, and over 1,000 at its end; this command made them.
KNOWN_CURVE_FILE = Path(__file__).with_name("known_curve.csv")
KNOWN_CURVE_COMMAND = "python -m train configs/quickstart.yaml --threads 1 --evaluation.every 50000"

# What the small panels beside the score rates show, with the name of the axis.
PANELS = {
    "entropy": "entropy",
    "explained_variance": "explained variance",
    "approx_kl": "approximate KL",
    "draw_share": "share of draws",
}


def write_report(folder: Path) -> None:
    """Write `report.md` and `curves.png` from what else stands in the run folder."""
    config = open_run_folder(folder)
    rows = read_metrics(folder / METRICS_FILE)
    results = read_evaluations(folder)
    draw_curves([(folder.name, rows, results)], folder / CURVES_FILE)
    last = rows[-1] if rows else {"step": 0, "seconds": 0.0}
    seconds = last["seconds"]
    time = f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds"
    lines = [
        f"# {folder.name}",
        "",
        f"{last['step']:,} steps in {time}, config `{CONFIG_FILE}`, code {git_revision()}.",
        *(
            f"Up to step {until:,} the schedules were those of a run of {steps:,} steps."
            for until, steps in config.earlier_steps
        ),
        *([f"Began with the weights of `{config.init}`."] if config.init else []),
        "",
        *result_table(results),
        "",
        f"![learning curves]({CURVES_FILE})",
        "",
        *learning_curve_note(config, int(last["step"])),
        "To measure again:",
        "",
        "```",
        *(_command(folder, result) for result in results),
        "```",
    ]
    write_text(folder / REPORT_FILE, "\n".join(lines) + "\n")


def learning_curve_note(config: TrainConfig, steps: int) -> list[str]:
    """Where a run of so many steps is on the known learning curve, in Markdown; nothing for forms without one."""
    if config.forms() != [GameConfig()] or config.game.recall != "full":
        return []
    with KNOWN_CURVE_FILE.open() as stream:
        known = [(int(row["steps"]), row["random"], row["greedy"]) for row in csv.DictReader(stream)]
    here = min(range(len(known)), key=lambda index: abs(known[index][0] - steps))
    shown = sorted({0, 1, 2, 3, 5, 7, 11, 15, len(known) - 1, here})
    return [
        f"Where {steps:,} steps are on the known learning curve of this game: score rates of one run of a million",
        f"steps, `{KNOWN_CURVE_COMMAND}`.",
        "Against `greedy` there is nothing to see before 150,000 steps.",
        "",
        "| steps | against `random` | against `greedy` | |",
        "|---|---|---|---|",
        *(
            f"| {known[index][0]:,} | {known[index][1]} | {known[index][2]} | {'about here' if index == here else ''} |"
            for index in shown
        ),
        "",
    ]


def _command(folder: Path, result: dict[str, Any]) -> str:
    """The command that repeats an evaluation."""
    rival = shlex.quote(result["agents"][1]["agent"])
    form = f"--board {result['board']} --players {result['players']}"
    form += " --common-reserve" if result["common_reserve"] else ""
    games = f"--games {result['games']} --seed {result['seed']}"
    return f"python -m train.evaluate ppo:{shlex.quote(str(folder))} {rival} {form} {games}"


def read_evaluations(folder: Path) -> list[dict[str, Any]]:
    """The evaluations of a run; none where it has not ended yet.

    Raises:
        ConfigError: the file holds something else.
    """
    file = folder / EVALUATION_FILE
    if not file.exists():
        return []
    try:
        results = json.loads(file.read_text())
        if not isinstance(results, list):
            raise TypeError(f"a list was expected, not {type(results).__name__}")
        result_table(results)
        score_curves([], results)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{file}: no evaluations ({type(error).__name__}: {error})") from None
    return results


def result_table(results: list[dict[str, Any]]) -> list[str]:
    """A Markdown table of evaluations, each the trained policy against one opponent."""
    lines = [
        "| game | opponent | score rate | 95 % interval | margin | games | illegal |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        ours, rival = result["agents"]
        low, high = ours["interval"]
        lines.append(
            f"| {form_name(result)} | {rival['agent']} | {ours['score_rate']:.3f} | {low:.3f} to {high:.3f} "
            f"| {ours['margin']:+.1f} | {result['games']} | {ours['illegal']} |"
        )
    return lines


def form_name(result: dict[str, Any]) -> str:
    """The form of the game of an evaluation in a few words."""
    variant = ", common reserve" if result["common_reserve"] else ""
    return f"{result['board']}, {result['players']} players{variant}"


def draw_curves(runs: Sequence[tuple[str, list[dict], list[dict]]], file: Path) -> None:
    """Learning curves of runs (name, metrics rows, evaluations) in one picture; the last points are the evaluations."""
    figure = Figure(figsize=(11, 6), layout="constrained")
    grid = figure.add_gridspec(len(PANELS), 3)
    main = figure.add_subplot(grid[:, :2])
    panels = [figure.add_subplot(grid[index, 2]) for index in range(len(PANELS))]
    styles = ["-", "--", ":", "-."]
    for index, (name, rows, results) in enumerate(runs):
        colour = f"C{index}"
        for style, (rival, points) in zip(styles * 9, score_curves(rows, results).items(), strict=False):
            main.plot(*zip(*points, strict=True), style, marker=".", color=colour, label=f"{name} against {rival}")
        for panel, column in zip(panels, PANELS, strict=True):
            points = [(row["step"], row[column]) for row in rows if column in row]
            if points:
                panel.plot(*zip(*points, strict=True), color=colour, linewidth=0.8)
    main.set(xlabel="learner decisions", ylabel="score rate", ylim=(-0.02, 1.02))
    main.grid(alpha=0.3)
    if main.has_data():
        main.legend(fontsize="small")
    for panel, label in zip(panels, PANELS.values(), strict=True):
        panel.set_title(label, fontsize="small")
        panel.grid(alpha=0.3)
        panel.tick_params(labelsize="x-small")
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_bytes(file, picture.getvalue())


def score_curves(rows: list[dict], results: list[dict]) -> dict[str, list[tuple[float, float]]]:
    """Per opponent the (step, score rate) points of a run, averaged over the forms of the game."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for column, value in row.items():
            if column.startswith("score_"):
                curves.setdefault(column.removeprefix("score_"), []).append((row["step"], value))
    finals: dict[str, list[float]] = {}
    for result in results:
        ours, rival = result["agents"]
        finals.setdefault(rival["agent"], []).append(ours["score_rate"])
    for rival, scores in finals.items():
        curves.setdefault(rival, []).append((rows[-1]["step"] if rows else 0, sum(scores) / len(scores)))
    return curves
