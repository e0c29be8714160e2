"""Maskable PPO by self-play, top to bottom: games, learner, rollout, update, snapshot, evaluation, checkpoint."""

import ctypes
import ctypes.util
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from sb3_contrib import MaskablePPO
from stable_baselines3.common.logger import Logger
from tqdm import tqdm

from agents.learned.agent import NetworkAgent
from agents.learned.checkpoint import list_checkpoints, parameters_finite
from agents.learned.network import BoardNetwork
from isis_env.agent import Agent
from isis_env.envs.sb3 import IsisOsirisVecEnv
from isis_env.policy import make_agent
from train.command import write_json
from train.config import ConfigError, TrainConfig
from train.evaluate import Evaluation, evaluate, print_table
from train.ppo import state
from train.ppo.metrics import EpisodeStatistics, Metrics, learner_metrics
from train.ppo.opponents import OpponentPool
from train.ppo.policy import BoardPolicy, policy_network
from train.runs.folder import EVALUATION_FILE, make_run_folder, open_run_folder, save
from train.runs.report import write_report

# A policy that no longer explores at all, or an update that threw it far away, has collapsed.
LEAST_ENTROPY = 1e-4
MOST_KL = 1.0


LOCK_FILE = ".lock"  # held while a process trains the run


class TrainingError(RuntimeError):
    """A run that cannot go on; the message says why and what is left of it."""


class Interrupted(Exception):
    """The run was asked to stop, has saved itself, and can be resumed."""


def train(config: TrainConfig, progress: bool = True) -> Path:
    """Train one policy from the start and return its run folder, see `run`."""
    named_agents(config)  # a wrong spec is an error before anything is written
    folder, config = make_run_folder(config)
    return run(config, folder, progress)


def resume(folder: Path, progress: bool = True) -> Path:
    """Go on with a run that was stopped, killed or crashed, from its last checkpoint, and return its folder."""
    return run(open_run_folder(folder), folder, progress)


def run(config: TrainConfig, folder: Path, progress: bool) -> Path:
    """Train until `config.steps`, from the last checkpoint in `folder` where there is one.

    The folder then holds `config.yaml` (the whole config), `metrics.csv` and `tensorboard/` (a row per update),
    `checkpoints/step-*` (see `agents.learned.checkpoint`, `train.ppo.state`), `evaluation.json` (the trained policy
    against `config.evaluation.opponents`), and `report.md` with `curves.png` (see `train.runs.report`).

    Raises:
        CheckpointError: the last checkpoint is broken.
        ConfigError: another process is training this run.
        Interrupted: the user stopped it; all is saved.
        TrainingError: the policy broke down, or the last checkpoint could not be written.
    """
    try:
        with FileLock(folder / LOCK_FILE, blocking=False):
            return _run(config, folder, progress)
    except Timeout:
        raise ConfigError(f"{folder}: another process is training this run") from None


def _run(config: TrainConfig, folder: Path, progress: bool) -> Path:
    setup = set_up(config)
    saved = list_checkpoints(folder)
    update = state.restore(saved[-1], config, setup.model, setup.env, setup.pool) if saved else 0
    with _interruption() as interrupted:
        learn(config, folder, setup, update, interrupted, progress)
    results = evaluate_policy(config, setup.network, setup.rivals, config.evaluation.games, progress)
    flat = [result for found in results.values() for result in found]
    for result in flat:
        print_table(result)
    write_json(flat, folder / EVALUATION_FILE)
    write_report(folder)
    return folder


class Setup(NamedTuple):
    """What a run consists of.

    Attributes:
        env: the games.
        model: the learner.
        network: the network that it trains.
        pool: whom it plays against.
        rivals: whom it is measured against, by spec.
        episodes: what happens in the games of the update under way; the learner's callback.
    """

    env: IsisOsirisVecEnv
    model: MaskablePPO
    network: BoardNetwork
    pool: OpponentPool
    rivals: dict[str, Agent]
    episodes: EpisodeStatistics


