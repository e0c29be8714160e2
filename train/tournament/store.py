"""The folder of a tournament: its settings, and every finished chunk as a line of `games.jsonl`."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from train.secret import RANDOM, resolve_secret
from train.tournament.play import PlayedChunk
from train.tournament.ratings import GAME

SETTINGS_FILE, GAMES_FILE, LOCK_FILE = "tournament.json", "games.jsonl", ".lock"

# What JSON that is no line of ours can make Python raise.
_DAMAGE = (ValueError, TypeError, KeyError, OverflowError, RecursionError, AttributeError)


def to_line(played: PlayedChunk, n: int) -> str:
    """A chunk as a line of `games.jsonl`: a list per field, over games; those per seat have n entries per game."""
    fields = {name: played.games[name] for name in GAME.names or ()}
    lists = {name: (value if value.ndim == 1 else value[:, :n]).tolist() for name, value in fields.items()}
    return json.dumps({"agents": played.table, "seconds": played.seconds, **lists}) + "\n"


def from_line(line: str, n: int) -> PlayedChunk:
    """The chunk of a line, every field of it checked.

    Raises:
        ValueError: the line holds something else; the message names the field.
        KeyError: a field is missing.
        TypeError, OverflowError, RecursionError: it is no JSON of this kind at all.
    """
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError(f"{_shown(data)}: must be an object with fields")
    table, seconds, seeds = data["agents"], data["seconds"], data["seed"]
    if not isinstance(table, list) or not table or not all(isinstance(name, str) for name in table):
        raise ValueError(f"agents {_shown(table)}: must be a list of specs")
    if not isinstance(seeds, list) or not seeds or len(seeds) % n:
        raise ValueError(f"seed {_shown(seeds)}: must be a list of {n} per block")
    games = np.zeros(len(seeds), GAME)
    for name in GAME.names or ():
        field = games[name]
        wanted = field if field.ndim == 1 else field[:, :n]
        wanted[:] = _numbers(name, data[name], wanted)
    if (games["seed"].reshape(-1, n) != games["seed"][::n, None]).any():
        raise ValueError(f"seed: must be the same for the {n} games of a block")
    for name, least, most in (("start", 0, n - 1), ("agent", 0, len(table) - 1), ("offender", -1, n - 1)):
        _check_range(name, games[name], least, most)
    _check_range("share", games["share"], 0, 1)
    if not np.allclose(games["share"].sum(axis=1), 1):
        raise ValueError("share: must add up to 1 in every game")
    for name in ("decisions", "choices", "draws"):
        _check_range(name, games[name], 0, 1000)
    times = _numbers("seconds", seconds, np.zeros(len(table)))
    _check_range("seconds", times, 0, np.inf)
    return PlayedChunk(tuple(table), games, times.tolist())


def _numbers(name: str, values: Any, like: np.ndarray) -> np.ndarray:
    """`values` as an array of the shape and kind of `like`, all finite."""
    try:
        given = np.array(values)
    except ValueError:  # lists of different lengths
        given = np.array(None)
    kinds = "iu" if like.dtype.kind in "iu" else "iuf"
    if given.shape != like.shape or given.dtype.kind not in kinds or not np.isfinite(given).all():
        kind = "integers" if kinds == "iu" else "numbers"
        raise ValueError(f"{name} {_shown(values)}: must be {' x '.join(map(str, like.shape))} {kind}")
    return given


def _check_range(name: str, values: np.ndarray, least: float, most: float) -> None:
    outside = values[(values < least) | (values > most)]
    if outside.size:
        raise ValueError(f"{name} {outside[0]}: must be from {least} to {most}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def read_games(file: Path, n: int, seeds: np.ndarray) -> dict[tuple[str, ...], list[PlayedChunk]]:
    """The chunks of every table. The torn last line that a kill can leave is removed from the file.

    Args:
        n: players.
        seeds: uint64[m], ascending, those of all blocks that a table can have.

    Raises:
        ValueError: a line holds something else, or a block for the second time.
        OSError: the file cannot be read.
    """
    chunks: dict[tuple[str, ...], list[PlayedChunk]] = {}
    if not file.exists():
        return chunks
    content = file.read_bytes()
    whole = content.rfind(b"\n") + 1
    known: set[tuple[tuple[str, ...], int]] = set()
    for number, line in enumerate(content[:whole].split(b"\n")[:-1], 1):
        try:
            played = from_line(line.decode(), n)
            _check_range("seed", played.games["seed"], int(seeds[0]), int(seeds[-1]))
        except _DAMAGE as error:
            reason = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
            raise ValueError(
                f"{file}: line {number} holds no games ({reason}); without it they are played again"
            ) from None
        blocks = {(played.table, seed) for seed in played.games["seed"].tolist()}
        if blocks & known or len(blocks) * n != len(played.games):
            raise ValueError(f"{file}: line {number} holds games that an earlier line holds, too")
        known |= blocks
        chunks.setdefault(played.table, []).append(played)
    if whole < len(content):
        if not content.startswith(b"{", whole):
            raise ValueError(f"{file}: the last line holds no games ({_shown(content[whole:])})")
        os.truncate(file, whole)
    return chunks


def append_line(file: Path, line: str) -> None:
    """Add a line to a file, so that it is on disk as a whole.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    with file.open("ab", buffering=0) as out:
        before = out.tell()
        content = line.encode()
        try:
            while content:
                content = content[out.write(content) :]
            os.fsync(out.fileno())
        except BaseException as error:  # a full disk, or Ctrl-C in between
            os.truncate(file, before)
            if isinstance(error, OSError):  # of a write, which knows no name
                raise OSError(error.errno, error.strerror, str(file)) from None
            raise


