"""Every agent against every other: `python -m train.tournament A B C ... --games N`.

A crosstable of score rates and ratings, with intervals. With two players every pair of agents is a table. With n = 3 or
4 every pair makes two, A on one seat among n - 1 times B and the reverse; and every choice of n different agents is one
table more (seats in alphabetical order), as long as these are no more than the pairs' tables: up to 8 agents with three
players, 7 with four. All tables play the same deals in blocks, as in `train.evaluate`.

Every finished piece of work is on disk at once, so that the same command goes on after an interruption, and more agents
or games can be asked for later. Agents are known by their specs alone: do not go on with a spec that has come to mean
another agent, such as a run folder where training has gone on.
"""

import argparse
import contextlib
import itertools
import json
import math
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

import agents  # noqa: F401  (registers its specs)
from isis_env.batch import Batch, Decisions, available_cores
from isis_env.config import MAX_PLAYERS, GameConfig
from isis_env.policy import Agent, ask, make_agent
from train.command import add_game_arguments, form_slug, write_json
from train.crosstable import print_ranking, write_ranking
from train.evaluate import RECORD, block_seeds, check_board, play_blocks
from train.ratings import GAME, Ranking, rank

SETTINGS_FILE, GAMES_FILE, LOCK_FILE = "tournament.json", "games.jsonl", ".lock"

# Games in a piece of work. An interruption costs what is under way; many games at once suit agents with a network.
PIECE = 128

COUNTS = ("decisions", "choices", "draws")


@dataclass(frozen=True)
class Piece:
    """Blocks to be played at one table: the agents' specs, the last on all remaining seats, and seeds uint64[m]."""

    table: tuple[str, ...]
    seeds: np.ndarray


@dataclass(frozen=True)
class PlayedPiece:
    """What came of a piece.

    Attributes:
        table: as in `Piece`.
        games: `GAME[m * n]`, the games of a block together; `agent` is an index into `table`.
        seconds: what each agent took for its decisions.
    """

    table: tuple[str, ...]
    games: np.ndarray
    seconds: list[float]


class Watched:
    """An agent whose decisions are timed together, and counted per game and seat (int64[games, 4]).

    Attributes:
        decisions: all.
        choices: those that could draw or place a stone.
        draws: those of `choices` that drew.
    """

    def __init__(self, agent: Agent, games: int) -> None:
        self.recall = agent.recall
        self.seconds = 0.0
        self.decisions, self.choices, self.draws = np.zeros((3, games, MAX_PLAYERS), np.int64)
        self._agent = agent

    def act(self, decisions: Decisions) -> np.ndarray:
        begin = time.perf_counter()
        answer = ask(self._agent, decisions)
        self.seconds += time.perf_counter() - begin
        draw = decisions.action_masks.shape[1] - 1
        both = (decisions.action_masks[:, draw] > 0) & decisions.action_masks[:, :draw].any(axis=1)
        where = decisions.games, decisions.seats  # a game waits for one decision, so none is there twice
        self.decisions[where] += 1
        self.choices[where] += both
        self.draws[where] += both & (answer == draw)
        return answer


def make_players(specs: Sequence[str], config: GameConfig) -> dict[str, Agent]:
    """Spec -> agent, each having made one decision, so that what is compiled at the first is not timed later.

    Raises:
        ValueError: a spec cannot be used, or its agent is made for another board.
        TypeError: an agent's answer is not a number per decision.
    """
    players = {}
    batch = Batch(config, 1)
    batch.reset(0)
    for spec in specs:
        agent = make_agent(spec)
        check_board(agent, spec, config)
        ask(agent, batch.decisions(recall=agent.recall))
        players[spec] = agent
    return players


def play_piece(piece: Piece, config: GameConfig, players: dict[str, Agent]) -> PlayedPiece:
    """Play a piece in this process."""
    n = config.players
    watched = [Watched(players[spec], len(piece.seeds) * n) for spec in piece.table]
    records = play_blocks(watched, config, piece.seeds)
    games = np.zeros(len(records), GAME)
    for name in RECORD.names or ():
        games[name] = records[name]
    games["seed"] = np.repeat(piece.seeds, n)
    for name in COUNTS:
        games[name] = sum(getattr(agent, name) for agent in watched)
    return PlayedPiece(piece.table, games, [agent.seconds for agent in watched])


