"""What the commands that play games share: arguments, names of a game's form, the console, and the files they write."""

import argparse
import json
import re
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from isis_env.config import BOARDS
from train.config import EVALUATION_SEED


def add_game_arguments(parser: argparse.ArgumentParser) -> None:
    """`--players`, `--common-reserve`, `--board` and `--seed`."""
    parser.add_argument("--players", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--common-reserve", action="store_true", help="all draw from one reserve")
    parser.add_argument("--board", default="standard", choices=tuple(BOARDS), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=EVALUATION_SEED, help="of the first deal (default: %(default)s)")


def form_title(board: str, players: int, common_reserve: bool) -> str:
    """The form of the game in words."""
    return f"{board}, {players} players, {'common reserve' if common_reserve else 'personal reserves'}"


def form_slug(board: str, players: int, common_reserve: bool) -> str:
    """The form of the game as part of a file name."""
    return f"{board}-{players}p{'-common' if common_reserve else ''}"


def spec_slug(spec: str) -> str:
    """An agent's spec as part of a file name."""
    return re.sub(r"[^\w.=-]+", "_", spec)


def make_console() -> Console:
    """Where tables are printed; a log file has no width of its own, so it gets one."""
    console = Console()
    if not console.is_terminal:
        console.width = 110
    return console


def write_text(file: Path, text: str) -> None:
    """Replace `file` as a whole; its folder is made where it is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(file.name + ".unfinished")
    unfinished.write_text(text)
    unfinished.replace(file)


def write_json(data: Any, file: Path) -> None:
    """`data`, dataclasses and all, as JSON, replacing `file` as a whole."""
    write_text(file, json.dumps(data, indent=2, default=asdict) + "\n")


def check_writable(file: Path) -> None:
    """Better an error before the games than after them."""
    parent = next(parent for parent in file.absolute().parents if parent.exists())
    try:
        if file.is_dir():
            raise IsADirectoryError
        tempfile.TemporaryFile(dir=parent).close()
    except OSError:
        raise ValueError(f"--out {file}: must be a file that can be written") from None
