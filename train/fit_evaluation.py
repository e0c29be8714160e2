"""Fit the evaluation that the search agents use: `python -m train.fit_evaluation`.

For every form of the game: agents that look one turn ahead play each other, `greedy` at first and then with the weights
fitted so far; now and then an action is random. The weights are the least-squares fit, with a small ridge, of what the
margin changes from each position to the end of its game, over the games of all rounds.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import safetensors.numpy
from tqdm import tqdm

from agents.search.evaluation import FEATURES, FORMS, WEIGHTS_FILE, features_all
from agents.search.expectimax import Expectimax
from agents.search.position import POSITION, load_all
from isis_env.agent import Agent
from isis_env.batch import Batch
from isis_env.config import MAX_CELLS, MAX_PLAYERS, GameConfig
from isis_env.deal import check_seed
from isis_env.game import NOTHING
from isis_env.policy import make_agent
from isis_env.reward import MARGIN, returns_all
from train.command import ArgumentParser, check_writable, progress_bar, run_command, whole_number, write_bytes

# Games at a time, and how often an action is random, so that odd positions are met too.
GAMES = 2000
RANDOM_SHARE = 0.05
RIDGE = 20.0

MAX_ROUNDS = 1000


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = ArgumentParser(prog="python -m train.fit_evaluation", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--games",
        type=whole_number,
        default=5 * GAMES,
        help=f"per round and form, a multiple of {GAMES} (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=whole_number, default=4, help="default: %(default)s")
    parser.add_argument("--seed", type=whole_number, default=0, help="of the first deal (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=WEIGHTS_FILE, help="default: %(default)s")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status, see `run_command`."""
    return run_command(lambda: _fit_all(_arguments(argv)), stopped="stopped; the weights are as they were")


def _fit_all(options: argparse.Namespace) -> None:
    if options.games < GAMES or options.games % GAMES:
        raise ValueError(f"--games {options.games}: must be a multiple of {GAMES}, at least one")
    if not 1 <= options.rounds <= MAX_ROUNDS:
        raise ValueError(f"--rounds {options.rounds}: must be from 1 to {MAX_ROUNDS}")
    check_seed(options.seed, "--seed")
    check_seed(options.seed + options.rounds * options.games - 1, f"--seed {options.seed}, and with it the last deal's")
    check_writable(options.out)
    weights = np.zeros((len(FORMS), MAX_PLAYERS, FEATURES), np.float32)
    spread = np.ones((len(FORMS), MAX_CELLS + 1), np.float32)
    batches = options.games // GAMES
    with progress_bar(total=len(FORMS) * options.rounds * batches * GAMES, unit="game") as bar:
        for index, config in enumerate(FORMS):
            weights[index], spread[index] = fit(config, options.rounds, batches, options.seed, bar)
    write_bytes(options.out, safetensors.numpy.save({"weights": weights, "spread": spread}))
    print(f"written to {options.out}")


def fit(config: GameConfig, rounds: int, batches: int, seed: int, bar: tqdm) -> tuple[np.ndarray, np.ndarray]:
    """Weights float32[4, FEATURES] and spread float32[37] of one form of the game, as `evaluation` uses them."""
    form = FORMS.index(config)
    waits = 1 if config.players == 2 else config.players
    fits = [_LeastSquares() for _ in range(waits)]
    agent: Agent = make_agent("greedy")
    weights = np.zeros((MAX_PLAYERS, FEATURES))
    for turn in range(rounds):
        for batch in range(batches):
            states, margins = play(config, agent, seed + (turn * batches + batch) * GAMES)
            for wait in range(waits):
                fits[wait].add(*samples(states, margins, wait))
            bar.update(GAMES)
        for wait in range(waits):
            weights[wait] = fits[wait].solve()
        looking_ahead = Expectimax(depth=1, reward="margin", exact=0)
        looking_ahead.weights = looking_ahead.weights.copy()
        looking_ahead.weights[form] = weights
        agent = looking_ahead
    x, y = samples(states, margins, 0)
    return weights.astype(np.float32), spread_by_free_cells(states, y - x @ weights[0], config)


def play(config: GameConfig, agent: Agent, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """All positions between two turns of `GAMES` games as `STATE[m]`, and every seat's final margin float64[m, 4]."""
    batch = Batch(config, GAMES)
    batch.reset(seed)
    rng = np.random.default_rng(seed)
    at_random = make_agent("random")
    states, games = [], []
    rows = np.arange(GAMES)
    while len(rows):
        decisions = batch.decisions(rows)
        between = decisions.states["held"] == NOTHING
        states.append(decisions.states[between])
        games.append(rows[between])
        strays = rng.random(len(rows)) < RANDOM_SHARE
        turn = batch.step(np.where(strays, at_random.act(decisions), agent.act(decisions)), rows)
        rows = rows[~turn.done]
    margins = np.empty((GAMES, MAX_PLAYERS))
    returns_all(batch.final_states, MARGIN, margins)
    return np.concatenate(states), margins[np.concatenate(games)]


def samples(states: np.ndarray, margins: np.ndarray, wait: int) -> tuple[np.ndarray, np.ndarray]:
    """Features float64[m, FEATURES] as seen by the seat `wait` turns behind the one on turn, and how its margin changes
    to the end, float64[m]."""
    rows = np.arange(len(states))
    seats = (states["seat"].astype(np.int64) + wait) % states["players"]
    positions = np.zeros(len(states), POSITION)
    load_all(states, positions)
    x = np.empty((len(states), FEATURES))
    features_all(positions, seats, x)
    now = np.empty((len(states), MAX_PLAYERS))
    returns_all(states, MARGIN, now)
    return x, margins[rows, seats] - now[rows, seats]


def spread_by_free_cells(states: np.ndarray, residuals: np.ndarray, config: GameConfig) -> np.ndarray:
    """float32[37]: root mean square of the residuals for every number of free cells; at least 1."""
    free = config.cells - states["placed"].astype(np.int64)
    count = np.bincount(free, minlength=MAX_CELLS + 1)
    total = np.bincount(free, residuals**2, minlength=MAX_CELLS + 1)
    return np.maximum(1.0, np.sqrt(total / np.maximum(count, 1))).astype(np.float32)


class _LeastSquares:
    """Ridge regression of samples that come in portions."""

    def __init__(self) -> None:
        self.xx = RIDGE * np.eye(FEATURES)
        self.xy = np.zeros(FEATURES)

    def add(self, x: np.ndarray, y: np.ndarray) -> None:
        self.xx += x.T @ x
        self.xy += x.T @ y

    def solve(self) -> np.ndarray:
        return np.linalg.solve(self.xx, self.xy)


if __name__ == "__main__":
    sys.exit(main())
