"""How much an agent gives away at the end of the game: `python -m train.regret AGENT --positions N`.

A measure of play that needs no opponent: the exact solver says what each choice costs. The positions are those with few
free cells in games between other agents (`--between`), wherever there is a choice. The agent under test is asked at
every decision of these games, from the first and on every seat, so that one that remembers has seen all that a player
sees; only its answers at the end count, and none is played. So all agents are measured on the very same positions.

What a choice costs is the best expected return that the seat on turn could have, minus the one after the choice, when
everybody plays perfectly from there on and remembers every face. Under limited recall forgetting costs, too.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich import box
from rich.table import Table

import agents  # noqa: F401  (registers its specs)
from agents.search.exact import TIE, Solution, Solver
from isis_env.agent import Agent, ask_each
from isis_env.batch import Batch
from isis_env.config import GameConfig, check_choice
from isis_env.deal import check_seed
from isis_env.game import NOTHING
from isis_env.policy import make_agent
from isis_env.reward import MARGIN_BOUND, REWARDS
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
from train.config import EVALUATION_SEED
from train.evaluate import check_board, t_interval
from train.slices import SlicedAgent

# Equals of the standard strength: their games stay close, and only in a close game does a choice at the end decide who
# wins. In games of greedy with random hardly any does. Deals and greedy's coin tosses make the positions differ enough.
BETWEEN = ("greedy",)

MAX_POSITIONS = 1_000_000

# Games in progress at a time; bounds memory.
GAMES_AT_A_TIME = 256

# What the offender gets for an illegal action (`reward.forfeit`).
FORFEITED = {"win": -1.0, "margin": -float(MARGIN_BOUND)}


@dataclass(frozen=True)
class Losses:
    """What the choices in some of the positions cost, in units of the return.

    Attributes:
        part: which positions.
        positions, games: how many, and from how many games.
        loss: mean expected loss per choice; an illegal one costs what forfeiting the game does.
        interval: 95 % interval of `loss` over games, see `train.evaluate.t_interval`.
        optimal: share of choices that cost nothing.
        uniform: what a uniformly random legal action would lose there.
        illegal: choices outside the mask.
    """

    part: str
    positions: int
    games: int
    loss: float
    interval: tuple[float, float]
    optimal: float
    uniform: float
    illegal: int


@dataclass(frozen=True)
class Regret:
    """What one agent's choices cost, overall and by part, and what is needed to ask it again."""

    agent: str
    board: str
    players: int
    common_reserve: bool
    reward: str
    free: int
    between: list[str]
    seed: int
    parts: list[Losses]


class _Asked(NamedTuple):
    """Positions and what the agent chose there, n rows by game and in the order of play."""

    games: np.ndarray  # int64[n], 0 for the first game
    states: np.ndarray  # `STATE[n]`, nothing concealed
    choices: np.ndarray  # int64[n]


_COST = np.dtype([("loss", "f8"), ("uniform", "f8"), ("illegal", "?")])


def measure(
    agent: Agent,
    name: str,
    config: GameConfig,
    between: Sequence[Agent],
    between_names: Sequence[str],
    *,
    free: int = 5,
    positions: int = 1000,
    reward: str = "win",
    seed: int = EVALUATION_SEED,
    progress: bool = False,
) -> Regret:
    """Ask an agent in `positions` positions, rounded up to whole games; game g is dealt by seed `seed + g`.

    Args:
        agent: the one under test.
        name: what to call it.
        between: who plays the games; seat s of game g is played by number (g + s) modulo their number.
        free: positions with at most so many free cells count; how many the solver can do depends on the form.
        reward: `"win"` or `"margin"`, whose returns are counted.
        progress: show bars on stderr.

    Raises:
        ValueError: an argument out of range, or an agent that is made for another board.
        BudgetExceededError: a position is too large for the solver.
    """
    check_choice("reward", reward, tuple(REWARDS))
    if not 2 <= free <= config.cells:
        raise ValueError(f"free={free!r}: must be from 2 to {config.cells}")
    if not 1 <= positions <= MAX_POSITIONS:
        raise ValueError(f"positions={positions!r}: must be from 1 to {MAX_POSITIONS}")
    if not between:
        raise ValueError("no agents to play the games")
    for one, called in zip([agent, *between], [name, *between_names], strict=True):
        check_board(one, called, config)
    check_seed(seed)
    check_seed(seed + positions - 1, f"seed={seed}, and with it the last game's")  # every game has a position
    asked = _ask(agent, between, config, free, positions, seed, progress)
    costs = _costs(asked, reward, progress)
    return Regret(
        agent=name,
        board=config.board,
        players=config.players,
        common_reserve=config.common_reserve,
        reward=reward,
        free=free,
        between=list(between_names),
        seed=seed,
        parts=[
            _summarise(part, asked.games[rows], costs[rows], reward)
            for part, rows in _parts(asked.states, config, free)
            if rows.any()
        ],
    )


