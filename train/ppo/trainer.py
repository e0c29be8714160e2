"""Maskable PPO by self-play. The loop is `learn`: collect a rollout, update the policy, log, save."""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.learned.agent import NetworkAgent
from agents.learned.checkpoint import find_checkpoint, list_checkpoints, parameters_finite
from agents.learned.network import BoardNetwork
from train.command import progress_bar, write_json
from train.config import ConfigError, TrainConfig
from train.evaluate import print_table
from train.ppo import state
from train.ppo.setup import Setup, check_setup, initial_weights, linear, set_up, weights_hash
from train.ppo.statistics import COLUMNS, learner_metrics
from train.runs.evaluation import evaluate_policy, mean_score
from train.runs.folder import (
    EVALUATION_FILE,
    checkpoint_step,
    continue_to,
    locked,
    make_run_folder,
    open_run_folder,
    save,
)
from train.runs.metrics import Metrics
from train.runs.report import REPORT_FILE, learning_curve_note, write_report
from train.runs.stopping import Interrupted, StopRequest, stop_requests

# A policy that no longer explores at all, or an update that threw it far away, has collapsed.
LEAST_ENTROPY = 1e-4
MOST_KL = 1.0


class TrainingError(RuntimeError):
    """A run that cannot go on; the message says why and what is left of it."""

    exit_status = 1


def train(config: TrainConfig, progress: bool = True) -> Path:
    """Train one policy from the start and return its run folder, see `run`."""
    check_setup(config)  # what cannot be used is an error before anything is written
    checkpoint = initial_weights(config)
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
        setup = set_up(config)
        if saved:
            update = state.restore(saved[-1], config, setup.model, setup.env, setup.pool)
        else:
            update = 0
            checkpoint = initial_weights(config)
            if checkpoint:
                setup.network.load_state_dict(checkpoint.network.state_dict())
        if steps is not None:
            config = continue_to(folder, config, done, steps)
        with stop_requests() as request:
            learn(config, folder, setup, update, request, progress)
        finish(config, folder, setup, progress)
    return folder


def learn(
    config: TrainConfig,
    folder: Path,
    setup: Setup,
    update: int = 0,
    stop_request: StopRequest | None = None,
    progress: bool = False,
) -> None:
    """Go on from `update` until `config.steps`, and write metrics and checkpoints to `folder`.

    Raises:
        Interrupted: a stop was requested; all is saved.
        TrainingError: as in `run`.
    """
    env, model, network, pool, rivals, episodes = setup
    metrics = Metrics(folder, _columns(setup), last_step=model.num_timesteps)
    bar = progress_bar(
        total=config.steps, initial=model.num_timesteps, unit="step", unit_scale=True, disable=not progress
    )
    started = time.perf_counter() - metrics.seconds
    checkpoint_due = False  # stays so until it could be written
    unsaved = False
    with bar:
        while model.num_timesteps < config.steps:
            before, begun = model.num_timesteps, time.perf_counter()
            total = config.steps_at(before)

            # Collect a rollout
            model._update_current_progress_remaining(before, total)
            model.ent_coef = linear(config.ppo.ent_coef, config.ppo.final_ent_coef, model._current_progress_remaining)
            model.collect_rollouts(env, episodes, model.rollout_buffer, config.ppo.n_steps)

            # Update the policy, and whom it plays against
            model.train()
            update += 1
            step = model.num_timesteps
            row = {"step": step, **learner_metrics(model), **episodes.summary()}
            failure = _failure(network, row)
            pool.note_shares(episodes.shares["snapshot"])
            episodes.clear()
            if _due(config.self_play.snapshot_every, before, step):
                pool.add_snapshot()
            pool.draw(update)
            pool.seat(env)

            # Log
            if _due(config.evaluation.every, before, step) and step < total and not failure:
                policy = NetworkAgent(network, config.game.recall)
                results = evaluate_policy(config, policy, rivals, config.evaluation.games_on_the_way)
                row |= {f"score_{spec}": round(mean_score(found), 4) for spec, found in results.items()}
            now = time.perf_counter()
            row |= {"seconds": round(now - started, 2), "steps_per_second": round((step - before) / (now - begun), 1)}
            stopping = bool(stop_request)  # looked at once: asked to stop after this, the next update is the last
            checkpoint_due |= _due(config.checkpoint_every, before, step) or step >= config.steps or stopping

            # Save
            try:
                metrics.write(row)
                if checkpoint_due and not failure:
                    save(folder, network, config, step, state.capture(model, env, pool, update))
                    checkpoint_due = False
                unsaved = False
            except OSError as error:
                if not unsaved:
                    text = f"step {step}: cannot save ({error}); training goes on and tries again after each update"
                    bar.write(text, file=sys.stderr)
                checkpoint_due = unsaved = True

            if failure:
                raise TrainingError(f"{folder}, step {step}: {failure}; {_last_good(folder)}")
            bar.update(step - before)
            bar.set_postfix({key: row[key] for key in ("entropy", "draw_share") if key in row}, refresh=False)
            if stopping and not checkpoint_due and stop_request:
                message = f"stopped at step {step}; go on with: python -m train --resume {folder}"
                raise Interrupted(stop_request.number or 0, message)
    if checkpoint_due:
        raise TrainingError(
            f"{folder}: the end of the run could not be saved; {_last_good(folder)}; when there is room, go on from it "
            f"with: python -m train --resume {folder}"
        )


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


def _columns(setup: Setup) -> list[str]:
    returns = [f"return_{kind}" for kind in setup.pool.kinds]
    return [*COLUMNS, *returns, *(f"score_{rival}" for rival in setup.rivals)]


def _failure(network: BoardNetwork, row: dict[str, Any]) -> str:
    """Why the policy is of no more use, in words; empty where it is well."""
    if not parameters_finite(network):
        return "weights are no longer finite"
    if not row["entropy"] >= LEAST_ENTROPY:
        return f"the policy has collapsed: entropy {row['entropy']}"
    if not row["approx_kl"] <= MOST_KL:
        return f"an update threw the policy far away: approximate KL {row['approx_kl']}"
    return ""


def _say_finished(folder: Path, done: int) -> None:
    print(f"{folder} is finished: {done} steps. Train it longer with: python -m train --resume {folder} --steps N")
    print(f"How to measure it again: {folder / REPORT_FILE}")


def _last_good(folder: Path) -> str:
    saved = list_checkpoints(folder)
    return f"the last good checkpoint is {saved[-1]}" if saved else "there is no checkpoint yet"


def _due(every: int, before: int, after: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]."""
    return every > 0 and after // every > before // every