def set_up(config: TrainConfig) -> Setup:
    """A run before its first step."""
    baselines, rivals = named_agents(config)
    keep_freed_memory()
    torch.set_num_threads(config.threads)
    forms = config.forms()
    env = IsisOsirisVecEnv(
        [forms[slot % len(forms)] for slot in range(config.ppo.games)],
        opponents=[make_agent("random")],  # until the pool takes over
        recall=config.game.recall,
        reward=config.game.reward,
        margin_weight=config.game.margin_weight,
        threads=config.threads,
    )
    model = make_learner(config, env)
    network = policy_network(model)
    pool = OpponentPool(config.self_play, network, config.game.recall, baselines, config.seed)
    pool.seat(env)
    env.seed(config.seed * config.ppo.games)  # no two seeds share a deal
    episodes = EpisodeStatistics(pool.kind)
    model._setup_learn(config.steps, episodes)
    return Setup(env, model, network, pool, rivals, episodes)


def learn(
    config: TrainConfig,
    folder: Path,
    setup: Setup,
    update: int = 0,
    interrupted: Collection[int] = (),
    progress: bool = False,
) -> None:
    """Go on from `update` until `config.steps`, and write metrics and checkpoints to `folder`.

    Raises:
        Interrupted: `interrupted` was no longer empty after an update; all is saved.
        TrainingError: as in `run`.
    """
    env, model, network, pool, rivals, episodes = setup
    owed = False  # a checkpoint that is due but could not be written yet
    with (
        Metrics(folder, pool.kinds, [*rivals], last_step=model.num_timesteps) as metrics,
        tqdm(
            total=config.steps, initial=model.num_timesteps, unit="step", unit_scale=True, disable=not progress
        ) as bar,
    ):
        started = time.perf_counter() - metrics.seconds
        while model.num_timesteps < config.steps:
            before, begun = model.num_timesteps, time.perf_counter()
            model._update_current_progress_remaining(before, config.steps)
            model.ent_coef = _linear(config.ppo.entropy, config.ppo.final_entropy, model._current_progress_remaining)
            model.collect_rollouts(env, episodes, model.rollout_buffer, config.ppo.steps_per_update)
            model.train()
            update += 1
            step = model.num_timesteps
            row = {"step": step, **learner_metrics(model), **episodes.summary()}
            ill = _illness(network, row)
            pool.note_shares(episodes.shares["snapshot"])
            episodes.clear()
            if _due(config.self_play.snapshot_every, before, step):
                pool.add_snapshot()
            pool.draw(update)
            pool.seat(env)
            if _due(config.evaluation.every, before, step) and step < config.steps and not ill:
                results = evaluate_policy(config, network, rivals, config.evaluation.games_on_the_way)
                row |= {f"score_{spec}": round(mean_score(found), 4) for spec, found in results.items()}

            now = time.perf_counter()
            row |= {"seconds": round(now - started, 2), "steps_per_second": round((step - before) / (now - begun), 1)}
            stopping = bool(interrupted)  # looked at once: asked to stop later than here, the next update is the last
            owed |= _due(config.checkpoint_every, before, step) or step >= config.steps or stopping
            try:
                metrics.write(row)
                if owed and not ill:
                    save(folder, network, config, step, state.capture(model, env, pool, update))
                    owed = False
            except OSError as error:
                bar.write(f"step {step}: cannot save ({error}); training goes on and tries again at the next update")
                owed = True
            if ill:
                raise TrainingError(f"{folder}, step {step}: {ill}; {_last_good(folder)}")
            bar.update(step - before)
            bar.set_postfix({key: row[key] for key in ("entropy", "draw_share") if key in row}, refresh=False)
            if stopping and not owed:
                raise Interrupted(f"stopped at step {step}; go on with: python -m train --resume {folder}")
    if owed:
        raise TrainingError(f"the last checkpoint could not be written; {_last_good(folder)}")