def cost(solution: Solution, seat: int, choice: int, reward: str) -> float:
    """What a choice costs the seat on turn; an illegal one, any integer, forfeits the game."""
    own = solution.action_values[:, seat]
    legal = 0 <= choice < len(own) and not np.isnan(own[choice])
    return float(np.nanmax(own) - (own[choice] if legal else FORFEITED[reward]))


def _ask(
    agent: Agent, between: Sequence[Agent], config: GameConfig, free: int, positions: int, seed: int, progress: bool
) -> _Asked:
    """The positions of the first games that have so many."""
    waves: list[_Asked] = []
    first = found = 0
    # Two agents are asked at every turn: the one under test and the one that plays.
    per_turn = 1 / (2 * config.cells)
    with progress_bar(total=0, desc="asked", unit="game", disable=not progress, leave=False) as bar:
        while found < positions:
            # A game has about one such position per free cell; a few games too many only cost their playing.
            left = math.ceil((positions - found) / free)
            bar.total, count = first + left, min(GAMES_AT_A_TIME, left)
            games = np.arange(first, first + count)
            waves.append(
                _ask_in_games(agent, between, config, free, games, seed, lambda turns: bar.update(turns * per_turn))
            )
            first += count
            found += len(waves[-1].games)
    games, states, choices = (np.concatenate(arrays) for arrays in zip(*waves, strict=True))
    kept = games <= games[positions - 1]
    return _Asked(games[kept], states[kept], choices[kept])


def _ask_in_games(
    agent: Agent,
    between: Sequence[Agent],
    config: GameConfig,
    free: int,
    games: np.ndarray,
    seed: int,
    report: Callable[[int], object],
) -> _Asked:
    """Play the games; `report` is called with the turns that an agent was asked at since the last call."""
    agent, between = SlicedAgent(agent, report), [SlicedAgent(player, report) for player in between]
    batch = Batch(config, len(games))
    batch.reset(np.uint64(seed) + games.astype(np.uint64))
    players = (games[:, None] + np.arange(config.players)) % len(between)
    rows = np.arange(len(games))
    met: list[_Asked] = []
    while len(rows):
        decisions = batch.decisions(rows, agent.recall)
        answers = agent.act(decisions)
        counts = (config.cells - batch.states["placed"][rows] <= free) & (decisions.action_masks.sum(axis=1) > 1)
        met.append(_Asked(games[rows[counts]], batch.states[rows[counts]], answers[counts]))
        turn = batch.step(ask_each(between, players[rows, decisions.seats], batch, rows), rows)
        rows = rows[~turn.done]
    asked = _Asked(*(np.concatenate(arrays) for arrays in zip(*met, strict=True)))
    order = np.argsort(asked.games, kind="stable")
    return _Asked(*(array[order] for array in asked))


def _costs(asked: _Asked, reward: str, progress: bool) -> np.ndarray:
    """`_COST[n]`: what every choice costs."""
    costs = np.zeros(len(asked.games), _COST)
    with progress_bar(total=len(costs), desc="solved", unit="position", disable=not progress, leave=False) as bar:
        for row, (state, choice) in enumerate(zip(asked.states, asked.choices, strict=True)):
            if row == 0 or asked.games[row] != asked.games[row - 1]:
                solver = Solver(reward)  # a game's later positions are among those that its first one leads to
            solution = solver.solve(state)
            seat = int(state.seat)
            legal = np.flatnonzero(~np.isnan(solution.action_values[:, seat]))
            uniform = np.mean([cost(solution, seat, int(action), reward) for action in legal])
            costs[row] = cost(solution, seat, int(choice), reward), uniform, choice not in legal
            bar.update()
    return costs


