"""Moves, positions and whole games as text, and back.

A cell is a column letter and a row number from the top left (`a1`); a placed stone is its cell (`c3`), a placed tile
its cell and face (`b4+3`), a held tile `?+3`. A game is a line of settings and a line of placements in order:

    [isis-osiris 1] board=standard players=2 variant=personal start=1
    a4 f3 a2 b1-2 ?+3

A finished game carries its scores in seat order as `result=2,-1`. Skipped turns follow from the rules.
"""

import re

import numpy as np

from isis_env import game
from isis_env.config import BOARDS, MAX_FACE, GameConfig, shown
from isis_env.game import NOTHING, TILE

VERSION = 1

MAX_LENGTH = 2000  # characters of a text; the longest game takes some 300

# Digits are 0 to 9: `\d` would also take those of other scripts.
_HEADER = re.compile(r"\[isis-osiris ([0-9]{1,9})\](.*)", re.DOTALL)
_MOVE = re.compile(r"(\?|[a-z][0-9]{1,2})([+-][0-9])?")
_NUMBER = re.compile("[0-9]")
_VARIANTS = {"personal": False, "common": True}
_KEYS = ("board", "players", "variant", "start", "result")


class NotationError(ValueError):
    """Text that is not a legal game; the message names the offending part and what was allowed."""


def cell_name(cell: int, side: int = 6) -> str:
    """`0 -> "a1"`, `1 -> "b1"`, ... on a board of `side` columns."""
    row, column = divmod(int(cell), side)
    return f"{chr(ord('a') + column)}{row + 1}"


def parse_cell(text: str, side: int = 6) -> int:
    """The inverse of `cell_name`.

    Raises:
        NotationError: `text` is no cell of the board.
    """
    if isinstance(text, str) and re.fullmatch(r"[a-z][1-9]", text):
        column, row = ord(text[0]) - ord("a"), int(text[1]) - 1
        if column < side and row < side:
            return row * side + column
    raise NotationError(f"cell {shown(text)}: must be a1 to {cell_name(side * side - 1, side)}")


def moves(s: np.record) -> list[str]:
    """The placements of a state in order and, where a tile is held, that tile.

    Raises:
        NotationError: the state has no history (it is one that `secrecy.conceal` has passed).
    """
    side = int(s.side)
    if game.is_concealed(s):
        raise NotationError("this state holds no history: it is what one seat knows under limited recall")
    text = []
    for cell in s.order[: s.placed]:
        face = f"{s.face[cell]:+d}" if s.board[cell] == TILE else ""
        text.append(cell_name(cell, side) + face)
    if s.held != NOTHING:
        text.append(f"?{s.held:+d}")
    return text


def dumps(s: np.record) -> str:
    """A position or a finished game as text; `loads` gives the same state back.

    Args:
        s: an element of an array of `STATE`.
    """
    board = next(name for name, board in BOARDS.items() if board.side == s.side)
    variant = "common" if s.common_reserve else "personal"
    header = f"[isis-osiris {VERSION}] board={board} players={s.players} variant={variant} start={s.start}"
    if game.is_over(s):
        header += " result=" + ",".join(map(str, game.scores(s)))
    return f"{header}\n{' '.join(moves(s))}\n"


def loads(text: str) -> np.ndarray:
    """Play a game or position given as text, and return it as an array of one `STATE`.

    Raises:
        NotationError: `text` is not text, or too long for a game; the header or a move is malformed, a move is not
            legal where it stands, or the result given is not the one reached.
    """
    if not isinstance(text, str):
        raise NotationError(f"{shown(text)}: must be text that begins with '[isis-osiris {VERSION}]'")
    if len(text) > MAX_LENGTH:
        raise NotationError(f"text of {len(text)} characters: must be at most {MAX_LENGTH}, no game takes more")
    match = _HEADER.fullmatch(text.strip())
    if not match:
        raise NotationError(f"header {shown(text.strip(), 42)}: must begin with '[isis-osiris {VERSION}]'")
    if int(match[1]) != VERSION:
        raise NotationError(f"version {match[1]}: must be {VERSION}")
    header, _, body = match[2].partition("\n")
    settings = _settings(header)
    config = _config(settings)
    states = game.new_state(config, _start(settings, config))
    for number, move in enumerate(body.split(), start=1):
        _apply(states[0], move, f"move {number} ({shown(move, 20)})")
    _check_result(states[0], settings.get("result"))
    return states


