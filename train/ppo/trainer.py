"""Maskable PPO by self-play: the training loop. Collect a rollout, update the policy, log, save.

Loss, GAE and minibatches are those of sb3-contrib's MaskablePPO: `model.collect_rollouts()` and `model.train()`.
"""

import sys
import time
from pathlib import Path
from typing import Any

from agents.learned.agent import NetworkAgent
from agents.learned.checkpoint import list_checkpoints, parameters_finite
from agents.learned.network import BoardNetwork
from train.command import progress_bar
from train.config import TrainConfig
from train.ppo import state
from train.ppo.setup import Setup, linear
from train.ppo.statistics import COLUMNS, learner_metrics
from train.runs.evaluation import evaluate_policy, mean_score
from train.runs.folder import save
from train.runs.metrics import Metrics
from train.runs.stopping import Interrupted, StopRequest

# Training stops if the policy's mean entropy falls below this: it no longer explores.
MIN_ENTROPY = 1e-4

# Training stops if the approximate KL divergence of an update exceeds this: the policy changed too much.
MAX_KL = 1.0


class TrainingError(RuntimeError):
    """A run that cannot go on; the message says why and what is left of it."""

    exit_status = 1


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
        TrainingError: the policy broke down, or the last checkpoint could not be written.
    """
    env, model, network, pool, rivals, episodes = setup
    metrics = Metrics(folder, _columns(setup), last_step=model.num_timesteps)
    bar = progress_bar(
        total=config.steps, initial=model.num_timesteps, unit="step", unit_scale=True, disable=not progress
    )
    started = time.perf_counter() - metrics.seconds
    checkpoint_due = False  # once true, it stays so until the checkpoint is written
    unsaved = False
    with bar:
        while model.num_timesteps < config.steps:
            before, begun = model.num_timesteps, time.perf_counter()
            # Differs from `config.steps` up to where a run was continued to another number of steps (`earlier_steps`)
            schedule_steps = config.steps_at(before)

            # Collect a rollout. Both `..._progress_remaining` are private to SB3, whose own `learn` would set them
            model._update_current_progress_remaining(before, schedule_steps)
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
            if _due(config.evaluation.every, before, step) and step < schedule_steps and not failure:
                policy = NetworkAgent(network, config.game.recall)
                results = evaluate_policy(config, policy, rivals, config.evaluation.games_on_the_way)
                row |= {f"score_{spec}": round(mean_score(found), 4) for spec, found in results.items()}
            now = time.perf_counter()
            row |= {"seconds": round(now - started, 2), "steps_per_second": round((step - before) / (now - begun), 1)}
            # Read once: a signal that arrives later takes effect after the next update
            stopping = bool(stop_request)
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


def _columns(setup: Setup) -> list[str]:
    returns = [f"return_{kind}" for kind in setup.pool.kinds]
    return [*COLUMNS, *returns, *(f"score_{rival}" for rival in setup.rivals)]


def _failure(network: BoardNetwork, row: dict[str, Any]) -> str:
    """Why training cannot continue with this policy; empty if it can."""
    if not parameters_finite(network):
        return "weights are no longer finite"
    if not row["entropy"] >= MIN_ENTROPY:
        return f"the policy has collapsed: entropy {row['entropy']}"
    if not row["approx_kl"] <= MAX_KL:
        return f"the policy changed too much in one update: approximate KL {row['approx_kl']}"
    return ""


def _last_good(folder: Path) -> str:
    saved = list_checkpoints(folder)
    return f"the last good checkpoint is {saved[-1]}" if saved else "there is no checkpoint yet"


def _due(every: int, before: int, after: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]."""
    return every > 0 and after // every > before // every
