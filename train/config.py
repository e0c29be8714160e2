"""What a training run is set up with, and how it is read from a YAML file and the command line."""

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from isis_env.config import GameConfig
from isis_env.reward import REWARDS
from isis_env.secrecy import Recall, check_recall

# Deals from here on are for evaluation; training plays those below.
EVALUATION_SEED = 1_000_000_000

# What numpy's generator, which SB3 shuffles with, takes as a seed.
MAX_SEED = 2**32 - 1

COMMAND_LINE = "command line"
DEVICES = ("cpu", "cuda")
DRAWS = ("uniform", "recent", "pfsp")


class ConfigError(ValueError):
    """A config that cannot be used; the message names the file, the key and what was allowed."""


@dataclass
class GameSettings:
    """Which form of the game is played.

    Args:
        board: standard, mini4 or mini3.
        players: 2, 3 or 4; 2 on the small boards. A list trains one network on all of them side by side.
        common_reserve: the variant in which all draw from one reserve; a list likewise.
        recall: own turns that a face stays visible, an integer >= 1, or full.
        reward: win or margin.
        margin_weight: added to the return per point of margin, so that win with 0.05 is a mix of both.
    """

    board: str = "standard"
    players: int | list[int] = 2
    common_reserve: bool | list[bool] = False
    recall: Recall = "full"
    reward: str = "win"
    margin_weight: float = 0.05


@dataclass
class NetworkSettings:
    """The size of the policy network, see agents/learned/network.py.

    Args:
        channels: features per cell.
        rounds: how often cells are mixed with their neighbours.
    """

    channels: int = 48
    rounds: int = 2


# The defaults below are those that scored best against greedy after 400,000 steps of two players, one run each; the
# interval of a run is +-0.02, and seeds differ by about 0.04:
#   margin_weight 0, 0.02, 0.05, 0.1          0.44  0.52  0.62  0.53
#   learning_rate 1e-3, 2e-3, 4e-3            0.52  0.62  0.53
#   entropy 0.003, 0.01                       0.52  0.62
#   gae_lambda 0.9, 0.95                      0.57  0.62


@dataclass
class PPOSettings:
    """Maskable PPO.

    Args:
        games: games played side by side.
        steps_per_update: learner decisions per game between two updates.
        minibatch: decisions per gradient step.
        epochs: passes over the decisions of an update.
        learning_rate: at the start; it goes linearly to final_learning_rate.
        final_learning_rate: at the end.
        gamma: discount per learner decision.
        gae_lambda: trade-off between bias and variance of the advantages.
        clip: how far the probability ratio may move.
        entropy: weight of the entropy bonus at the start; it goes linearly to final_entropy.
        final_entropy: at the end.
        value: weight of the value loss.
        max_grad_norm: gradients are scaled down to this norm.
    """

    games: int = 512
    steps_per_update: int = 32
    minibatch: int = 2048
    epochs: int = 3
    learning_rate: float = 2e-3
    final_learning_rate: float = 1e-4
    gamma: float = 1.0
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    final_entropy: float = 0.01
    value: float = 0.25
    max_grad_norm: float = 0.5


@dataclass
class SelfPlaySettings:
    """Who sits on the other seats, drawn anew for every seat and game.

    Args:
        latest: share of the policy as it is now.
        snapshots: share of frozen earlier policies; goes to latest while there are none.
        baselines: share of each named agent (a spec such as greedy).
        pool: snapshots kept; the oldest goes first.
        draw: which snapshot is in play, drawn at every update: uniform, recent (the newer the likelier) or pfsp (the
            more often it still wins the likelier).
        snapshot_every: steps between two snapshots.
        temperature: what the logits of latest and snapshots are divided by when they move as opponents.
    """

    latest: float = 0.8
    snapshots: float = 0.2
    baselines: dict[str, float] = field(default_factory=dict)
    pool: int = 8
    draw: str = "uniform"
    snapshot_every: int = 100_000
    temperature: float = 1.0


@dataclass
class EvaluationSettings:
    """What the policy is measured against.

    Args:
        opponents: specs of the agents.
        games: paired games against each at the end.
        every: steps between two smaller evaluations on the way; 0 for none.
        games_on_the_way: paired games in each of those.
        seed: seed of the first deal; training never plays these deals.
    """

    opponents: list[str] = field(default_factory=lambda: ["random", "greedy"])
    games: int = 1000
    every: int = 250_000
    games_on_the_way: int = 400
    seed: int = EVALUATION_SEED


