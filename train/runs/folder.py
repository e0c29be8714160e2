"""The folder of a training run: where it is made, what is in it, which checkpoints stay."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from filelock import FileLock, Timeout

from agents.learned.checkpoint import CHECKPOINTS_FOLDER, list_checkpoints, network_metadata, save_checkpoint
from agents.learned.network import BoardNetwork
from isis_env.kernels.threads import available_cores
from train.command import write_text
from train.config import ConfigError, TrainConfig
from train.config_file import dump_config, read_config

CONFIG_FILE, EVALUATION_FILE = "config.yaml", "evaluation.json"
LOCK_FILE = ".lock"  # held while a process trains the run

# What a run may need of the disk before it is even started; checkpoints are a few hundred kilobytes each.
FREE_BYTES = 100 * 2**20


def make_run_folder(config: TrainConfig) -> tuple[Path, TrainConfig]:
    """A folder of the run's own, and the config as it is written there.

    The folder bears the run's name or, where that is taken, the name with the next free number. The config written has
    the number of threads filled in: the same run on another number of threads is not the same to the last bit.

    Raises:
        ConfigError: the folder cannot be written, or the disk is nearly full.
    """
    config = replace(config, threads=config.threads or available_cores())
    runs = Path(config.runs_folder)
    # Made under another name and then renamed: a folder that bears a run's name holds its config, and two runs that
    # begin at the same moment get two folders.
    unfinished = runs / f".{config.name}-{os.getpid()}.unfinished"
    try:
        (unfinished / CHECKPOINTS_FOLDER).mkdir(parents=True)
        (unfinished / CONFIG_FILE).write_text(dump_config(config))
        free = shutil.disk_usage(runs).free
        if free < FREE_BYTES:
            raise ConfigError(f"{runs}: {free >> 20} MiB free on this disk, a run needs {FREE_BYTES >> 20}")
        for number in itertools.count(1):
            folder = runs / (config.name if number == 1 else f"{config.name}-{number}")
            if not folder.exists() and _renamed(unfinished, folder):
                return folder, config
    except OSError as error:
        raise ConfigError(f"{runs}: no run folder can be made there ({error.strerror})") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    raise AssertionError("unreachable: some number is free")


def _renamed(source: Path, target: Path) -> bool:
    """Whether `source` could be renamed to `target`; not where another run has just taken that name."""
    try:
        source.rename(target)
    except OSError:
        if not target.exists():
            raise
        return False
    return True


def open_run_folder(folder: Path) -> TrainConfig:
    """The config of a run that was begun.

    Raises:
        ConfigError: the folder holds no run.
    """
    file, checkpoints = folder / CONFIG_FILE, folder / CHECKPOINTS_FOLDER
    if not file.is_file():
        raise ConfigError(f"{folder}: no run folder; it must hold {CONFIG_FILE}")
    if checkpoints.exists() and not checkpoints.is_dir():
        raise ConfigError(f"{checkpoints}: must be a folder, of a run's checkpoints")
    config = read_config(file, [])
    if not config.threads:
        raise ConfigError(f"{file}: threads=0 must be at least 1: a run's own config has the number it was begun with")
    return config


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from training the run.

    Raises:
        ConfigError: another process is training it.
    """
    lock = FileLock(folder / LOCK_FILE, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigError(f"{folder}: another process is training this run") from None
    try:
        yield
    finally:
        lock.release()


def continue_to(folder: Path, config: TrainConfig, done: int, steps: int) -> TrainConfig:
    """The config of a run that has taken `done` steps and goes on until `steps`, as it now stands in its folder.

    The evaluation of the end that it had so far is kept under another name.

    Raises:
        OSError: the folder cannot be written; the config there is as it was.
    """
    if steps == config.steps:
        return config
    earlier = [pair for pair in config.earlier_steps if pair[0] < done]
    if done and len(earlier) == len(config.earlier_steps):
        earlier.append([done, config.steps])
    elif done:
        earlier.append([done, config.earlier_steps[len(earlier)][1]])
    config = replace(config, steps=steps, earlier_steps=earlier)
    write_text(folder / CONFIG_FILE, dump_config(config))
    evaluation = folder / EVALUATION_FILE
    if evaluation.exists():
        evaluation.replace(folder / f"evaluation-step-{done:010d}.json")
    return config


def save(folder: Path, network: BoardNetwork, config: TrainConfig, step: int, files: dict[str, bytes]) -> None:
    """Write the checkpoint of `step`, then thin the older ones by the config's rule."""
    metadata = network_metadata(network, config.game.board, config.game.recall, step)
    metadata |= {"config": asdict(config), "git_revision": git_revision()}
    save_checkpoint(folder / CHECKPOINTS_FOLDER / f"step-{step:010d}", network, metadata, files)
    for path in superfluous(list_checkpoints(folder), config):
        shutil.rmtree(path)


def superfluous(checkpoints: list[Path], config: TrainConfig) -> list[Path]:
    """The checkpoints that the config says to remove: all but the last few and the first at every milestone."""
    reached, milestones = 0, set()
    for path in checkpoints:
        milestone = checkpoint_step(path) // config.keep_every
        if milestone > reached:
            reached = milestone
            milestones.add(path)
    return [path for path in checkpoints[: -config.keep_last] if path not in milestones]


def checkpoint_step(path: Path) -> int:
    """The step that a checkpoint folder is named after."""
    return int(path.name.removeprefix("step-"))


def git_revision() -> str | None:
    """The commit of the checkout, with `-dirty` behind it where files were changed; None outside a checkout."""
    here = Path(__file__).parent
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
