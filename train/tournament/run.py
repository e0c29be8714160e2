"""A whole tournament: what is missing is played and stored, and all of it ranked."""

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from isis_env.config import GameConfig
from isis_env.kernels.threads import available_cores
from train.command import progress_bar, write_json
from train.config import MAX_GAMES
from train.evaluate import block_seeds
from train.secret import resolve_secret
from train.tournament.crosstable import write_ranking
from train.tournament.play import Chunk, PlayedChunk, make_players, tables_of
from train.tournament.ratings import Ranking, rank
from train.tournament.store import (
    GAMES_FILE,
    LOCK_FILE,
    SETTINGS_FILE,
    append_line,
    check_settings,
    read_games,
    read_settings,
    secret_of,
    to_line,
)
from train.tournament.workers import play_all

# Games in a chunk of work. An interruption costs what is under way; many games at once suit agents with a network.
CHUNK = 128

# More would not fit into memory.
MAX_CHUNK = 10_000


def _missing(
    tables: Sequence[tuple[str, ...]],
    seeds: np.ndarray,
    stored: dict[tuple[str, ...], list[PlayedChunk]],
    blocks: int,
) -> list[Chunk]:
    """What is still to be played, in chunks of up to so many blocks.

    Chunks are interleaved over tables, so a partial result covers every table and the time left is representative.
    """
    by_table = []
    for table in tables:
        known = [played.games["seed"] for played in stored.get(table, [])]
        left = np.setdiff1d(seeds, np.concatenate(known)) if known else seeds
        by_table.append([Chunk(table, left[first : first + blocks]) for first in range(0, len(left), blocks)])
    return [chunk for chunks in itertools.zip_longest(*by_table) for chunk in chunks if chunk is not None]


def tournament(
    specs: Sequence[str],
    config: GameConfig,
    games: int,
    seed: int,
    folder: Path,
    *,
    jobs: int | None = None,
    chunk: int = CHUNK,
    progress: bool = False,
    secret: str | None = None,
) -> Ranking:
    """Play what is missing in the folder, rank the agents by all its games, and write the ranking there, too.

    Args:
        specs: two agents or more.
        games: at each table, rounded up to whole blocks, of which there must be two; block b uses seed `seed + b`.
        jobs: how many processes play; by default, and at most, one per core that this one may use.
        chunk: how many games are played at once and then stored.
        progress: show a bar on stderr; a half-played game counts half.
        secret: the deals follow from it and the block's seed, see `train.secret`; `"random"` makes one up, or goes on
            with the one that the folder was begun with.

    Raises:
        ValueError, TypeError: an argument or an agent cannot be used, or the folder holds something else.
        OSError: a file cannot be written; all games stored so far are kept.
        WorkerError: a process that played was killed; likewise.
    """
    n = config.players
    if len(specs) < 2:
        raise ValueError(f"{len(specs)} agents: must be at least 2")
    twice = next((spec for spec in specs if specs.count(spec) > 1), None)
    if twice is not None:
        raise ValueError(f"agent {twice!r} is named twice: must be named once")
    cores = available_cores()
    jobs = cores if jobs is None else jobs
    limits = (("games", games, n + 1, MAX_GAMES), ("jobs", jobs, 1, cores), ("chunk", chunk, 1, MAX_CHUNK))
    for name, value, least, most in limits:
        if not least <= value <= most:
            raise ValueError(f"{name}={value!r}: must be from {least} to {most}")
    seeds = block_seeds(games, seed, n)
    resolve_secret(secret)
    make_players(specs, config)  # validate only: raise before anything is written
    settings: dict[str, Any] = {
        "board": config.board,
        "players": n,
        "common_reserve": config.common_reserve,
        "seed": seed,
        "games": len(seeds) * n,
        "agents": list(specs),
    }
    tables = tables_of(specs, n)
    with _locked(folder):
        try:
            before = read_settings(folder / SETTINGS_FILE)
            settings["secret"] = secret_of(secret, before)
            check_settings(folder / SETTINGS_FILE, before, settings)
            stored = read_games(folder / GAMES_FILE, n, seeds)
        except OSError as error:
            raise ValueError(f"{error.filename or folder}: {error.strerror or error}; give another --out") from None
        try:
            write_json(settings, folder / SETTINGS_FILE)
            _play_missing(tables, seeds, stored, settings, config, folder, jobs, chunk, progress)
            ranking = _rank(tables, stored, sorted(specs), config, settings["secret"])
            write_ranking(ranking, folder)
        except OSError as error:
            count = sum(len(played.games) for chunks in stored.values() for played in chunks)
            kept = f"the {count} games played so far are kept, and the same command goes on"
            raise OSError(error.errno, f"{error.strerror or error}; {kept}", str(error.filename or folder)) from None
    return ranking


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Make the folder and keep other tournaments out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK_FILE, timeout=0)
        lock.acquire()
    except Timeout:
        raise ValueError(f"{folder}: another process plays there") from None
    except OSError as error:
        raise ValueError(f"{error.filename or folder}: {error.strerror or error}; give another --out") from None
    try:
        yield
    finally:
        lock.release()


def _play_missing(
    tables: Sequence[tuple[str, ...]],
    seeds: np.ndarray,
    stored: dict[tuple[str, ...], list[PlayedChunk]],
    settings: dict[str, Any],
    config: GameConfig,
    folder: Path,
    jobs: int,
    chunk: int,
    progress: bool,
) -> None:
    """Play and store the chunks that `stored` lacks, and add them to it."""
    n = config.players
    missing = _missing(tables, seeds, stored, math.ceil(chunk / n))
    total, left = len(tables) * len(seeds) * n, sum(len(each.seeds) * n for each in missing)
    bar = progress_bar(total=total, initial=total - left, unit="game", smoothing=0, disable=not progress, leave=False)
    all_played = play_all(missing, settings["agents"], config, jobs, settings["secret"], bar.update)
    with bar, contextlib.closing(all_played):
        for played in all_played:
            append_line(folder / GAMES_FILE, to_line(played, n))
            stored.setdefault(played.table, []).append(played)


def _rank(
    tables: Sequence[tuple[str, ...]],
    stored: dict[tuple[str, ...], list[PlayedChunk]],
    names: list[str],
    config: GameConfig,
    secret: str | None,
) -> Ranking:
    """The ranking of all stored games; it does not depend on the order that the chunks were played in."""
    seconds = np.zeros(len(names))
    numbered, stacked = [], []
    for table in tables:
        indices = np.array([names.index(spec) for spec in table])
        games = np.concatenate([played.games for played in stored[table]])
        games = games[np.argsort(games["seed"], kind="stable")].reshape(-1, config.players)
        games["agent"] = indices[games["agent"]]
        seconds[indices] += np.sum([played.seconds for played in stored[table]], axis=0)
        numbered.append(indices.tolist())
        stacked.append(games)
    return rank(np.stack(stacked), numbered, names, seconds, config, secret)
