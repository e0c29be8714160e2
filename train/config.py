"""The config of a training run: every key, its meaning, its default, and which values it may have.

`train.config_file` reads a config from a YAML file and the command line.
"""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse.typing import restricted_number_type

from isis_env.config import GameConfig
from isis_env.secrecy import Recall, check_recall

# Default seed of the first evaluation deal; `check_values` refuses one whose deals are trained on.
EVALUATION_SEED = 1_000_000_000

# What numpy's generator, which SB3 shuffles with, takes as a seed.
MAX_SEED = 2**32 - 1

# Checkpoint folders are named by steps of ten digits.
MAX_STEPS = 10**10 - 1

# More games of an evaluation would not fit into memory, and no interval needs them.
MAX_GAMES = 10_000_000


class ConfigError(ValueError):
    """A config that cannot be used; the message names the file, the key and what was allowed."""


def _number(name: str, base: type, allowed: str, *restrictions: tuple[str, float]) -> Any:
    """A type for jsonargparse; `allowed` says in words what the restrictions say."""
    created = restricted_number_type(name, base, list(restrictions))
    created.allowed = allowed
    return created


INFINITY = float("inf")

if TYPE_CHECKING:
    Count = int
    Games = int
    AtLeastTwo = int
    CountOrZero = int
    Seed = int
    DealSeed = int
    Positive = float
    NonNegative = float
    ClosedUnitInterval = float
    Finite = float
else:
    Count = _number("Count", int, f"a whole number from 1 to {MAX_STEPS}", (">=", 1), ("<=", MAX_STEPS))
    Games = _number("Games", int, f"a whole number from 1 to {MAX_GAMES}", (">=", 1), ("<=", MAX_GAMES))
    AtLeastTwo = _number("AtLeastTwo", int, f"a whole number from 2 to {MAX_STEPS}", (">=", 2), ("<=", MAX_STEPS))
    CountOrZero = _number("CountOrZero", int, f"a whole number from 0 to {MAX_STEPS}", (">=", 0), ("<=", MAX_STEPS))
    Seed = _number("Seed", int, f"a whole number from 0 to {MAX_SEED}", (">=", 0), ("<=", MAX_SEED))
    DealSeed = _number("DealSeed", int, "a whole number from 0 to 2**63", (">=", 0), ("<=", 2**63))
    Positive = _number("Positive", float, "a finite number above 0", (">", 0.0), ("<", INFINITY))
    NonNegative = _number("NonNegative", float, "a finite number of at least 0", (">=", 0.0), ("<", INFINITY))
    ClosedUnitInterval = _number("ClosedUnitInterval", float, "a number from 0 to 1", (">=", 0.0), ("<=", 1.0))
    Finite = _number("Finite", float, "a finite number", (">", -INFINITY), ("<", INFINITY))


@dataclass
class GameSettings:
    """Which form of the game is played.

    Args:
        board: standard, mini4 or mini3.
        players: 2, 3 or 4; 2 on the small boards. A list trains one network on all of them side by side.
        common_reserve: the variant in which all draw from one reserve; a list likewise.
        recall: own turns that a face stays visible, an integer >= 1, or full.
        reward: win or margin.
        margin_weight: added to the return per point of margin, so that win with 0.05 is a mix of both; auto is 0.05
            with win and 0 with margin.
    """

    board: Literal["standard", "mini4", "mini3"] = "standard"
    players: int | list[int] = 2
    common_reserve: bool | list[bool] = False
    recall: Recall = "full"
    reward: Literal["win", "margin"] = "win"
    margin_weight: Finite | Literal["auto"] = "auto"

    @property
    def added_margin(self) -> float:
        """`margin_weight` as a number."""
        added = 0.05 if self.reward == "win" else 0.0
        return added if self.margin_weight == "auto" else self.margin_weight


@dataclass
class NetworkSettings:
    """The size of the policy network, see agents/learned/network.py.

    Args:
        channels: features per cell.
        rounds: how often cells are mixed with their neighbours.
    """

    channels: Count = 48
    rounds: Count = 2


# The defaults below are those that scored best against greedy after 400,000 steps of two players, one run each; the
# interval of a run is +-0.02, and seeds differ by about 0.04:
#   margin_weight 0, 0.02, 0.05, 0.1          0.44  0.52  0.62  0.53
#   learning_rate 1e-3, 2e-3, 4e-3            0.52  0.62  0.53
#   ent_coef 0.003, 0.01                      0.52  0.62
#   gae_lambda 0.9, 0.95                      0.57  0.62


@dataclass
class PPOSettings:
    """Maskable PPO; keys are named as in Stable-Baselines3.

    Args:
        n_envs: games played side by side.
        n_steps: learner decisions per game in a rollout, which an update learns from.
        batch_size: decisions per gradient step.
        n_epochs: passes over a rollout.
        learning_rate: at the start; it goes linearly to final_learning_rate.
        final_learning_rate: at the end.
        gamma: discount per learner decision.
        gae_lambda: trade-off between bias and variance of the advantages.
        clip_range: how far the probability ratio may move.
        ent_coef: weight of the entropy bonus at the start; it goes linearly to final_ent_coef.
        final_ent_coef: at the end.
        vf_coef: weight of the value loss.
        max_grad_norm: gradients are scaled down to this norm.
    """

    n_envs: Count = 512
    n_steps: Count = 32
    batch_size: AtLeastTwo = 2048
    n_epochs: Count = 3
    learning_rate: Positive = 2e-3
    final_learning_rate: NonNegative = 1e-4
    gamma: ClosedUnitInterval = 1.0
    gae_lambda: ClosedUnitInterval = 0.95
    clip_range: Positive = 0.2
    ent_coef: NonNegative = 0.01
    final_ent_coef: NonNegative = 0.01
    vf_coef: NonNegative = 0.25
    max_grad_norm: Positive = 0.5


