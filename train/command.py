"""What the commands share: errors and signals, arguments, names of a game's form, the console, and files they write."""

import argparse
import contextlib
import json
import re
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from tqdm import tqdm

from isis_env.command_line import ArgumentParser, Stopped, run_command, whole_number
from isis_env.config import BOARDS
from train.config import EVALUATION_SEED

__all__ = [  # the first four stand in `isis_env.command_line`, for `agents` has a command, too
    "ArgumentParser",
    "Stopped",
    "add_game_arguments",
    "check_writable",
    "form_slug",
    "form_title",
    "make_console",
    "progress_bar",
    "run_command",
    "spec_slug",
    "whole_number",
    "write_bytes",
    "write_json",
    "write_text",
]

# Seconds between two lines of progress where the output is no terminal.
LINE_SECONDS = 10.0


def add_game_arguments(parser: argparse.ArgumentParser) -> None:
    """`--players`, `--common-reserve`, `--board` and `--seed`."""
    parser.add_argument("--players", type=whole_number, default=2, help="default: %(default)s")
    parser.add_argument("--common-reserve", action="store_true", help="all draw from one reserve")
    parser.add_argument("--board", default="standard", choices=tuple(BOARDS), help="default: %(default)s")
    parser.add_argument(
        "--seed", type=whole_number, default=EVALUATION_SEED, help="of the first deal (default: %(default)s)"
    )


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


class _Bar(tqdm):
    """A bar whose count may be a fraction, such as half-played games; whole ones are shown."""

    @property
    def format_dict(self) -> dict[str, Any]:
        # Rounded down, but for what adding up fractions loses.
        return {**super().format_dict, "n": int(self.n + 1e-6)}


class _Lines(_Bar):
    """A line now and then, for log files, in place of a bar that is drawn over itself."""

    @staticmethod
    def status_printer(file: Any) -> Any:
        def print_line(text: str) -> None:
            if text:
                print(text, file=file, flush=True)

        return print_line

    def close(self) -> None:
        """Without a last line, and without blanking the one before it."""
        if not self.disable:
            self.disable = True
            self._decr_instances(self)  # type: ignore[attr-defined]


def progress_bar(**options: Any) -> tqdm:
    """A `tqdm` with these arguments: on a terminal a bar, elsewhere one line every `LINE_SECONDS` seconds."""
    file: Any = options.setdefault("file", sys.stderr)
    if options.get("disable") or file.isatty():
        return _Bar(**options)
    if options.get("desc"):
        options["desc"] += ": "
    lines = {
        "mininterval": LINE_SECONDS,
        "maxinterval": 10 * LINE_SECONDS,
        "delay": LINE_SECONDS,
        "miniters": 0,
        "smoothing": 0,
        "bar_format": "{desc}{n_fmt} of {total_fmt} {unit}s, {rate_fmt}, {elapsed} gone, {remaining} left",
    }
    return _Lines(**(options | lines))


def write_bytes(file: Path, content: bytes) -> None:
    """Replace `file` as a whole; its folder is made where it is missing.

    Raises:
        OSError: it cannot be written; `file` is as it was.
    """
    unfinished = file.with_name(file.name + ".unfinished")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(file)
    except BaseException as error:  # a signal, too, must leave nothing half written behind
        with contextlib.suppress(OSError):
            unfinished.unlink()
        if not isinstance(error, OSError):
            raise
        kept = "it is as it was" if file.exists() else "nothing was written"
        raise OSError(error.errno, f"{error.strerror}; {kept}", str(file)) from None


def write_text(file: Path, text: str) -> None:
    """`write_bytes` of a text."""
    write_bytes(file, text.encode())


def write_json(data: Any, file: Path) -> None:
    """`data`, dataclasses and all, as JSON, replacing `file` as a whole."""
    write_text(file, json.dumps(data, indent=2, default=asdict) + "\n")


def check_writable(file: Path) -> None:
    """Better an error before the games than after them.

    Raises:
        ValueError: `write_bytes` could not write the file, or would replace what is no regular file.
    """
    parent = next(parent for parent in file.absolute().parents if parent.exists())
    try:
        if file.is_symlink() or (file.exists() and not file.is_file()):
            raise OSError("no regular file")
        with tempfile.NamedTemporaryFile(dir=parent, suffix=".unfinished"):
            pass
        with contextlib.suppress(FileNotFoundError):
            (parent / (file.name + ".unfinished")).stat()  # an error where the name is too long
    except OSError:
        raise ValueError(f"--out {file}: must be a file that can be written") from None
