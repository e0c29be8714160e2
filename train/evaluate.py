"""How well agents play against each other: `python -m train.evaluate A B [...] --games N`.

A block is one deal played from every rotation of the seats, so that luck of the deal and of the seat cancel. Every
agent but the last takes one seat, the last fills the rest. Intervals are over blocks.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table
from scipy import stats
from tqdm import tqdm

import agents  # noqa: F401  (registers its specs)
from isis_env.agent import Agent, ask_each
from isis_env.batch import Batch
from isis_env.config import MAX_PLAYERS, GameConfig
from isis_env.deal import check_seed
from isis_env.policy import make_agent
from train.command import add_game_arguments, check_writable, form_slug, form_title, make_console, spec_slug, write_json
from train.config import EVALUATION_SEED

# More would not fit into memory, and no interval needs them.
MAX_GAMES = 10_000_000

# Games in progress at a time; bounds memory.
GAMES_AT_A_TIME = 2048


@dataclass(frozen=True)
class AgentResult:
    """What one agent reached, over all games; rates are shares of them.

    Attributes:
        agent: its spec.
        score_rate: mean share of the win: 1/k for each of its seats among k winners.
        interval: 95 % t interval of `score_rate` over blocks.
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
    """The results of all agents, and what is needed to play the same games again."""

    board: str
    players: int
    common_reserve: bool
    seed: int
    games: int
    blocks: int
    agents: list[AgentResult]


def evaluate(
    players: Sequence[Agent],
    names: Sequence[str],
    config: GameConfig,
    games: int,
    seed: int = EVALUATION_SEED,
    progress: bool = False,
) -> Evaluation:
    """Play `games` games, rounded up to whole blocks; block b uses seed `seed + b`.

    Args:
        players: 2 to `config.players` agents; the last fills the remaining seats.
        names: what to call them.
        progress: show a bar on stderr.

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
    with tqdm(total=blocks * n, unit="game", disable=not progress, leave=False) as bar:
        records = np.concatenate([play_blocks(players, config, wave, bar) for wave in waves])
    results = [_summarise(index, name, records, n) for index, name in enumerate(names)]
    return Evaluation(config.board, n, config.common_reserve, seed, blocks * n, blocks, results)


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


def play_blocks(players: Sequence[Agent], config: GameConfig, seeds: np.ndarray, bar: tqdm | None = None) -> np.ndarray:
    """One record per game of the blocks with these seeds; the games of a block stand together."""
    n = config.players
    batch = Batch(config, len(seeds) * n, reward="margin", illegal="lose")
    batch.reset(np.repeat(seeds, n))
    records = np.zeros(batch.num_games, RECORD)
    records["start"] = batch.states["start"]
    rotation = np.arange(batch.num_games)[:, None] % n
    records["agent"][:, :n] = np.minimum((np.arange(n) - rotation) % n, len(players) - 1)

    rows = np.arange(batch.num_games)
    while len(rows):
        chooser = records["agent"][rows, batch.states["seat"][rows]]
        turn = batch.step(ask_each(players, chooser, batch, rows), rows)
        if bar is not None:
            bar.update(int(turn.done.sum()))
        _record_ended(records, batch, rows[turn.done], turn.rewards[turn.done])
        rows = rows[~turn.done]
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


def t_interval(scores: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """95 % t interval of the mean of score rates; from one value nothing can be said, so it is all of [0, 1]."""
    values = np.asarray(scores)
    if len(values) < 2:
        return 0.0, 1.0
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def print_table(evaluation: Evaluation) -> None:
    """The results as a table on screen."""
    e = evaluation
    form = form_title(e.board, e.players, e.common_reserve)
    title = f"{form}: {e.games} games in {e.blocks} blocks, seed {e.seed}"
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


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m train.evaluate", description=__doc__.splitlines()[0])
    parser.add_argument(
        "agents", nargs="+", metavar="AGENT", help="spec, such as greedy, random or ppo:runs/quickstart"
    )
    parser.add_argument("--games", type=int, default=1000, help="rounded up to whole blocks (default: %(default)s)")
    add_game_arguments(parser)
    parser.add_argument("--out", type=Path, help="JSON file (default: results/, named after the arguments)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; 0, or 2 with one line on stderr where an argument cannot be used."""
    options = _arguments(argv)
    try:
        if options.out is not None:
            check_writable(options.out)
        config = GameConfig(options.board, options.players, options.common_reserve)
        players = [make_agent(spec) for spec in options.agents]
        result = evaluate(players, options.agents, config, options.games, options.seed, progress=True)
    except (ValueError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    print_table(result)
    file = options.out or _default_file(options.agents, config, options.seed)
    write_json(result, file)
    print(f"written to {file}")
    return 0


def _default_file(specs: Sequence[str], config: GameConfig, seed: int) -> Path:
    form = form_slug(config.board, config.players, config.common_reserve)
    return Path("results") / f"{'-vs-'.join(map(spec_slug, specs))}-{form}-seed{seed}.json"


if __name__ == "__main__":
    sys.exit(main())
