"""The secrecy policy on one page: what a seat may know, as a vector and as a state.

Public at any time: the board, whose stone is where, which cells hold tiles, stones and tiles left of everybody, the
size of the box, the tile just drawn. Never known before the end: undrawn tiles and the box. In between lies the face
of a tile that was shown and turned down. Recall says how long a seat keeps it: with recall k a seat sees
the faces placed since its own k-th last completed turn, that turn's included; under `"full"` it sees all of them.
Memory aids (counts of unrevealed faces, running scores) are zero unless recall is full. Who placed a tile, and when,
is never observed.

Seats are relative to the observer: 0 is the observer, 1 the next clockwise. One layout serves 2 to 4 players and both
variants of a board; seats that are absent stay zero.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from isis_env import game
from isis_env.config import BOARDS, COPIES, MAX_FACE, MAX_PLAYERS, check_choice
from isis_env.game import NOTHING, TILE, UNKNOWN
from isis_env.kernels.jit import inlined, kernel
from isis_env.kernels.vectors import mark, scale

Recall = int | Literal["full"]

FULL = 0  # how kernels are told recall="full"

# What each part of the vector is divided by: the largest value it can take on any board.
FACE_SCALE = 4
STONES_SCALE = 8
TILES_SCALE = 11
RESERVE_SCALE = 22
BOX_SCALE = 2
COPIES_SCALE = 6
SCORE_SCALE = 69


@dataclass(frozen=True)
class Part:
    """One named part of the observation vector.

    Attributes:
        slice: where it stands in the vector.
        shape: its shape after `vector[..., slice].reshape(..., *shape)`.
        scale: entries are divided by this, so that they lie in [-1, 1].
        meaning: what the entries are.
        memory: whether it is zero unless recall is full.
    """

    slice: slice
    shape: tuple[int, ...]
    scale: int
    meaning: str
    memory: bool = False


# Offsets of the parts that follow the cell planes, counted from the end of the planes.
_STONES_LEFT = 0
_TILES_LEFT = _STONES_LEFT + MAX_PLAYERS
_RESERVE = _TILES_LEFT + MAX_PLAYERS
_BOX = _RESERVE + 1
_VARIANT = _BOX + 1
_PLAYERS = _VARIANT + 1
_ON_TURN = _PLAYERS + 3
_HELD = _ON_TURN + MAX_PLAYERS
_PROGRESS = _HELD + 2 * MAX_FACE
_UNREVEALED = _PROGRESS + 1
_SCORES = _UNREVEALED + 2 * MAX_FACE
_GLOBALS = _SCORES + MAX_PLAYERS

CELL_PLANES = MAX_PLAYERS + 2  # a plane of stones per relative seat, face-down tiles, faces

_NOBODY = -2  # in place of a seat: no piece on the board is of it
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@cache
def layout(board: str = "standard") -> dict[str, Part]:
    """Name -> part of the observation vector of `board`, in order; the parts cover the vector without overlap."""
    side = _side(board)
    cells = side * side
    parts: dict[str, Part] = {}

    def add(name: str, shape: tuple[int, ...], scale: int, meaning: str, memory: bool = False) -> None:
        begin = next(reversed(parts.values())).slice.stop if parts else 0
        size = int(np.prod(shape, dtype=int))
        parts[name] = Part(slice(begin, begin + size), shape, scale, meaning, memory)

    faces = "face -4, -3, -2, -1, 1, 2, 3, 4"
    add("stones", (MAX_PLAYERS, side, side), 1, "1 where the stone of relative seat 0..3 lies")
    add("tiles", (side, side), 1, "1 where a tile lies")
    add("faces", (side, side), FACE_SCALE, "face of the tile on the cell, where the observer sees it")
    add("stones_left", (MAX_PLAYERS,), STONES_SCALE, "stones left of relative seat 0..3")
    add("tiles_left", (MAX_PLAYERS,), TILES_SCALE, "tiles left in the own reserve of relative seat 0..3")
    add("reserve", (1,), RESERVE_SCALE, "tiles left in the common reserve")
    add("box", (1,), BOX_SCALE, "tiles in the box")
    add("common_reserve", (1,), 1, "1 in the common-reserve variant")
    add("players", (3,), 1, "one-hot: 2, 3, 4 players")
    add("on_turn", (MAX_PLAYERS,), 1, "one-hot: relative seat on turn; zero once the board is full")
    add("held", (2 * MAX_FACE,), 1, f"one-hot: the drawn tile that must be placed now, {faces}")
    add("progress", (1,), cells, "cells filled")
    add("unrevealed", (2 * MAX_FACE,), COPIES_SCALE, f"never revealed tiles of {faces}", memory=True)
    add("scores", (MAX_PLAYERS,), SCORE_SCALE, "running score of relative seat 0..3", memory=True)
    return parts


@cache
def state_layout(board: str = "standard") -> dict[str, Part]:
    """Name -> part of the vector of `state()`: all that has happened, seats absolute, for centralised critics.

    It begins with the observation of seat 0 under full recall; what follows is the history.
    """
    side = _side(board)
    cells = side * side
    begin = observation_size(board)
    return {
        **layout(board),
        "placed_at": Part(slice(begin, begin + cells), (side, side), cells, "1 + index of the placement on the cell"),
        "tile_placer": Part(
            slice(begin + cells, begin + (1 + MAX_PLAYERS) * cells),
            (MAX_PLAYERS, side, side),
            1,
            "1 where seat 0..3 placed a tile",
        ),
    }


def state_size(board: str = "standard") -> int:
    """Length of the vector of `state()` on `board`."""
    return observation_size(board) + (1 + MAX_PLAYERS) * _side(board) ** 2


def observation_size(board: str = "standard") -> int:
    """Length of the observation vector of `board`."""
    return CELL_PLANES * _side(board) ** 2 + _GLOBALS


def planes(observation: np.ndarray, board: str = "standard") -> np.ndarray:
    """The cell parts of observations [..., L] as float32[..., 6, side, side]: stones 0..3, tiles, faces."""
    side = _side(board)
    return observation[..., : CELL_PLANES * side * side].reshape(*observation.shape[:-1], CELL_PLANES, side, side)


def check_recall(recall: object, name: str = "recall") -> int:
    """`recall` as kernels take it (`FULL` for `"full"`), or a ValueError that names it."""
    if isinstance(recall, str) and recall == "full":
        return FULL
    if isinstance(recall, int | np.integer) and not isinstance(recall, bool) and recall >= 1:
        return min(int(recall), 127)  # no game has more turns, so larger numbers are the same window
    raise ValueError(f'{name}={recall!r}: must be an integer >= 1 or "full"')


@inlined
def observe(s, seat, recall, out):
    """Write what `seat` may know of `s` under `recall` to `out` (float32[L]).

    A state that `conceal` has passed shows the faces that are left in it, and no memory aids.
    """
    cells = game.cells_of(s)
    concealed = game.is_concealed(s)
    seats = _owner(s, 0, seat), _owner(s, 1, seat), _owner(s, 2, seat), _owner(s, 3, seat)
    mark(s.board, (*seats, TILE), cells, out)
    faces = out[(MAX_PLAYERS + 1) * cells :]
    if recall == FULL or concealed:
        scale(s.face, np.float32(1 / FACE_SCALE), UNKNOWN, cells, faces)
    else:
        faces[:cells] = _ZERO
        for turn in range(_first_visible(s, seat, recall), s.placed):
            cell = s.order[turn]
            faces[cell] = s.face[cell] * (1 / FACE_SCALE)
    _show_globals(s, seat, recall == FULL and not concealed, out[CELL_PLANES * cells :])


@kernel
def conceal(s, seat, recall):
    """Turn the state `s` into what `seat` may know of it under `recall`; nothing changes under full recall.

    Faces it does not see, the scores and the history become `UNKNOWN`, and `unrevealed` counts every tile that it
    neither sees nor sees held, so that `game.outcomes` are the odds as far as it can tell. A state once concealed stays
    as it is.
    """
    if recall == FULL or game.is_concealed(s):
        return
    visible = np.zeros(len(s.face), np.bool_)
    for turn in range(_first_visible(s, seat, recall), s.placed):
        visible[s.order[turn]] = True
    s.unrevealed[:] = COPIES[s.side]
    if s.held != NOTHING:
        s.unrevealed[s.held + MAX_FACE] -= 1
    for cell in range(game.cells_of(s)):
        if s.board[cell] == TILE:
            if visible[cell]:
                s.unrevealed[s.face[cell] + MAX_FACE] -= 1
            else:
                s.face[cell] = UNKNOWN
    s.score[: s.players] = UNKNOWN
    s.order[: s.placed] = UNKNOWN
    s.placer[: s.placed] = UNKNOWN


@kernel
def observe_everything(s, out):
    """Write all that has happened in `s` to `out` (float32[`state_size`], see `state_layout`). No seat may see it."""
    cells = game.cells_of(s)
    history = len(out) - (1 + MAX_PLAYERS) * cells
    observe(s, 0, FULL, out[:history])
    out[history:] = 0.0
    for turn in range(s.placed):
        cell = int(s.order[turn])
        out[history + cell] = (turn + 1) / cells
        if s.board[cell] == TILE:
            out[history + (1 + int(s.placer[turn])) * cells + cell] = 1.0


@kernel
def observe_all(states, seats, recall, out):
    """`observe` for every row: `seats` int[n], `out` float32[n, L]."""
    for row in range(len(states)):
        observe(states[row], seats[row], recall, out[row])


@kernel
def conceal_all(states, seats, recall):
    """`conceal` for every row of `states`, in place."""
    for row in range(len(states)):
        conceal(states[row], seats[row], recall)


def known_states(states: np.ndarray, seats: np.ndarray, recall: Recall) -> np.ndarray:
    """A copy of `states` (`STATE[n]`) as far as `seats` (int[n]) know them under `recall`.

    Raises:
        ValueError: there is not one seat of the game per state.
    """
    known = states.copy()
    conceal_all(known, _check_seats(states, seats), check_recall(recall))
    return known


def observations(states: np.ndarray, seats: np.ndarray, recall: Recall) -> np.ndarray:
    """What `seats` (int[n]) see of `states` (`STATE[n]`, all on one board) under `recall`, as float32[n, L].

    Raises:
        ValueError: there is not one seat of the game per state, or the states are on different boards.
    """
    seats = _check_seats(states, seats)
    sides = np.unique(states["side"])
    if len(sides) > 1:
        raise ValueError(f"states on boards of sides {sides.tolist()}: must all be on one board")
    size = CELL_PLANES * int(sides[0]) ** 2 + _GLOBALS if len(sides) else 0
    out = np.empty((len(states), size), np.float32)
    observe_all(states, seats, check_recall(recall), out)
    return out


def _check_seats(states: np.ndarray, seats: np.ndarray) -> np.ndarray:
    """`seats` as int64[n], for kernels check nothing."""
    seats = np.asarray(seats)
    if states.ndim != 1 or seats.shape != states.shape or (seats.size and seats.dtype.kind not in "iu"):
        raise ValueError(f"seats of shape {seats.shape} and type {seats.dtype}: must be one per state, {states.shape}")
    seats = seats.astype(np.int64)
    if ((seats < 0) | (seats >= states["players"])).any():
        raise ValueError(f"seats={seats.tolist()}: must be seats of their games, from 0 to players - 1")
    return seats


@kernel
def _first_visible(s, seat, recall):
    """The first placement whose face `seat` still sees: its own `recall`-th last turn, or 0 if it had fewer."""
    turns = 0
    for turn in range(s.placed - 1, -1, -1):
        if s.placer[turn] == seat:
            turns += 1
            if turns == recall:
                return turn
    return 0


@inlined
def _show_globals(s, seat, remembers, out):
    """What follows the cell planes. Counts are multiplied by 1 / scale in double precision, which rounds to the same
    float32 as a division and is several times faster.
    """
    out[:] = _ZERO
    for relative in range(s.players):
        other = _owner(s, relative, seat)
        out[_STONES_LEFT + relative] = s.stones[other] * (1 / STONES_SCALE)
        if not s.common_reserve:
            out[_TILES_LEFT + relative] = s.pile[other] * (1 / TILES_SCALE)
        if remembers:
            out[_SCORES + relative] = s.score[other] * (1 / SCORE_SCALE)
        if other == s.seat and not game.is_over(s):
            out[_ON_TURN + relative] = _ONE
    if s.common_reserve:
        out[_RESERVE] = s.pile[0] * (1 / RESERVE_SCALE)
        out[_VARIANT] = _ONE
    else:
        out[_BOX] = game.box(s) * (1 / BOX_SCALE)
    out[_PLAYERS + s.players - 2] = _ONE
    if s.held != NOTHING:
        out[_HELD + _face_index(s.held)] = _ONE
    out[_PROGRESS] = s.placed * (1 / game.cells_of(s))
    if remembers:
        for index in range(MAX_FACE):
            out[_UNREVEALED + index] = s.unrevealed[index] * (1 / COPIES_SCALE)
            out[_UNREVEALED + MAX_FACE + index] = s.unrevealed[MAX_FACE + 1 + index] * (1 / COPIES_SCALE)


@inlined
def _owner(s, relative, observer):
    """The seat at place `relative` clockwise from the observer, or `_NOBODY` beyond the last."""
    if relative >= s.players:
        return _NOBODY
    seat = int(observer) + relative
    return seat - s.players if seat >= s.players else seat


@inlined
def _face_index(face):
    """Place of a face among -4..-1, 1..4."""
    return face + MAX_FACE if face < 0 else face + MAX_FACE - 1


def _side(board: str) -> int:
    return BOARDS[check_choice("board", board, tuple(BOARDS))].side