@dataclass
class TrainConfig:
    """One training run.

    Args:
        name: names the run folder.
        steps: learner decisions in all, rounded up to whole updates.
        seed: of the deals, the opponents, the weights and the exploration.
        runs_folder: where run folders are made.
        checkpoint_every: steps between two checkpoints.
        keep_last: the newest checkpoints that are kept.
        keep_every: of the older ones those are kept that first reach a multiple of this many steps.
        threads: CPU threads; 0 takes one per core and writes their number to the run's own config.
        device: where the network lives, cpu or cuda.
    """

    name: str = "run"
    steps: int = 1_000_000
    seed: int = 0
    runs_folder: str = "runs"
    checkpoint_every: int = 100_000
    keep_last: int = 3
    keep_every: int = 1_000_000
    threads: int = 0
    device: str = "cpu"
    game: GameSettings = field(default_factory=GameSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    ppo: PPOSettings = field(default_factory=PPOSettings)
    self_play: SelfPlaySettings = field(default_factory=SelfPlaySettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)

    def forms(self) -> list[GameConfig]:
        """Every form of the game that is trained on, as the library takes them; games are shared out evenly."""
        players, common = self.game.players, self.game.common_reserve
        return [
            GameConfig(self.game.board, n, variant)
            for n in (players if isinstance(players, list) else [players])
            for variant in (common if isinstance(common, list) else [common])
        ]


def read_config(file: Path, overrides: list[str]) -> TrainConfig:
    """The config of a YAML file with `--key value` pairs of the command line on top.

    Raises:
        ConfigError: the file cannot be read, or a key is unknown, given twice, of the wrong type or out of range.
    """
    try:
        given = yaml.load(file.read_text(encoding="utf-8"), _UniqueKeyLoader)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: no UTF-8 text") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: no YAML: {' '.join(str(error).split())}") from None
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise ConfigError(f"{file}: must hold keys and values, not {given!r}")
    _check_keys(given, _keys(TrainConfig), str(file))
    named = _override_keys(overrides)
    _check_keys(dict.fromkeys(named, ""), _keys(TrainConfig), COMMAND_LINE)
    parser = _parser()
    config = _parse(lambda: parser.parse_object(given), str(file))
    config = _parse(lambda: parser.parse_args(overrides, namespace=config), COMMAND_LINE)
    built = TrainConfig(**parser.instantiate(config).as_dict())
    in_file = _flat(given)

    def source_of(key: str) -> str:
        if key in named:
            return COMMAND_LINE
        return (
            str(file) if any(name == key or key.startswith(name + ".") for name in in_file) else f"{file}, by default"
        )

    _check_values(built, source_of)
    return built


