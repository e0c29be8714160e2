"""What a PPO run consists of: the games, the learner, its opponents, and those it is measured against."""

from dataclasses import asdict
from typing import NamedTuple

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.logger import Logger

from agents.learned.checkpoint import NETWORK_FILE, Checkpoint, CheckpointError, load_checkpoint
from agents.learned.network import BoardNetwork
from isis_env.agent import Agent
from isis_env.envs.sb3 import IsisOsirisVecEnv
from isis_env.policy import make_agent
from train.config import ConfigError, TrainConfig
from train.ppo.memory import check_resources, keep_freed_memory
from train.ppo.opponents import OpponentPool
from train.ppo.policy import BoardPolicy, policy_network
from train.ppo.statistics import EpisodeStatistics


class Setup(NamedTuple):
    """What a run consists of.

    Attributes:
        env: the games.
        model: the learner.
        network: the network that it trains.
        pool: whom it plays against.
        rivals: whom it is measured against, by spec.
        episodes: what happens in the games of the rollout under way; the learner's callback.
    """

    env: IsisOsirisVecEnv
    model: MaskablePPO
    network: BoardNetwork
    pool: OpponentPool
    rivals: dict[str, Agent]
    episodes: EpisodeStatistics


def check_setup(config: TrainConfig) -> Checkpoint | None:
    """Find what would keep `set_up` from working, before anything is made or written; returns `initial_weights`.

    Raises:
        ConfigError: the machine is too small, an agent or device does not exist, or `init` cannot be used.
    """
    check_resources(config)
    named_agents(config)
    return initial_weights(config)


def set_up(config: TrainConfig) -> Setup:
    """A run before its first step, with untrained weights."""
    check_resources(config)
    baselines, rivals = named_agents(config)
    keep_freed_memory()
    torch.set_num_threads(config.threads)
    forms = config.forms()
    env = IsisOsirisVecEnv(
        [forms[slot % len(forms)] for slot in range(config.ppo.n_envs)],
        opponents=[make_agent("random")],  # until the pool takes over
        recall=config.game.recall,
        reward=config.game.reward,
        margin_weight=config.game.added_margin,
        threads=config.threads,
    )
    model = make_learner(config, env)
    network = policy_network(model)
    pool = OpponentPool(config.self_play, network, config.game.recall, baselines, config.seed)
    pool.seat(env)
    env.seed(config.seed * config.ppo.n_envs)  # no two seeds share a deal
    episodes = EpisodeStatistics(pool.kind)
    # What SB3's own `learn` begins with; `train.ppo.trainer` has the loop in its place
    model._setup_learn(config.steps, episodes)
    return Setup(env, model, network, pool, rivals, episodes)


def begin(config: TrainConfig) -> Setup:
    """A new run: `set_up`, with the weights of `config.init` where it names any."""
    setup = set_up(config)
    checkpoint = initial_weights(config)
    if checkpoint:
        setup.network.load_state_dict(checkpoint.network.state_dict())
    return setup


def make_learner(config: TrainConfig, env: IsisOsirisVecEnv) -> MaskablePPO:
    """The learner on `env`, untrained; all its randomness comes from `config.seed`."""
    ppo = config.ppo
    model = MaskablePPO(
        BoardPolicy,
        env,
        learning_rate=lambda remaining: linear(ppo.learning_rate, ppo.final_learning_rate, remaining),
        n_steps=ppo.n_steps,
        batch_size=ppo.batch_size,
        n_epochs=ppo.n_epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip_range,
        ent_coef=ppo.ent_coef,
        vf_coef=ppo.vf_coef,
        max_grad_norm=ppo.max_grad_norm,
        policy_kwargs={"board": config.game.board, **asdict(config.network)},
        seed=config.seed,
        device=config.device,
    )
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def linear(first: float, last: float, remaining: float) -> float:
    """From `first`, where all of the run remains (1), to `last` where nothing does (0)."""
    return last + max(remaining, 0.0) * (first - last)


def initial_weights(config: TrainConfig) -> Checkpoint | None:
    """The checkpoint that `config.init` names, None where it names none.

    Raises:
        ConfigError: it cannot be loaded, is of another board or size, or has not the hash that the config says.
    """
    if not config.init:
        return None
    try:
        checkpoint = load_checkpoint(config.init)
    except CheckpointError as error:
        raise ConfigError(f"init={config.init!r}: {error}") from None
    wanted = {
        "game.board": config.game.board,
        "network.channels": config.network.channels,
        "network.rounds": config.network.rounds,
    }
    for key, ours in wanted.items():
        theirs = checkpoint.metadata[key.rpartition(".")[2]]
        if theirs != ours:
            raise ConfigError(f"{key}={ours!r} must be {theirs!r}, as in the checkpoint of init={config.init!r}")
    found = weights_hash(checkpoint)
    if config.init_sha256 and config.init_sha256 != found:
        raise ConfigError(f"init_sha256={config.init_sha256!r} must be {found!r}, the hash of init={config.init!r}")
    return checkpoint


def weights_hash(checkpoint: Checkpoint) -> str:
    """The hash of a checkpoint's weights as they were saved."""
    return checkpoint.metadata["sha256"][NETWORK_FILE]


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
