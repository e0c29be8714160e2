"""Maskable PPO by self-play, top to bottom: games, learner, rollout, update, snapshot, evaluation, checkpoint."""

import copy
import csv
import ctypes
import ctypes.util
import itertools
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from tqdm import tqdm

from agents.checkpoint import CHECKPOINTS_FOLDER, network_metadata, parameters_finite, save_checkpoint
from agents.learned import NetworkAgent
from agents.network import BoardNetwork
from isis_env.deal import random_below
from isis_env.envs.sb3 import IsisOsirisVecEnv
from isis_env.policy import Agent, make_agent
from train.config import ConfigError, TrainConfig, dump_config
from train.evaluate import Evaluation, evaluate, print_table, write_json
from train.policy import BoardPolicy

CONFIG_FILE, METRICS_FILE, EVALUATION_FILE = "config.yaml", "metrics.csv", "evaluation.json"

LATEST, SNAPSHOT = 0, 1  # first places among the opponents; named baselines follow


class TrainingError(RuntimeError):
    """A run that cannot go on; the message says why and what is left of it."""


def train(config: TrainConfig, progress: bool = True) -> Path:
    """Train one policy and return its run folder.

    The folder then holds `config.yaml` (the whole config), `metrics.csv` (a row per update), `checkpoints/step-*` (see
    `agents.checkpoint`) and `evaluation.json` (the trained policy against `config.evaluation.opponents`).

    Raises:
        ConfigError: the run folder cannot be written, or an opponent's spec names no agent.
        TrainingError: weights became NaN or infinite.
    """
    keep_freed_memory()
    torch.set_num_threads(config.threads or len(os.sched_getaffinity(0)))
    baselines = {spec: _agent(spec) for spec in config.self_play.baselines}
    rivals = {spec: _agent(spec) for spec in config.evaluation.opponents}
    folder = _make_run_folder(config)

    env = IsisOsirisVecEnv(
        config.game_config(),
        config.ppo.games,
        opponents=list(rivals.values()) or [make_agent("random")],  # replaced once there is a policy
        seed=config.seed,
        recall=config.game.recall,
        reward=config.game.reward,
    )
    model = _make_learner(config, env)
    network = policy_network(model)
    latest = NetworkAgent(network, config.game.recall, sample=True, batch_invariant=False)
    pool: list[NetworkAgent] = []
    _seat_opponents(env, config, latest, pool, baselines, update=0)

    metrics = Metrics(folder / METRICS_FILE, [*baselines], [*rivals])
    episodes = EpisodeStatistics(env, [*baselines])
    _, callback = model._setup_learn(config.steps, episodes)
    started = time.perf_counter()
    update = 0
    with tqdm(total=config.steps, unit="step", unit_scale=True, disable=not progress) as bar:
        while model.num_timesteps < config.steps:
            before = model.num_timesteps
            model.collect_rollouts(env, callback, model.rollout_buffer, config.ppo.steps_per_update)
            model._update_current_progress_remaining(before, config.steps)
            model.train()
            update += 1
            step = model.num_timesteps
            if not parameters_finite(network):
                raise TrainingError(f"{folder}: weights are no longer finite at step {step}; earlier checkpoints stand")

            row = {
                "step": step,
                "seconds": round(time.perf_counter() - started, 2),
                **learner_metrics(model),
                **episodes.summarise(),
            }
            if _due(config.self_play.snapshot_every, before, step):
                pool.append(_frozen(latest))
                del pool[: -config.self_play.pool]
            _seat_opponents(env, config, latest, pool, baselines, update)
            if _due(config.evaluation.every, before, step) and step < config.steps:
                results = _evaluate(config, network, rivals, config.evaluation.games_on_the_way)
                row |= {f"score_{spec}": round(e.agents[0].score_rate, 4) for spec, e in results.items()}
            metrics.write(row)
            if _due(config.checkpoint_every, before, step) or step >= config.steps:
                _save(folder, network, config, step)
            bar.update(step - before)
            bar.set_postfix(_postfix(row), refresh=False)

    results = _evaluate(config, network, rivals, config.evaluation.games, progress)
    for result in results.values():
        print_table(result)
    write_json(list(results.values()), folder / EVALUATION_FILE)
    return folder


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


def _make_run_folder(config: TrainConfig) -> Path:
    """A folder of the run's own: its name or, where that is taken, the name with the next free number."""
    names = (config.name if number == 1 else f"{config.name}-{number}" for number in itertools.count(1))
    folder = next(path for name in names if not (path := Path(config.runs_folder) / name).exists())
    try:
        (folder / CHECKPOINTS_FOLDER).mkdir(parents=True)
        (folder / CONFIG_FILE).write_text(dump_config(config))
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror})") from None
    return folder


def _agent(spec: str) -> Agent:
    try:
        return make_agent(spec)
    except ValueError as error:
        raise ConfigError(f"opponents: {error}") from None


