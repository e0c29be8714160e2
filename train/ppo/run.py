"""A PPO run from beginning to end: begin or resume it, train (`train.ppo.trainer`), measure the policy, report."""

from dataclasses import replace
from pathlib import Path

from agents.learned.agent import NetworkAgent
from agents.learned.checkpoint import find_checkpoint, list_checkpoints
from train.command import write_json
from train.config import ConfigError, TrainConfig
from train.evaluate import print_table
from train.ppo import state
from train.ppo.setup import Setup, begin, check_setup, set_up, weights_hash
from train.ppo.trainer import learn
from train.runs.evaluation import evaluate_policy
from train.runs.folder import (
    EVALUATION_FILE,
    checkpoint_step,
    continue_to,
    locked,
    make_run_folder,
    open_run_folder,
)
from train.runs.report import REPORT_FILE, learning_curve_note, write_report
from train.runs.stopping import stop_requests


def train(config: TrainConfig, progress: bool = True) -> Path:
    """Train one policy from the start and return its run folder, see `run`."""
    checkpoint = check_setup(config)  # what cannot be used is an error before anything is written
    if checkpoint:
        config = replace(config, init=str(checkpoint.path.resolve()), init_sha256=weights_hash(checkpoint))
    folder, config = make_run_folder(config)
    return run(config, folder, progress)


def resume(folder: Path, steps: int | None = None, progress: bool = True) -> Path:
    """Go on with a run from its last checkpoint, however it ended, and return its folder, see `run`.

    Args:
        steps: until so many steps in all; until those of its config by default. From here on the schedules (learning
            rate, entropy bonus) are where they would be in a run of this many steps. The run's config says so from now
            on, in `steps` and `earlier_steps`, so that it goes on the same after an interruption.

    Raises:
        ConfigError: the folder holds no run, or it has taken so many steps already.
    """
    return run(open_run_folder(folder), folder, progress, steps)


def run(config: TrainConfig, folder: Path, progress: bool, steps: int | None = None) -> Path:
    """Train until `config.steps`, or `steps` in all, from the last checkpoint in `folder` where there is one.

    The folder then holds `config.yaml` (the whole config), `metrics.csv` and `tensorboard/` (a row per update),
    `checkpoints/step-*` (see `agents.learned.checkpoint`, `train.ppo.state`), `evaluation.json` (the trained policy
    against `config.evaluation.opponents`), and `report.md` with `curves.png` (see `train.runs.report`).

    Raises:
        CheckpointError: the last checkpoint is broken.
        ConfigError: another process is training this run, or it cannot be set up.
        Interrupted: the user stopped it; all is saved.
        OSError: the results could not be written; the last checkpoint stands.
        TrainingError: the policy broke down, or the last checkpoint could not be written.
    """
    with locked(folder):
        saved = list_checkpoints(folder)
        done = checkpoint_step(saved[-1]) if saved else 0
        if steps is None and done >= config.steps and (folder / EVALUATION_FILE).exists():
            if not (folder / REPORT_FILE).exists():
                write_report(folder)
            _say_finished(folder, done)
            return folder
        if steps is not None and steps <= done:
            raise ConfigError(f"--steps {steps} must be above {done}, the steps that {folder} has taken already")
        if saved:
            setup = set_up(config)
            update = state.restore(saved[-1], config, setup.model, setup.env, setup.pool)
        else:
            setup, update = begin(config), 0
        if steps is not None:
            config = continue_to(folder, config, done, steps)
        with stop_requests() as request:
            learn(config, folder, setup, update, request, progress)
        finish(config, folder, setup, progress)
    return folder


def finish(config: TrainConfig, folder: Path, setup: Setup, progress: bool) -> None:
    """Measure the trained policy, and write and print what came of the run."""
    policy = NetworkAgent(setup.network, config.game.recall)
    results = evaluate_policy(config, policy, setup.rivals, config.evaluation.games, progress)
    flat = [result for found in results.values() for result in found]
    for result in flat:
        print_table(result)
    try:
        write_json(flat, folder / EVALUATION_FILE)
        write_report(folder)
    except OSError as error:
        hint = f"the policy is kept in {find_checkpoint(folder)}; python -m train --resume {folder} writes the rest"
        raise OSError(error.errno, f"{error.strerror}; {hint}", error.filename) from None
    for line in learning_curve_note(config, setup.model.num_timesteps):
        print(line)


def _say_finished(folder: Path, done: int) -> None:
    print(f"{folder} is finished: {done} steps. Train it longer with: python -m train --resume {folder} --steps N")
    print(f"How to measure it again: {folder / REPORT_FILE}")
