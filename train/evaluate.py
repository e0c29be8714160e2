"""How well agents play against each other: `python -m train.evaluate A B [...] --games N`.

A block is one deal played from every rotation of the seats, so that luck of the deal and of the seat cancel. Every
agent but the last takes one seat, the last fills the rest. Intervals are over blocks.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table
from scipy import special, stats

import agents  # noqa: F401  (registers its specs)
from isis_env.agent import Agent, ask_each
from isis_env.batch import Batch
from isis_env.config import MAX_PLAYERS, GameConfig
from isis_env.deal import check_seed
from isis_env.policy import make_agent
from train.command import (
    ArgumentParser,
    add_game_arguments,
    check_writable,
    form_slug,
    form_title,
    make_console,
    progress_bar,
    run_command,
    spec_slug,
    whole_number,
    write_json,
)
from train.config import EVALUATION_SEED, MAX_GAMES
from train.secret import resolve_secret, secret_deals
from train.slices import SlicedAgent

# Means and errors below this are 0 but for rounding.
ROUNDING = 1e-12

# Games in progress at a time; bounds memory.
GAMES_AT_A_TIME = 2048


@dataclass(frozen=True)
class AgentResult:
    """What one agent reached, over all games; rates are shares of them.

    Attributes:
        agent: its spec.
        score_rate: mean share of the win: 1/k for each of its seats among k winners.
        interval: 95 % interval of `score_rate` over blocks, see `t_interval`.
        wins, draws, losses: sole winner; among several with the top score; neither.
        margin: mean of own score minus the mean of the others', per seat; forfeited games as `reward.forfeit` pays.
        illegal: choices outside the mask; each ended its game.
        by_seat: score rate of one of its seats by seat index.
        by_turn: the same by order of play from the start player.
    """

    agent: str
    score_rate: float
    interval: tuple[float, float]
    wins: float
    draws: float
    losses: float
    margin: float
    illegal: int
    by_seat: list[float]
    by_turn: list[float]


@dataclass(frozen=True)
class Evaluation:
    """The results of all agents, and what is needed to play the same games again.

    Attributes:
        secret: what the deals follow from besides the seed (see `train.secret`), or None.
    """

    board: str
    players: int
    common_reserve: bool
    seed: int
    games: int
    blocks: int
    agents: list[AgentResult]
    secret: str | None = None


def evaluate(
    players: Sequence[Agent],
    names: Sequence[str],
    config: GameConfig,
    games: int,
    seed: int = EVALUATION_SEED,
    progress: bool = False,
    secret: str | None = None,
) -> Evaluation:
    """Play `games` games, rounded up to whole blocks; block b uses seed `seed + b`.

    Args:
        players: 2 to `config.players` agents; the last fills the remaining seats.
        names: what to call them.
        progress: show a bar on stderr; a half-played game counts half.
        secret: the deals follow from it and the block's seed; agents are still handed seeds that follow from the
            block's seed alone. None: the deals follow from the block's seed, too.

    Raises:
        ValueError: too few or too many agents, or one that is made for another board.
    """
    n = config.players
    if not 2 <= len(players) <= n:
        raise ValueError(f"{len(players)} agents: must be from 2 to {n} with {n} players")
    for agent, name in zip(players, names, strict=True):
        check_board(agent, name, config)
    seeds = block_seeds(games, seed, n)
    blocks = len(seeds)
    waves = np.array_split(seeds, math.ceil(blocks * n / GAMES_AT_A_TIME))
    with progress_bar(total=blocks * n, unit="game", disable=not progress, leave=False) as bar:
        records = np.concatenate([play_blocks(players, config, wave, bar.update, secret) for wave in waves])
    results = [_summarise(index, name, records, n) for index, name in enumerate(names)]
    return Evaluation(config.board, n, config.common_reserve, seed, blocks * n, blocks, results, secret)


def check_board(agent: Agent, name: str, config: GameConfig) -> None:
    """A ValueError where the agent is made for another board."""
    board = getattr(agent, "board", config.board)
    if board != config.board:
        raise ValueError(f"agent {name!r} plays on board {board!r}, not on {config.board!r}")


def block_seeds(games: int, seed: int, n: int) -> np.ndarray:
    """The seeds uint64[blocks] of the blocks that make up at least `games` games of n players.

    Raises:
        ValueError: too few or too many games, or seeds beyond the largest.
    """
    if not 1 <= games <= MAX_GAMES:
        raise ValueError(f"games={games!r}: must be from 1 to {MAX_GAMES}")
    blocks = math.ceil(games / n)
    check_seed(seed)
    check_seed(seed + blocks - 1, f"seed={seed}, and with it the last block's")
    return np.uint64(seed) + np.arange(blocks, dtype=np.uint64)


RECORD = np.dtype(
    [
        ("start", "i8"),  # seat of the start player
        ("agent", "i8", MAX_PLAYERS),  # index of the agent on each seat
        ("share", "f8", MAX_PLAYERS),  # of the win, per seat
        ("margin", "f8", MAX_PLAYERS),  # as `reward.pay` has it
        ("offender", "i8"),  # seat that ended the game by an illegal choice, else -1
    ]
)


def play_blocks(
    players: Sequence[Agent],
    config: GameConfig,
    seeds: np.ndarray,
    report: Callable[[float], object] = lambda games: None,
    secret: str | None = None,
) -> np.ndarray:
    """Play the blocks with these seeds.

    Args:
        players: as in `evaluate`.
        seeds: uint64[m].
        report: called every second or more often with the number of games played since, of which parts count, too.
        secret: as in `evaluate`.

    Returns:
        `RECORD[m * n]`, the games of a block together.
    """
    n = config.players
    batch = Batch(config, len(seeds) * n, reward="margin", illegal="lose")
    if secret is None:
        batch.reset(np.repeat(seeds, n))
    else:
        decks, starts = secret_deals(secret, seeds, config)
        batch.reset(np.repeat(seeds, n), deck=np.repeat(decks, n, axis=0), start_player=np.repeat(starts, n))
    records = np.zeros(batch.num_games, RECORD)
    records["start"] = batch.states["start"]
    rotation = np.arange(batch.num_games)[:, None] % n
    records["agent"][:, :n] = np.minimum((np.arange(n) - rotation) % n, len(players) - 1)

    sliced = [SlicedAgent(player, lambda turns: report(turns / config.cells)) for player in players]
    rows = np.arange(batch.num_games)
    while len(rows):
        chooser = records["agent"][rows, batch.states["seat"][rows]]
        step = batch.step(ask_each(sliced, chooser, batch, rows), rows)
        ended = rows[step.done]
        _record_ended(records, batch, ended, step.rewards[step.done])
        forfeited = ended[batch.forfeited[ended]]
        if len(forfeited):  # the turns that were never played
            placed = batch.final_states["placed"][forfeited].astype(np.int64)
            report(float((config.cells - placed - 1).sum() / config.cells))
        rows = rows[~step.done]
    return records


def _record_ended(records: np.ndarray, batch: Batch, rows: np.ndarray, margins: np.ndarray) -> None:
    n = batch.configs[0].players
    final = batch.final_states[rows]
    scores = final["score"][:, :n].astype(float)
    forfeited = batch.forfeited[rows, None]
    seats = np.arange(n)
    won = np.where(forfeited, seats != final["seat"][:, None], scores == scores.max(axis=1, keepdims=True))
    records["margin"][rows] = margins
    records["share"][rows, :n] = won / won.sum(axis=1, keepdims=True)
    records["offender"][rows] = np.where(forfeited[:, 0], final["seat"], -1)


def _summarise(index: int, name: str, records: np.ndarray, n: int) -> AgentResult:
    seats = records["agent"][:, :n] == index  # bool[games, n]
    shares = np.where(seats, records["share"][:, :n], 0.0)
    per_game = shares.sum(axis=1)
    blocks = per_game.reshape(-1, n).mean(axis=1)  # the games of a block stand together
    won = shares > 0
    sole = (won & (records["share"][:, :n] == 1.0)).any(axis=1)
    order = turn_order(records, n)
    return AgentResult(
        agent=name,
        score_rate=float(per_game.mean()),
        interval=t_interval(blocks),
        wins=float(sole.mean()),
        draws=float((won.any(axis=1) & ~sole).mean()),
        losses=float((~won.any(axis=1)).mean()),
        margin=float(records["margin"][:, :n][seats].mean()),
        illegal=int(offended(records, seats).sum()),
        by_seat=[float(shares[:, seat][seats[:, seat]].mean()) for seat in range(n)],
        by_turn=[float(shares[seats & (order == turn)].mean()) for turn in range(n)],
    )


def turn_order(records: np.ndarray, n: int) -> np.ndarray:
    """Every seat's place in the order of play, 0 for the start player: int[..., n] of `RECORD[...]`."""
    return (np.arange(n) - records["start"][..., None]) % n