def _parts(states: np.ndarray, config: GameConfig, free: int) -> list[tuple[str, np.ndarray]]:
    """Names of the parts that are reported, and bool[n] which positions they are."""
    left = config.cells - states["placed"].astype(int)
    held = states["held"] != NOTHING
    return [
        ("all", np.ones(len(states), np.bool_)),
        ("stone or draw", ~held),
        ("placing a tile", held),
        *((f"{number} free", left == number) for number in range(free, 0, -1)),
    ]


def _summarise(part: str, games: np.ndarray, costs: np.ndarray, reward: str) -> Losses:
    """Numbers of one part; `games` int64[n] and `costs` `_COST[n]`, n > 0."""
    loss = float(costs["loss"].mean())
    _, game = np.unique(games, return_inverse=True)
    sizes = np.bincount(game)
    # Games differ in how many positions they have, so the mean is a ratio, and its interval that of the residuals.
    residuals = (np.bincount(game, costs["loss"]) - loss * sizes) / sizes.mean()
    worst = -2 * FORFEITED[reward]  # returns are at least the forfeited one, and at most its negative
    return Losses(
        part=part,
        positions=len(costs),
        games=len(sizes),
        loss=loss,
        interval=t_interval(loss + residuals, worst),
        optimal=float((costs["loss"] < TIE).mean()),
        uniform=float(costs["uniform"].mean()),
        illegal=int(costs["illegal"].sum()),
    )


def print_table(regret: Regret) -> None:
    """The results as a table on screen."""
    r = regret
    form = form_title(r.board, r.players, r.common_reserve)
    title = (
        f"{r.agent}: expected loss of {r.reward} per choice with at most {r.free} free cells\n"
        f"{form}: {r.parts[0].games} games of {', '.join(r.between)}, seed {r.seed}"
    )
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("positions", no_wrap=True)
    for heading in ("number", "loss", "95 % interval", "optimal %", "uniform's loss", "illegal"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part in r.parts:
        table.add_row(
            part.part,
            str(part.positions),
            f"{part.loss:.4f}",
            f"{part.interval[0]:.4f} to {part.interval[1]:.4f}",
            f"{100 * part.optimal:.1f}",
            f"{part.uniform:.4f}",
            str(part.illegal),
        )
    make_console().print(table)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = ArgumentParser(prog="python -m train.regret", description=__doc__.splitlines()[0])
    parser.add_argument("agent", metavar="AGENT", help="spec, such as greedy, random or ppo:runs/quickstart")
    parser.add_argument("--free", type=whole_number, default=5, help="free cells at most (default: %(default)s)")
    parser.add_argument(
        "--positions", type=whole_number, default=1000, help="rounded up to whole games (default: %(default)s)"
    )
    add_game_arguments(parser)
    parser.add_argument("--reward", default="win", choices=tuple(REWARDS), help="default: %(default)s")
    parser.add_argument(
        "--between", nargs="+", default=list(BETWEEN), metavar="SPEC", help="who plays the games (default: greedy)"
    )
    parser.add_argument("--out", type=Path, help="JSON file (default: results/, named after the arguments)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status, see `run_command`."""
    return run_command(lambda: _regret(_arguments(argv)), stopped="stopped; nothing was written")


def _regret(options: argparse.Namespace) -> None:
    config = GameConfig(options.board, options.players, options.common_reserve)
    file = options.out or _default_file(options, config)
    check_writable(file)
    result = measure(
        make_agent(options.agent),
        options.agent,
        config,
        [make_agent(spec) for spec in options.between],
        options.between,
        free=options.free,
        positions=options.positions,
        reward=options.reward,
        seed=options.seed,
        progress=True,
    )
    print_table(result)
    write_json(result, file)
    print(f"written to {file}")


def _default_file(options: argparse.Namespace, config: GameConfig) -> Path:
    between = "-".join(map(spec_slug, options.between))
    games = f"{form_slug(config.board, config.players, config.common_reserve)}-between-{between}-seed{options.seed}"
    return Path("results") / f"regret-{spec_slug(options.agent)}-{options.reward}-free{options.free}-{games}.json"


if __name__ == "__main__":
    sys.exit(main())
