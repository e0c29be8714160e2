"""The same config under several seeds: one run folder each, and the mean over them with an interval."""

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from isis_env.batch import available_cores
from train.config import ConfigError, TrainConfig, dump_config
from train.evaluate import t_interval
from train.report import form_name
from train.run_folder import EVALUATION_FILE

SUMMARY_FILE = "summary.json"


def train_seeds(config: TrainConfig, seeds: Sequence[int]) -> Path:
    """Train `config` once per seed and write `summary.json`; returns the folder that holds the runs.

    The runs are `seed-S` in a folder named after the config. They go side by side as far as the cores allow, each on
    `config.threads` threads, or on one where that is 0. Called again after an interruption, it resumes what was begun
    and leaves alone what has ended.

    Raises:
        ConfigError: the folder cannot be written.
        ChildRunError: a run failed; the others have ended.
    """
    folder = Path(config.runs_folder) / config.name
    threads = config.threads or 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(dump_config(config))
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror})") from None
    side_by_side = max(1, available_cores() // threads)
    print(f"{len(seeds)} runs in {folder}, {side_by_side} at a time; each writes its own log beside its folder")
    with ThreadPoolExecutor(side_by_side) as pool:
        codes = list(pool.map(lambda seed: _train_one(folder, seed, threads), seeds))
    failed = [seed for seed, code in zip(seeds, codes, strict=True) if code]
    if failed:
        logs = ", ".join(str(folder / f"seed-{seed}.log") for seed in failed)
        raise ChildRunError(f"seeds {', '.join(map(str, failed))} did not end; see {logs}; the same command goes on")
    summary = summarise([json.loads((folder / f"seed-{seed}" / EVALUATION_FILE).read_text()) for seed in seeds])
    (folder / SUMMARY_FILE).write_text(json.dumps({"seeds": list(seeds), "results": summary}, indent=2) + "\n")
    _print(summary, len(seeds))
    return folder


class ChildRunError(RuntimeError):
    """One of several runs failed; the message says which and where its log is."""


def summarise(runs: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Per form of the game and opponent: the score rate of every run, their mean, and its 95 % t interval over runs."""
    summary = []
    for results in zip(*runs, strict=True):  # the same evaluation of every run
        scores = [result["agents"][0]["score_rate"] for result in results]
        first = results[0]
        summary.append(
            {
                "game": form_name(first),
                "opponent": first["agents"][1]["agent"],
                "scores": scores,
                "mean": sum(scores) / len(scores),
                "interval": t_interval(scores),
                "illegal": sum(result["agents"][0]["illegal"] for result in results),
            }
        )
    return summary


def _train_one(folder: Path, seed: int, threads: int) -> int:
    run = folder / f"seed-{seed}"
    if (run / EVALUATION_FILE).exists():
        return 0
    if run.exists():
        arguments = ["--resume", str(run)]
    else:
        named = ["--name", run.name, "--runs_folder", str(folder), "--seed", str(seed), "--threads", str(threads)]
        arguments = [str(folder / "config.yaml"), *named]
    with (folder / f"seed-{seed}.log").open("a") as log:
        return subprocess.run([sys.executable, "-m", "train", *arguments], stdout=log, stderr=log).returncode


def _print(summary: list[dict[str, Any]], runs: int) -> None:
    table = Table(box=box.SIMPLE_HEAD, title=f"mean of {runs} runs, 95 % t interval over runs", title_justify="left")
    for heading in ("game", "opponent", "mean", "interval", "runs"):
        table.add_column(heading)
    for entry in summary:
        low, high = entry["interval"]
        scores = " ".join(f"{score:.3f}" for score in entry["scores"])
        table.add_row(entry["game"], entry["opponent"], f"{entry['mean']:.3f}", f"{low:.3f} to {high:.3f}", scores)
    Console().print(table)