def offended(records: np.ndarray, seats: np.ndarray) -> np.ndarray:
    """Whether one of `seats` (bool[..., n]) ended the game by an illegal choice: bool[...] of `RECORD[...]`."""
    offender = records["offender"]
    return np.take_along_axis(seats, np.maximum(offender, 0)[..., None], -1)[..., 0] & (offender >= 0)


def t_interval(
    scores: Sequence[float] | np.ndarray, highest: float = 1.0, trials: int | None = None
) -> tuple[float, float]:
    """95 % interval of the mean of independent values from 0 to `highest`, such as score rates, within these bounds.

    It is the t interval of the mean's logit by the delta method, transformed back (the logit interval of Brown, Cai and
    DasGupta, Interval Estimation for a Binomial Proportion, 2001, with the standard error of the values): with mean m
    and standard error e, logit(m) -+ t * e / (m * (1 - m)). Where all values are 0 or all are `highest`, the sample
    variance is 0 and it ends at the Clopper-Pearson bound, 1 - 0.025 ** (1 / trials) away from them. Where all are
    another value, it is that value. From one value nothing can be said, so it is everything from 0 to `highest`.

    Args:
        trials: how many independent trials the values are made of, such as the blocks of several runs; by default one
            for each value.
    """
    values = np.asarray(scores, float) / highest
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return 0.0, highest
    error = float(values.std(ddof=1)) / math.sqrt(n)
    spread = mean * (1 - mean)
    if spread < ROUNDING:
        reach = 1 - 0.025 ** (1 / (trials or n))
        return (0.0, reach * highest) if mean < 0.5 else ((1 - reach) * highest, highest)
    if error < ROUNDING:
        return mean * highest, mean * highest
    half = stats.t.ppf(0.975, n - 1) * error / spread
    low, high = special.expit(special.logit(mean) + np.array([-half, half])) * highest
    return float(low), float(high)


