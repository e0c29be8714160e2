"""The same config under several seeds: one run folder each, and the mean over them with an interval."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.table import Table

from isis_env.kernels.threads import available_cores
from train.command import make_console, progress_bar, write_json, write_text
from train.config import ConfigError, TrainConfig
from train.config_file import dump_config
from train.evaluate import t_interval
from train.ppo.setup import check_setup
from train.runs.folder import CONFIG_FILE, EVALUATION_FILE
from train.runs.report import form_name

SUMMARY_FILE, SHARED_CONFIG_FILE = "summary.json", "seeds.yaml"


def train_seeds(configs: Sequence[TrainConfig], seeds: Sequence[int]) -> list[Path]:
    """Train every config once per seed and write a `summary.json` each; returns the folders that hold the runs.

    The runs of a config are `seed-S` in a folder named after it. All runs go side by side as far as the cores allow,
    each on its config's `threads`, or on one where that is 0. Called again after an interruption, it resumes what was
    begun and leaves alone what has ended.

    Raises:
        ConfigError: two configs share a name, or a folder cannot be written or is taken by something else.
        ChildRunError: a run failed; the others have ended.
    """
    names = [config.name for config in configs]
    if len(set(names)) < len(names):
        raise ConfigError(f"names {', '.join(names)}: must differ, they name the folders")
    for config in configs:
        check_setup(config)
    folders = [_make_folder(config) for config in configs]
    threads = {folder: config.threads or 1 for folder, config in zip(folders, configs, strict=True)}
    side_by_side = max(1, available_cores() // max(threads.values()))
    jobs = [(folder, seed) for folder in folders for seed in seeds]
    print(f"{len(jobs)} runs, {side_by_side} at a time; each has a log beside its folder in {folders[0].parent}")
    children = _Children()
    with ThreadPoolExecutor(side_by_side) as pool, progress_bar(total=len(jobs), unit="run") as bar:

        def train_one(folder: Path, seed: int) -> int:
            code = _train_one(folder, seed, threads[folder], children)
            bar.update(1)
            return code

        try:
            codes = list(pool.map(lambda job: train_one(*job), jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.stop()
            raise
    logs = [str(folder / f"seed-{seed}.log") for (folder, seed), code in zip(jobs, codes, strict=True) if code]
    if logs:
        raise ChildRunError(f"{len(logs)} of the runs did not end, see {', '.join(logs)}; the same command goes on")
    for folder in folders:
        summary = summarise([json.loads((folder / f"seed-{seed}" / EVALUATION_FILE).read_text()) for seed in seeds])
        write_json({"seeds": list(seeds), "results": summary}, folder / SUMMARY_FILE)
        _print(summary, len(seeds))
    return folders


def _make_folder(config: TrainConfig) -> Path:
    """The folder of a config's runs, with the config in it, unless it is taken by anything else."""
    folder = Path(config.runs_folder) / config.name
    shared, text = folder / SHARED_CONFIG_FILE, dump_config(config)
    try:
        if (folder / CONFIG_FILE).exists():
            raise ConfigError(f"{folder}: is a run folder; give the runs under several seeds another --name")
        if shared.exists() and shared.read_text() != text:
            raise ConfigError(f"{shared}: the runs there were begun with another config; give another --name")
        folder.mkdir(parents=True, exist_ok=True)
        write_text(shared, text)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror})") from None
    return folder


class _Children:
    """The runs under way, each a process that signals from the terminal do not reach."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen] = set()
        self._stopped = False
        self._lock = threading.Lock()

    def run(self, arguments: Sequence[str], log: IO[str]) -> int:
        """Run `python -m train` to its end; returns its exit status."""
        with self._lock:
            if self._stopped:
                return 128 + signal.SIGTERM
            command = [sys.executable, "-m", "train", *arguments]
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            self._running.add(child)
        status = child.wait()
        with self._lock:
            self._running.discard(child)
        return status

    def stop(self) -> None:
        """Ask all of them to save and stop; no other begins."""
        with self._lock:
            self._stopped = True
            for child in self._running:
                child.terminate()


class ChildRunError(RuntimeError):
    """One of several runs failed; the message says which and where its log is."""

    exit_status = 1


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
                "interval": t_interval(scores, trials=sum(result["blocks"] for result in results)),
                "illegal": sum(result["agents"][0]["illegal"] for result in results),
            }
        )
    return summary


def _train_one(folder: Path, seed: int, threads: int, children: _Children) -> int:
    run = folder / f"seed-{seed}"
    if (run / EVALUATION_FILE).exists():
        return 0
    if (run / CONFIG_FILE).exists():
        arguments = ["--resume", str(run)]
    else:
        named = ["--name", run.name, "--runs_folder", str(folder), "--seed", str(seed), "--threads", str(threads)]
        arguments = [str(folder / SHARED_CONFIG_FILE), *named]
    with (folder / f"seed-{seed}.log").open("a") as log:
        return children.run(arguments, log)


def _print(summary: list[dict[str, Any]], runs: int) -> None:
    table = Table(box=box.SIMPLE_HEAD, title=f"mean of {runs} runs, 95 % t interval over runs", title_justify="left")
    for heading in ("game", "opponent", "mean", "interval", "runs"):
        table.add_column(heading)
    for entry in summary:
        low, high = entry["interval"]
        scores = " ".join(f"{score:.3f}" for score in entry["scores"])
        table.add_row(entry["game"], entry["opponent"], f"{entry['mean']:.3f}", f"{low:.3f} to {high:.3f}", scores)
    make_console().print(table)
