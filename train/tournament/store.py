"""The folder of a tournament: its settings, and every finished chunk as a line of `games.jsonl`."""

import json
import os
from pathlib import Path

import numpy as np

from train.tournament.play import PlayedChunk
from train.tournament.ratings import GAME

SETTINGS_FILE, GAMES_FILE, LOCK_FILE = "tournament.json", "games.jsonl", ".lock"


def to_line(played: PlayedChunk, n: int) -> str:
    """A chunk as a line of `games.jsonl`: a list per field, over games; those per seat have n entries per game."""
    fields = {name: played.games[name] for name in GAME.names or ()}
    lists = {name: (value if value.ndim == 1 else value[:, :n]).tolist() for name, value in fields.items()}
    return json.dumps({"agents": played.table, "seconds": played.seconds, **lists}) + "\n"


def from_line(line: str, n: int) -> PlayedChunk:
    data = json.loads(line)
    games = np.zeros(len(data["seed"]), GAME)
    for name in GAME.names or ():
        field = games[name]
        (field if field.ndim == 1 else field[:, :n])[:] = data[name]
    return PlayedChunk(tuple(data["agents"]), games, data["seconds"])


def read_games(file: Path, n: int) -> dict[tuple[str, ...], list[PlayedChunk]]:
    """The chunks of every table. The torn last line that a kill can leave is removed from the file.

    Raises:
        ValueError: a line holds something else, or a block for the second time.
    """
    chunks: dict[tuple[str, ...], list[PlayedChunk]] = {}
    if not file.exists():
        return chunks
    text = file.read_bytes()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        os.truncate(file, whole)
    known: set[tuple[tuple[str, ...], int]] = set()
    for number, line in enumerate(text[:whole].decode().splitlines(), 1):
        try:
            played = from_line(line, n)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{file}: line {number} holds no games ({type(error).__name__}: {error})") from None
        blocks = {(played.table, seed) for seed in played.games["seed"].tolist()}
        if blocks & known:
            raise ValueError(f"{file}: line {number} holds games that an earlier line holds, too")
        known |= blocks
        chunks.setdefault(played.table, []).append(played)
    return chunks


def check_settings(file: Path, settings: dict) -> None:
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
