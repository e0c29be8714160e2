"""Every agent against every other: `python -m train.tournament A B C ... --games N`.

A crosstable of score rates and ratings, with intervals. With two players every pair of agents is a table. With n = 3 or
4 every pair makes two, A on one seat among n - 1 times B and the reverse; and every choice of n different agents is one
table more (seats in alphabetical order), as long as these are no more than the pairs' tables: up to 8 agents with three
players, 7 with four. All tables play the same deals in blocks, as in `train.evaluate`.

Every finished chunk of work is on disk at once, so that the same command goes on after an interruption, and more agents
or games can be asked for later. Agents are known by their specs alone: do not go on with a spec that has come to mean
another agent, such as a run folder where training has gone on.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import agents  # noqa: F401  (registers its specs)
from isis_env.config import GameConfig
from train.command import ArgumentParser, add_game_arguments, form_slug, run_command, whole_number
from train.evaluate import add_secret_argument
from train.tournament.crosstable import print_ranking
from train.tournament.run import CHUNK, tournament


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = ArgumentParser(prog="python -m train.tournament", description=__doc__.splitlines()[0])
    parser.add_argument(
        "agents", nargs="+", metavar="AGENT", help="spec, such as greedy, random or ppo:runs/quickstart"
    )
    parser.add_argument(
        "--games",
        type=whole_number,
        default=1000,
        help="per table, rounded up to whole blocks (default: %(default)s)",
    )
    add_game_arguments(parser)
    add_secret_argument(parser)
    parser.add_argument("--out", type=Path, help="folder (default: in results/, named after the form and the seed)")
    parser.add_argument("--jobs", type=whole_number, help="processes, each on its own core (default: one per core)")
    parser.add_argument(
        "--chunk", type=whole_number, default=CHUNK, help="games played at once and then stored (default: %(default)s)"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status, see `run_command`."""
    return run_command(lambda: _tournament(_arguments(argv)), stopped="stopped; the same command goes on")


def _tournament(options: argparse.Namespace) -> None:
    config = GameConfig(options.board, options.players, options.common_reserve)
    folder = options.out or _default_folder(config, options.seed, options.secret)
    ranking = tournament(
        options.agents,
        config,
        options.games,
        options.seed,
        folder,
        jobs=options.jobs,
        chunk=options.chunk,
        progress=True,
        secret=options.secret,
    )
    print_ranking(ranking)
    print(f"written to {folder}")


def _default_folder(config: GameConfig, seed: int, secret: str | None) -> Path:
    form = form_slug(config.board, config.players, config.common_reserve)
    return Path("results") / f"tournament-{form}-seed{seed}{'-secret' if secret else ''}"


if __name__ == "__main__":
    sys.exit(main())