def tables_of(specs: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """The tables of a tournament, whatever the order of the specs."""
    names = sorted(specs)
    if n == 2:
        return list(itertools.combinations(names, 2))
    pairs = list(itertools.permutations(names, 2))
    mixed = list(itertools.combinations(names, n))
    return pairs + (mixed if len(mixed) <= len(pairs) else [])


# Processes


def _play_all(
    pieces: Sequence[Piece], specs: Sequence[str], config: GameConfig, jobs: int
) -> Generator[PlayedPiece, None, None]:
    """The pieces as they get finished, on `jobs` processes of one core each; on one in this process."""
    if not pieces:
        return
    jobs = min(jobs, len(pieces))
    cores = _some_cores(jobs)
    if jobs == 1:
        with _on_core(cores[0]):
            players = make_players(specs, config)
            for piece in pieces:
                yield play_piece(piece, config, players)
        return
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    for core in cores:
        queue.put(core)
    pool = ProcessPoolExecutor(jobs, context, _start_worker, (queue, specs, config))
    others = set(multiprocessing.active_children())
    try:
        for future in as_completed([pool.submit(_play_in_worker, piece) for piece in pieces]):
            yield future.result()
    except BaseException:  # an error or Ctrl-C; what is under way is not worth waiting for
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_worker: tuple[GameConfig, dict[str, Agent]]


def _start_worker(cores: "multiprocessing.SimpleQueue[int | None]", specs: Sequence[str], config: GameConfig) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent sees to it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _use_core(cores.get())
    _worker = config, make_players(specs, config)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _play_in_worker(piece: Piece) -> PlayedPiece:
    return play_piece(piece, *_worker)


def _some_cores(jobs: int) -> list[int | None]:
    """A core for every job, in random order lest all tournaments use the first; None where the system has no choice."""
    if not hasattr(os, "sched_setaffinity"):
        return [None] * jobs
    cores = list(os.sched_getaffinity(0))
    random.shuffle(cores)
    return list(itertools.islice(itertools.cycle(cores), jobs))


def _use_core(core: int | None) -> None:
    """Keep this process to one core and its libraries to one thread, so that times are per core."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)


@contextlib.contextmanager
def _on_core(core: int | None) -> Iterator[None]:
    """`_use_core` for a while."""
    cores = None if core is None else os.sched_getaffinity(0)
    threads = torch.get_num_threads()
    _use_core(core)
    try:
        yield
    finally:
        if cores is not None:
            os.sched_setaffinity(0, cores)
        torch.set_num_threads(threads)


# On disk


def _to_line(played: PlayedPiece, n: int) -> str:
    """A piece as a line of `games.jsonl`: a list per field, over games; those per seat have n entries per game."""
    fields = {name: played.games[name] for name in GAME.names or ()}
    lists = {name: (value if value.ndim == 1 else value[:, :n]).tolist() for name, value in fields.items()}
    return json.dumps({"agents": played.table, "seconds": played.seconds, **lists}) + "\n"


def _from_line(line: str, n: int) -> PlayedPiece:
    data = json.loads(line)
    games = np.zeros(len(data["seed"]), GAME)
    for name in GAME.names or ():
        field = games[name]
        (field if field.ndim == 1 else field[:, :n])[:] = data[name]
    return PlayedPiece(tuple(data["agents"]), games, data["seconds"])


def _read_games(file: Path, n: int) -> dict[tuple[str, ...], list[PlayedPiece]]:
    """The pieces of every table. The torn last line that a kill can leave is removed from the file.

    Raises:
        ValueError: a line holds something else, or a block for the second time.
    """
    pieces: dict[tuple[str, ...], list[PlayedPiece]] = {}
    if not file.exists():
        return pieces
    text = file.read_bytes()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        os.truncate(file, whole)
    known: set[tuple[tuple[str, ...], int]] = set()
    for number, line in enumerate(text[:whole].decode().splitlines(), 1):
        try:
            played = _from_line(line, n)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{file}: line {number} holds no games ({type(error).__name__}: {error})") from None
        blocks = {(played.table, seed) for seed in played.games["seed"].tolist()}
        if blocks & known:
            raise ValueError(f"{file}: line {number} holds games that an earlier line holds, too")
        known |= blocks
        pieces.setdefault(played.table, []).append(played)
    return pieces


def _check_settings(file: Path, settings: dict) -> None:
    """A ValueError where the folder was begun with other settings; agents and games may have become more."""
    if not file.exists():
        return
    try:
        before = json.loads(file.read_text())
        for key in ("board", "players", "common_reserve", "seed"):
            if settings[key] != before[key]:
                raise ValueError(f"{key} is {before[key]!r} there, not {settings[key]!r}")
        left_out = sorted(set(before["agents"]) - set(settings["agents"]))
        if left_out:
            raise ValueError(f"agents there include {left_out[0]!r}, which must be named again")
        if settings["games"] < before["games"]:
            raise ValueError(f"games is {before['games']} there, which {settings['games']} must not be below")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file}: {' '.join(str(error).split())}; give another --out to begin anew") from None


def _missing(
    tables: Sequence[tuple[str, ...]],
    seeds: np.ndarray,
    there: dict[tuple[str, ...], list[PlayedPiece]],
    blocks: int,
) -> list[Piece]:
    """What is to be played yet, in pieces of up to so many blocks.

    They go round the tables, so that what there is after an interruption, and the time left, tell of all of them.
    """
    by_table = []
    for table in tables:
        known = [played.games["seed"] for played in there.get(table, [])]
        left = np.setdiff1d(seeds, np.concatenate(known)) if known else seeds
        by_table.append([Piece(table, left[first : first + blocks]) for first in range(0, len(left), blocks)])
    return [piece for pieces in itertools.zip_longest(*by_table) for piece in pieces if piece is not None]


def tournament(
    specs: Sequence[str],
    config: GameConfig,
    games: int,
    seed: int,
    folder: Path,
    *,
    jobs: int | None = None,
    piece: int = PIECE,
    progress: bool = False,
) -> Ranking:
    """Play what is missing in the folder, rank the agents by all its games, and write the ranking there, too.

    Args:
        specs: two agents or more.
        games: at each table, rounded up to whole blocks, of which there must be two; block b uses seed `seed + b`.
        jobs: how many processes play; by default one per core that this one may use.
        piece: how many games are played at once and then stored.
        progress: show a bar on stderr.

    Raises:
        ValueError, TypeError: an argument or an agent cannot be used, or the folder holds something else.
    """
    n = config.players
    if len(specs) < 2:
        raise ValueError(f"{len(specs)} agents: must be at least 2")
    twice = next((spec for spec in specs if specs.count(spec) > 1), None)
    if twice is not None:
        raise ValueError(f"agent {twice!r} is named twice: must be named once")
    jobs = available_cores() if jobs is None else jobs
    for name, value, least in (("games", games, n + 1), ("jobs", jobs, 1), ("piece", piece, 1)):
        if value < least:
            raise ValueError(f"{name}={value!r}: must be at least {least}")
    seeds = block_seeds(games, seed, n)
    make_players(specs, config)  # before anything is written
    settings = {
        "board": config.board,
        "players": n,
        "common_reserve": config.common_reserve,
        "seed": seed,
        "games": len(seeds) * n,
        "agents": list(specs),
    }
    tables = tables_of(specs, n)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK_FILE, timeout=0):
            _check_settings(folder / SETTINGS_FILE, settings)
            there = _read_games(folder / GAMES_FILE, n)
            write_json(settings, folder / SETTINGS_FILE)
            missing = _missing(tables, seeds, there, math.ceil(piece / n))
            total, left = len(tables) * len(seeds) * n, sum(len(each.seeds) * n for each in missing)
            with (
                (folder / GAMES_FILE).open("a") as out,
                tqdm(
                    total=total, initial=total - left, unit="game", smoothing=0, disable=not progress, leave=False
                ) as bar,
                contextlib.closing(_play_all(missing, specs, config, jobs)) as all_played,
            ):
                for played in all_played:
                    out.write(_to_line(played, n))
                    out.flush()
                    os.fsync(out.fileno())
                    there.setdefault(played.table, []).append(played)
                    bar.update(len(played.games))
            ranking = _rank(tables, there, sorted(specs), config)
            write_ranking(ranking, folder)
    except Timeout:
        raise ValueError(f"{folder}: another process plays there") from None
    except OSError as error:
        raise ValueError(f"{folder}: {error}") from None
    return ranking


def _rank(
    tables: Sequence[tuple[str, ...]],
    there: dict[tuple[str, ...], list[PlayedPiece]],
    names: list[str],
    config: GameConfig,
) -> Ranking:
    """Bring the pieces into order, whatever the order that they were played in."""
    seconds = np.zeros(len(names))
    numbered, stacked = [], []
    for table in tables:
        indices = np.array([names.index(spec) for spec in table])
        games = np.concatenate([played.games for played in there[table]])
        games = games[np.argsort(games["seed"], kind="stable")].reshape(-1, config.players)
        games["agent"] = indices[games["agent"]]
        seconds[indices] += np.sum([played.seconds for played in there[table]], axis=0)
        numbered.append(indices.tolist())
        stacked.append(games)
    return rank(np.stack(stacked), numbered, names, seconds, config)


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
        "--piece", type=int, default=PIECE, help="games played at once and then stored (default: %(default)s)"
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
            piece=options.piece,
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