def _cut(text: str) -> str:
    """A value of the header for an error message."""
    return text if len(text) <= 40 else text[:37] + "..."


def _settings(header: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for item in header.split():
        key, equals, value = item.partition("=")
        if not equals or key not in _KEYS or key in settings:
            raise NotationError(f"header item {shown(item)}: must be each of {', '.join(_KEYS)} once, as key=value")
        settings[key] = value
    missing = [key for key in _KEYS[:-1] if key not in settings]
    if missing:
        raise NotationError(f"header: {', '.join(missing)} missing")
    return settings


def _config(settings: dict[str, str]) -> GameConfig:
    variant = settings["variant"]
    if variant not in _VARIANTS:
        raise NotationError(f"variant={_cut(variant)}: must be personal or common")
    players = int(settings["players"]) if _NUMBER.fullmatch(settings["players"]) else settings["players"]
    try:
        return GameConfig(settings["board"], players, _VARIANTS[variant])  # type: ignore[arg-type]
    except ValueError as error:
        raise NotationError(f"header: {error}") from None


def _start(settings: dict[str, str], config: GameConfig) -> int:
    start = settings["start"]
    if not _NUMBER.fullmatch(start) or int(start) >= config.players:
        raise NotationError(f"start={_cut(start)}: must be a seat from 0 to {config.players - 1}")
    return int(start)


def _apply(s: np.record, move: str, where: str) -> None:
    """Play one move of the notation, or say at `where` why it cannot be played."""
    match = _MOVE.fullmatch(move)
    if not match:
        raise NotationError(f"{where}: must be a cell (c3), a cell and face (b4+3), or a held tile (?+3)")
    cell_text, face_text = match.groups()
    if s.held != NOTHING:
        raise NotationError(f"{where}: a held tile ends a position, nothing may follow it")
    if game.is_over(s):
        raise NotationError(f"{where}: the board is full")
    if face_text:
        face = int(face_text)
        if not game.can_draw(s):
            raise NotationError(f"{where}: seat {s.seat} has no tile to draw")
        if not 1 <= abs(face) <= MAX_FACE or s.unrevealed[face + MAX_FACE] == 0:
            left = [f"{f:+d}" for f in range(-MAX_FACE, MAX_FACE + 1) if s.unrevealed[f + MAX_FACE]]
            raise NotationError(f"{where}: face {face:+d} is not left; unrevealed are {' '.join(left)}")
        game.draw(s, face)
    elif cell_text == "?":
        raise NotationError(f"{where}: a held tile needs its face, as in ?+3")
    if cell_text != "?":
        try:
            cell = parse_cell(cell_text, int(s.side))
        except NotationError as error:
            raise NotationError(f"{where}: {error}") from None
        if not game.can_place(s):
            raise NotationError(f"{where}: seat {s.seat} has no stone left and must place a tile")
        if not game.legal(s, cell):
            raise NotationError(f"{where}: cell {cell_text} is not free")
        game.place(s, cell)


def _check_result(s: np.record, result: str | None) -> None:
    if result is None:
        return
    reached = ",".join(map(str, game.scores(s)))
    if not game.is_over(s):
        raise NotationError(f"result={_cut(result)}: the board is not full, so there is no result yet")
    if result != reached:
        raise NotationError(f"result={_cut(result)}: the moves give {reached}")