def make_learner(config: TrainConfig, env: IsisOsirisVecEnv) -> MaskablePPO:
    """The learner on `env`, untrained; all its randomness comes from `config.seed`."""
    ppo = config.ppo
    model = MaskablePPO(
        BoardPolicy,
        env,
        learning_rate=lambda remaining: _linear(ppo.learning_rate, ppo.final_learning_rate, remaining),
        n_steps=ppo.steps_per_update,
        batch_size=ppo.minibatch,
        n_epochs=ppo.epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip,
        ent_coef=ppo.entropy,
        vf_coef=ppo.value,
        max_grad_norm=ppo.max_grad_norm,
        policy_kwargs={"board": config.game.board, **asdict(config.network)},
        seed=config.seed,
        device=config.device,
    )
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def evaluate_policy(
    config: TrainConfig, network: BoardNetwork, rivals: dict[str, Agent], games: int, progress: bool = False
) -> dict[str, list[Evaluation]]:
    """The policy's most likely actions against every rival in every form, on deals that training never plays."""
    agent = NetworkAgent(network, config.game.recall)
    seed = config.evaluation.seed
    return {
        spec: [evaluate([agent, rival], [config.name, spec], form, games, seed, progress) for form in config.forms()]
        for spec, rival in rivals.items()
    }


def mean_score(evaluations: list[Evaluation]) -> float:
    """The policy's score rate, averaged over the forms of the game."""
    return sum(e.agents[0].score_rate for e in evaluations) / len(evaluations)


def keep_freed_memory() -> None:
    """Have glibc keep what is freed rather than return it to the system.

    Each minibatch frees and takes the same tens of megabytes; without this every one of them pays for fresh pages.
    """
    name = ctypes.util.find_library("c") if sys.platform == "linux" else None
    mallopt = getattr(ctypes.CDLL(name), "mallopt", None) if name else None
    if mallopt:
        m_trim_threshold, m_mmap_threshold = -1, -3
        mallopt(m_trim_threshold, 1 << 30)
        mallopt(m_mmap_threshold, 1 << 30)


def named_agents(config: TrainConfig) -> tuple[dict[str, Agent], dict[str, Agent]]:
    """The baselines that are trained against and the rivals that are measured against, by spec.

    An agent in both lists is two, so that what one remembers of its games is not the other's. What baselines remember
    is not part of a checkpoint: a resumed run equals one left alone only where they remember nothing.

    Raises:
        ConfigError: a spec names no agent, or one that cannot play on this board.
    """

    def make(key: str, spec: str) -> Agent:
        try:
            agent = make_agent(spec)
        except ValueError as error:
            raise ConfigError(f"{key}: {error}") from None
        board = getattr(agent, "board", config.game.board)
        if board != config.game.board:
            raise ConfigError(f"{key}: agent {spec!r} plays on board {board!r}, not on {config.game.board!r}")
        return agent

    baselines = {spec: make("self_play.baselines", spec) for spec in config.self_play.baselines}
    rivals = {spec: make("evaluation.opponents", spec) for spec in config.evaluation.opponents}
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device='cuda': this machine or this build of torch has none")
    return baselines, rivals


def _illness(network: BoardNetwork, row: dict[str, Any]) -> str:
    """What is wrong with the policy, in words; empty where nothing is."""
    if not parameters_finite(network):
        return "weights are no longer finite"
    if not row["entropy"] >= LEAST_ENTROPY:
        return f"the policy has collapsed: entropy {row['entropy']}"
    if not row["approx_kl"] <= MOST_KL:
        return f"an update threw the policy far away: approximate KL {row['approx_kl']}"
    return ""


def _last_good(folder: Path) -> str:
    saved = list_checkpoints(folder)
    return f"the last good checkpoint is {saved[-1]}" if saved else "there is no checkpoint yet"


@contextmanager
def _interruption() -> Iterator[list[int]]:
    """A list that is filled at the first Ctrl-C or SIGTERM; the second one stops at once."""
    seen: list[int] = []

    def note(number: int, frame: Any) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)
        print("\nfinishing this update, then saving; once more to stop at once", file=sys.stderr)

    if threading.current_thread() is not threading.main_thread():
        yield seen  # only the main thread may handle signals, and only it is sent them
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _linear(first: float, last: float, remaining: float) -> float:
    """From `first`, where all of the run remains, to `last`."""
    return last + remaining * (first - last)


def _due(every: int, before: int, after: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]."""
    return every > 0 and after // every > before // every