class _UniqueKeyLoader(yaml.SafeLoader):
    """A SafeLoader that does not let the last of two equal keys win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                mark = key_node.start_mark
                raise yaml.YAMLError(f"key {key_node.value!r} stands twice, again in line {mark.line + 1}")
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def dump_config(config: TrainConfig) -> str:
    """The whole config, defaults included, as YAML that `read_config` takes."""
    return yaml.safe_dump(asdict(config), sort_keys=False)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(TrainConfig, None)
    return parser


def _parse(parse: Any, source: str) -> Any:
    try:
        return parse()
    except ArgumentError as error:
        raise ConfigError(f"{source}: {' '.join(str(error).split())}") from None


def _keys(cls: type) -> dict[str, Any]:
    """Every key of a settings class, with the keys below it where it is a class itself."""
    kinds = {f.name: f.default_factory for f in fields(cls)}
    return {
        name: _keys(kind) if isinstance(kind, type) and is_dataclass(kind) else None for name, kind in kinds.items()
    }


def _override_keys(overrides: list[str]) -> list[str]:
    return [item[2:].partition("=")[0] for item in overrides if item.startswith("--")]


def _check_keys(given: dict[str, Any], known: dict[str, Any], source: str, path: str = "") -> None:
    """Stop at the first key that does not exist, and name the nearest one that does, or that has no value."""
    for key, value in given.items():
        head, _, rest = str(key).partition(".")
        if head not in known:
            near = difflib.get_close_matches(head, known, 1, 0.5)
            hint = f"did you mean {path + near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{source}: unknown key {path + head!r}; {hint}")
        if value is None:
            raise ConfigError(f"{source}: key {path + str(key)!r} has no value")
        if known[head] is None:
            if rest:
                raise ConfigError(f"{source}: unknown key {path + str(key)!r}; {path + head!r} has no keys of its own")
        elif rest or isinstance(value, dict):
            _check_keys({rest: value} if rest else value, known[head], source, f"{path}{head}.")
        elif source != COMMAND_LINE:  # there the value is text that is yet to be read
            raise ConfigError(f"{source}: {path + head}={value!r} must hold keys: {', '.join(known[head])}")


def _check_values(config: TrainConfig, source_of: Callable[[str], str]) -> None:
    """What types alone do not say; `source_of` tells where a key's value came from."""

    def require(condition: bool, key: str, value: object, allowed: str) -> None:
        if not condition:
            raise ConfigError(f"{source_of(key)}: {key}={value!r} must be {allowed}")

    game, ppo, play, evaluation = config.game, config.ppo, config.self_play, config.evaluation
    for key, value in _flat(asdict(config)).items():
        if isinstance(value, float):
            require(math.isfinite(value), key, value, "finite")
    try:
        forms = config.forms()
        check_recall(game.recall)
    except ValueError as error:
        key = "game." + str(error).partition("=")[0]
        raise ConfigError(f"{source_of(key)}: game.{error}") from None
    require(bool(forms), "game", asdict(game), "at least one form: players and common_reserve must not be empty lists")
    require(game.reward in REWARDS, "game.reward", game.reward, " or ".join(REWARDS))
    require(
        game.reward == "win" or game.margin_weight == 0,
        "game.margin_weight",
        game.margin_weight,
        "0 with reward: margin, which it would only scale",
    )
    require(play.draw in DRAWS, "self_play.draw", play.draw, " or ".join(DRAWS))
    require(config.device in DEVICES, "device", config.device, " or ".join(DEVICES))
    plain = re.fullmatch(r"[\w=+-][\w .=+-]{0,99}", config.name) is not None
    require(plain, "name", config.name, "a plain folder name: letters, digits and _ - + = . inside")

    at_least_one = {
        "steps": config.steps,
        "checkpoint_every": config.checkpoint_every,
        "keep_last": config.keep_last,
        "keep_every": config.keep_every,
        "network.channels": config.network.channels,
        "network.rounds": config.network.rounds,
        "ppo.games": ppo.games,
        "ppo.steps_per_update": ppo.steps_per_update,
        "ppo.epochs": ppo.epochs,
        "self_play.pool": play.pool,
        "self_play.snapshot_every": play.snapshot_every,
        "evaluation.games": evaluation.games,
        "evaluation.games_on_the_way": evaluation.games_on_the_way,
    }
    for key, value in at_least_one.items():
        require(value >= 1, key, value, "at least 1")
    for key in ("channels", "rounds"):
        size = getattr(config.network, key)
        require(size <= 4096, f"network.{key}", size, "at most 4096")
    for key, value in {"threads": config.threads, "evaluation.every": evaluation.every}.items():
        require(value >= 0, key, value, "at least 0")
    require(0 <= config.seed <= MAX_SEED, "seed", config.seed, f"from 0 to {MAX_SEED}")
    require(0 <= evaluation.seed <= 2**63, "evaluation.seed", evaluation.seed, "from 0 to 2**63")
    deals = (config.seed * ppo.games, (config.seed + 1) * ppo.games)
    require(
        deals[1] <= evaluation.seed or evaluation.seed + evaluation.games <= deals[0],
        "evaluation.seed",
        evaluation.seed,
        f"clear of the deals that are trained on, seeds {deals[0]} to {deals[1] - 1} (seed * ppo.games and on)",
    )
    last = ppo.games * ppo.steps_per_update % ppo.minibatch if ppo.minibatch > 0 else 0
    require(
        ppo.minibatch >= 2 and last != 1,
        "ppo.minibatch",
        ppo.minibatch,
        "at least 2 and leave no minibatch of one decision, whose advantage cannot be normalised",
    )
    for key in ("gamma", "gae_lambda"):
        require(0 <= getattr(ppo, key) <= 1, f"ppo.{key}", getattr(ppo, key), "from 0 to 1")
    for key in ("learning_rate", "clip", "max_grad_norm"):
        require(getattr(ppo, key) > 0, f"ppo.{key}", getattr(ppo, key), "above 0")
    for key in ("final_learning_rate", "entropy", "final_entropy", "value"):
        require(getattr(ppo, key) >= 0, f"ppo.{key}", getattr(ppo, key), "at least 0")
    require(play.temperature > 0, "self_play.temperature", play.temperature, "above 0")
    shares = {"latest": play.latest, "snapshots": play.snapshots, **play.baselines}
    for key, share in shares.items():
        require(share >= 0, f"self_play.{key}", share, "at least 0")
    require(sum(shares.values()) > 0, "self_play", shares, "shares above 0 in sum")


def _flat(settings: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{path}{key}.") if isinstance(value, dict) else {path + key: value}
    return flat