def read_settings(file: Path) -> dict[str, Any] | None:
    """The settings that the folder was begun with, or None where it has none yet.

    Raises:
        ValueError: the file holds something else.
        OSError: it cannot be read.
    """
    if not file.exists():
        return None
    try:
        settings = json.loads(file.read_bytes())
        if not isinstance(settings, dict):
            raise ValueError(f"{_shown(settings)}: must be an object with settings")
        kinds = {"board": str, "players": int, "common_reserve": bool, "seed": int, "games": int, "agents": list}
        for key, kind in kinds.items():
            if key not in settings:
                raise ValueError(f"{key} is missing")
            if type(settings[key]) is not kind:
                raise ValueError(f"{key} {_shown(settings[key])}: must be of type {kind.__name__}")
        if not all(isinstance(spec, str) for spec in settings["agents"]):
            raise ValueError(f"agents {_shown(settings['agents'])}: must be a list of specs")
        if not isinstance(settings.setdefault("secret", None), str | None):
            raise ValueError(f"secret {_shown(settings['secret'])}: must be text or null")
        resolve_secret(settings["secret"])
        if settings["games"] < 1:
            raise ValueError(f"games {settings['games']}: must be at least 1")
    except _DAMAGE as error:
        raise ValueError(f"{file}: {' '.join(str(error).split())}; give another --out to begin anew") from None
    return settings


def check_settings(file: Path, before: dict[str, Any] | None, settings: dict[str, Any]) -> None:
    """A ValueError where the folder was begun with other settings; agents and games may have become more."""
    if before is None:
        return
    reasons = [
        f"{key} is {before[key]!r} there, not {settings[key]!r}"
        for key in ("board", "players", "common_reserve", "seed")
        if settings[key] != before[key]
    ]
    if settings["secret"] != before["secret"]:
        reasons.append(f"--secret is {'another one' if before['secret'] else 'not used'} there")
    left_out = sorted(set(before["agents"]) - set(settings["agents"]))
    if left_out:
        reasons.append(f"agents there include {left_out[0]!r}, which must be named again")
    if settings["games"] < before["games"]:
        reasons.append(f"games is {before['games']} there, which {settings['games']} must not be below")
    if reasons:
        raise ValueError(f"{file}: {reasons[0]}; give another --out to begin anew")


def secret_of(text: str | None, before: dict[str, Any] | None) -> str | None:
    """The secret to deal by; a folder that was begun with one goes on with it where `random` is asked for."""
    if text == RANDOM and before is not None and before["secret"]:
        return before["secret"]
    return resolve_secret(text)
