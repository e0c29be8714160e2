"""A whole tournament: what is missing is played and stored, and all of it ranked."""

import contextlib
import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from tqdm import tqdm

from isis_env.config import GameConfig
from isis_env.kernels.threads import available_cores
from train.command import write_json
from train.evaluate import block_seeds
from train.tournament.crosstable import write_ranking
from train.tournament.play import Chunk, PlayedChunk, make_players, tables_of
from train.tournament.ratings import Ranking, rank
from train.tournament.store import GAMES_FILE, LOCK_FILE, SETTINGS_FILE, check_settings, read_games, to_line
from train.tournament.workers import play_all

# Games in a chunk of work. An interruption costs what is under way; many games at once suit agents with a network.
CHUNK = 128


def _missing(
    tables: Sequence[tuple[str, ...]],
    seeds: np.ndarray,
    there: dict[tuple[str, ...], list[PlayedChunk]],
    blocks: int,
) -> list[Chunk]:
    """What is to be played yet, in chunks of up to so many blocks.

    They go round the tables, so that what there is after an interruption, and the time left, tell of all of them.
    """
    by_table = []
    for table in tables:
        known = [played.games["seed"] for played in there.get(table, [])]
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
) -> Ranking:
    """Play what is missing in the folder, rank the agents by all its games, and write the ranking there, too.

    Args:
        specs: two agents or more.
        games: at each table, rounded up to whole blocks, of which there must be two; block b uses seed `seed + b`.
        jobs: how many processes play; by default one per core that this one may use.
        chunk: how many games are played at once and then stored.
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
    for name, value, least in (("games", games, n + 1), ("jobs", jobs, 1), ("chunk", chunk, 1)):
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
            check_settings(folder / SETTINGS_FILE, settings)
            there = read_games(folder / GAMES_FILE, n)
            write_json(settings, folder / SETTINGS_FILE)
            missing = _missing(tables, seeds, there, math.ceil(chunk / n))
            total, left = len(tables) * len(seeds) * n, sum(len(each.seeds) * n for each in missing)
            with (
                (folder / GAMES_FILE).open("a") as out,
                tqdm(
                    total=total, initial=total - left, unit="game", smoothing=0, disable=not progress, leave=False
                ) as bar,
                contextlib.closing(play_all(missing, specs, config, jobs)) as all_played,
            ):
                for played in all_played:
                    out.write(to_line(played, n))
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
    there: dict[tuple[str, ...], list[PlayedChunk]],
    names: list[str],
    config: GameConfig,
) -> Ranking:
    """Bring the chunks into order, whatever the order that they were played in."""
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