def _make_learner(config: TrainConfig, env: IsisOsirisVecEnv) -> MaskablePPO:
    ppo = config.ppo

    def learning_rate(remaining: float) -> float:
        return ppo.final_learning_rate + remaining * (ppo.learning_rate - ppo.final_learning_rate)

    model = MaskablePPO(
        BoardPolicy,
        env,
        learning_rate=learning_rate,
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


def policy_network(model: MaskablePPO) -> BoardNetwork:
    """The network that `model` trains."""
    assert isinstance(model.policy, BoardPolicy)
    return model.policy.network


def _seat_opponents(
    env: IsisOsirisVecEnv,
    config: TrainConfig,
    latest: NetworkAgent,
    pool: list[NetworkAgent],
    baselines: dict[str, Agent],
    update: int,
) -> None:
    """Set who is played against until the next update.

    One snapshot of the pool is in play at a time, drawn anew at every update: few distinct networks mean few, large
    forward passes.
    """
    shares = config.self_play
    snapshot = pool[random_below(np.uint64(config.seed), update, len(pool))] if pool else latest
    env.set_opponents(
        [latest, snapshot, *baselines.values()], [shares.latest, shares.snapshots, *shares.baselines.values()]
    )


def _frozen(agent: NetworkAgent) -> NetworkAgent:
    network = copy.deepcopy(agent.network).requires_grad_(False)
    return NetworkAgent(network, agent.recall, sample=True, batch_invariant=False)


def _evaluate(
    config: TrainConfig, network: BoardNetwork, rivals: dict[str, Agent], games: int, progress: bool = False
) -> dict[str, Evaluation]:
    agent = NetworkAgent(network, config.game.recall)
    settings = config.evaluation
    return {
        spec: evaluate([agent, rival], [config.name, spec], config.game_config(), games, settings.seed, progress)
        for spec, rival in rivals.items()
    }


def _save(folder: Path, network: BoardNetwork, config: TrainConfig, step: int) -> None:
    metadata = network_metadata(network, config.game.board, config.game.recall, step)
    metadata |= {"config": asdict(config), "git_revision": git_revision()}
    save_checkpoint(folder / CHECKPOINTS_FOLDER / f"step-{step:010d}", network, metadata)


def git_revision() -> str | None:
    """The commit of the checkout, with `-dirty` behind it where files were changed; None outside a checkout."""
    here = Path(__file__).parent
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _due(every: int, before: int, after: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]."""
    return every > 0 and after // every > before // every


def _postfix(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("entropy", "return_latest", "draw_share") if row.get(key) is not None}


def learner_metrics(model: MaskablePPO) -> dict[str, float]:
    """What the last update said of itself."""
    values = model.logger.name_to_value
    names = {
        "learning_rate": "train/learning_rate",
        "policy_loss": "train/policy_gradient_loss",
        "value_loss": "train/value_loss",
        "approx_kl": "train/approx_kl",
        "clip_fraction": "train/clip_fraction",
        "explained_variance": "train/explained_variance",
    }
    found = {ours: float(values[theirs]) for ours, theirs in names.items()}
    found["entropy"] = -float(values["train/entropy_loss"])
    return {name: float(f"{value:.5g}") for name, value in found.items()}


class EpisodeStatistics(BaseCallback):
    """Collects what happens in the games between two updates.

    `summarise` gives the mean return per kind of opponent (of the seat after the learner), the mean number of decisions
    per game, and the share of draws among decisions where both a draw and a placement were legal.
    """

    def __init__(self, env: IsisOsirisVecEnv, baselines: Sequence[str]) -> None:
        super().__init__()
        self._env = env
        self._kinds = ["latest", "snapshot", *baselines]
        self._clear()

    def _clear(self) -> None:
        self._returns: dict[str, list[float]] = defaultdict(list)
        self._lengths: list[int] = []
        self._choices = self._draws = 0

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self._returns[self._kinds[info["opponents"][0]]].append(info["episode"]["r"])
                self._lengths.append(info["episode"]["l"])
        masks, actions = self.locals["action_masks"], self.locals["actions"]
        choice = (masks[:, -1] == 1) & (masks[:, :-1].any(axis=1))
        self._choices += int(choice.sum())
        self._draws += int((actions[choice] == masks.shape[1] - 1).sum())
        return True

    def summarise(self) -> dict[str, float]:
        """The statistics since the last call."""
        summary = {f"return_{kind}": round(float(np.mean(r)), 4) for kind, r in self._returns.items()}
        if self._lengths:
            summary["decisions"] = round(float(np.mean(self._lengths)), 2)
        if self._choices:
            summary["draw_share"] = round(self._draws / self._choices, 4)
        self._clear()
        return summary


class Metrics:
    """`metrics.csv`: one row per update, written through at once; what was not measured stays empty."""

    def __init__(self, file: Path, baselines: Sequence[str], rivals: Sequence[str]) -> None:
        self._file = file
        self._columns = [
            "step",
            "seconds",
            "learning_rate",
            "policy_loss",
            "value_loss",
            "approx_kl",
            "clip_fraction",
            "explained_variance",
            "entropy",
            "decisions",
            "draw_share",
            *(f"return_{kind}" for kind in ("latest", "snapshot", *baselines)),
            *(f"score_{spec}" for spec in rivals),
        ]
        with file.open("w", newline="") as stream:
            csv.writer(stream).writerow(self._columns)

    def write(self, row: dict[str, Any]) -> None:
        """Append one row."""
        with self._file.open("a", newline="") as stream:
            csv.DictWriter(stream, self._columns).writerow(row)
