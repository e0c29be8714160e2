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
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import agents  # noqa: F401  (registers its specs)
from isis_env.config import GameConfig
from train.command import add_game_arguments, form_slug
from train.tournament.crosstable import print_ranking
from train.tournament.run import CHUNK, tournament


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m train.tournament", description=__doc__.splitlines()[0])
    parser.add_argument(
        "agents", nargs="+", metavar="AGENT", help="spec, such as greedy, random or ppo:runs/quickstart"
    )
    parser.add_argument(
        "--games", type=int, default=1000, help="at each table, rounded up to whole blocks (default: %(default)s)"
    )
    add_game_arguments(parser)
    parser.add_argument("--out", type=Path, help="folder (default: in results/, named after the form and the seed)")
    parser.add_argument("--jobs", type=int, help="processes, each on a core of its own (default: one per core)")
    parser.add_argument(
        "--chunk", type=int, default=CHUNK, help="games played at once and then stored (default: %(default)s)"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; 0, or with one line on stderr 2 where an argument cannot be used, 1 where a process was killed."""
    options = _arguments(argv)
    try:
        config = GameConfig(options.board, options.players, options.common_reserve)
        folder = options.out or _default_folder(config, options.seed)
        ranking = tournament(
            options.agents,
            config,
            options.games,
            options.seed,
            folder,
            jobs=options.jobs,
            chunk=options.chunk,
            progress=True,
        )
    except (ValueError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenProcessPool:
        print("error: a process that played was killed, or could not start; the same command goes on", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return 130
    print_ranking(ranking)
    print(f"written to {folder}")
    return 0


def _default_folder(config: GameConfig, seed: int) -> Path:
    return Path("results") / f"tournament-{form_slug(config.board, config.players, config.common_reserve)}-seed{seed}"


if __name__ == "__main__":
    sys.exit(main())