@dataclass
class SelfPlaySettings:
    """Who sits on the other seats, drawn anew for every seat and game.

    Args:
        latest: share of the policy as it is now.
        snapshots: share of frozen earlier policies; goes to latest while there are none.
        baselines: share of each named agent (a spec such as greedy).
        pool: snapshots kept; the oldest is dropped first.
        draw: which snapshot is in play, drawn at every update: uniform, recent (the newer the likelier) or pfsp (the
            more often it still wins the likelier).
        snapshot_every: steps between two snapshots.
        temperature: what the logits of latest and snapshots are divided by when they move as opponents.
    """

    latest: NonNegative = 0.8
    snapshots: NonNegative = 0.2
    baselines: dict[str, NonNegative] = field(default_factory=dict)
    pool: Count = 8
    draw: Literal["uniform", "recent", "pfsp"] = "uniform"
    snapshot_every: Count = 100_000
    temperature: Positive = 1.0


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
    games: Games = 1000
    every: CountOrZero = 250_000
    games_on_the_way: Games = 400
    seed: DealSeed = EVALUATION_SEED


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
        threads: CPU threads, at most the larger of 64 and the number of cores; 0 takes one per core and writes their
            number to the run's own config.
        device: where the network lives, cpu or cuda.
        init: weights to begin with, a run folder or a checkpoint folder; new ones where it is empty. Their board,
            channels and rounds must be this config's.
        init_sha256: hash of those weights, written to the run's own config; where it is given, they must have it.
        earlier_steps: pairs [UNTIL, STEPS]: up to step UNTIL the schedules were those of a run of STEPS steps. Written
            to the run's own config by `--resume RUN --steps N`.
    """

    name: str = "run"
    steps: Count = 1_000_000
    seed: Seed = 0
    runs_folder: str = "runs"
    checkpoint_every: Count = 100_000
    keep_last: Count = 3
    keep_every: Count = 1_000_000
    threads: CountOrZero = 0
    device: Literal["cpu", "cuda"] = "cpu"
    init: str = ""
    init_sha256: str = ""
    earlier_steps: list[list[Count]] = field(default_factory=list)
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

    def steps_at(self, step: int) -> int:
        """The number of steps that the schedules are drawn for at `step`: of `steps` or an earlier total."""
        return next((steps for until, steps in self.earlier_steps if step < until), self.steps)


def check_values(config: TrainConfig, source_of: Callable[[str], str]) -> None:
    """What the types of single keys do not say; `source_of` tells where a key's value came from.

    Raises:
        ConfigError: a value does not go with the others.
    """

    def require(condition: bool, key: str, value: object, allowed: str) -> None:
        if not condition:
            raise ConfigError(f"{source_of(key)}: {key}={value!r} must be {allowed}")

    game, ppo, play, evaluation = config.game, config.ppo, config.self_play, config.evaluation
    try:
        forms = config.forms()
        check_recall(game.recall)
    except ValueError as error:
        key = "game." + str(error).partition("=")[0]
        raise ConfigError(f"{source_of(key)}: game.{error}") from None
    named = f"players={game.players!r}, common_reserve={game.common_reserve!r}"
    require(bool(forms), "game", named, "at least one form: no empty lists")
    require(
        game.reward == "win" or game.added_margin == 0,
        "game.margin_weight",
        game.margin_weight,
        "0 with reward: margin, which it would only scale",
    )
    plain = re.fullmatch(r"[\w=+-][\w .=+-]{0,99}", config.name) is not None
    require(plain, "name", config.name, "a plain folder name: letters, digits and _ - + = . inside")
    for key in ("runs_folder", "init"):
        require("\0" not in getattr(config, key), key, getattr(config, key), "a path")
    deals = (config.seed * ppo.n_envs, (config.seed + 1) * ppo.n_envs)
    most_games = max(evaluation.games, evaluation.games_on_the_way)
    require(
        deals[1] <= evaluation.seed or evaluation.seed + most_games <= deals[0],
        "evaluation.seed",
        evaluation.seed,
        f"clear of the deals that are trained on, seeds {deals[0]} to {deals[1] - 1} (seed * ppo.n_envs and on)",
    )
    require(
        ppo.n_envs * ppo.n_steps % ppo.batch_size != 1,
        "ppo.batch_size",
        ppo.batch_size,
        "a size that leaves no minibatch of one decision, whose advantage cannot be normalised",
    )
    shares = {"latest": play.latest, "snapshots": play.snapshots, **play.baselines}
    require(0 < sum(shares.values()) < INFINITY, "self_play", shares, "shares with a finite sum above 0")
    totals = config.earlier_steps
    pairs = all(len(pair) == 2 for pair in totals)
    require(
        pairs and all(a[0] < b[0] for a, b in itertools.pairwise(totals)),
        "earlier_steps",
        totals,
        "pairs [UNTIL, STEPS] with rising UNTIL",
    )