def print_table(evaluation: Evaluation) -> None:
    """The results as a table on screen."""
    e = evaluation
    form = form_title(e.board, e.players, e.common_reserve)
    title = f"{form}: {e.games} games in {e.blocks} blocks, seed {e.seed}{', secret deals' if e.secret else ''}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("agent", overflow="fold", min_width=10)
    for heading in ("score", "95 % interval", "w/d/l %", "margin", "by turn", "illegal"):
        table.add_column(heading, justify="right", no_wrap=True)
    for r in e.agents:
        table.add_row(
            r.agent,
            f"{r.score_rate:.3f}",
            f"{r.interval[0]:.3f} to {r.interval[1]:.3f}",
            f"{r.wins:.1%}/{r.draws:.1%}/{r.losses:.1%}".replace("%", ""),
            f"{r.margin:+.1f}",
            " ".join(f"{rate:.2f}" for rate in r.by_turn),
            str(r.illegal),
        )
    make_console().print(table)


def add_secret_argument(parser: argparse.ArgumentParser) -> None:
    """`--secret`."""
    parser.add_argument(
        "--secret",
        metavar="random|TEXT",
        help="keep the deals from agents that know the seeds: they follow from this text, too (default: no secret)",
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = ArgumentParser(prog="python -m train.evaluate", description=__doc__.splitlines()[0])
    parser.add_argument(
        "agents", nargs="+", metavar="AGENT", help="spec, such as greedy, random or ppo:runs/quickstart"
    )
    parser.add_argument(
        "--games", type=whole_number, default=1000, help="rounded up to whole blocks (default: %(default)s)"
    )
    add_game_arguments(parser)
    add_secret_argument(parser)
    parser.add_argument("--out", type=Path, help="JSON file (default: results/, named after the arguments)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status, see `run_command`."""
    return run_command(lambda: _evaluate(_arguments(argv)), stopped="stopped; nothing was written")


def _evaluate(options: argparse.Namespace) -> None:
    config = GameConfig(options.board, options.players, options.common_reserve)
    secret = resolve_secret(options.secret)
    file = options.out or _default_file(options.agents, config, options.seed, secret)
    check_writable(file)
    players = [make_agent(spec) for spec in options.agents]
    result = evaluate(players, options.agents, config, options.games, options.seed, progress=True, secret=secret)
    print_table(result)
    write_json(result, file)
    print(f"written to {file}")


def _default_file(specs: Sequence[str], config: GameConfig, seed: int, secret: str | None) -> Path:
    form = form_slug(config.board, config.players, config.common_reserve)
    names = "-vs-".join(map(spec_slug, specs))
    return Path("results") / f"{names}-{form}-seed{seed}{'-secret' if secret else ''}.json"


if __name__ == "__main__":
    sys.exit(main())
