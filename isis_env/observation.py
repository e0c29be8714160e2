"""What a seat may know of a game, as a vector: the layout of the vector and the kernels that write it.

What may be known is decided in `isis_env.secrecy`. Seats are relative to the observer: 0 is the observer, 1 the next
clockwise. One layout serves 2 to 4 players and both variants of a board; seats that are absent stay zero.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from isis_env import game
from isis_env.config import BOARDS, MAX_FACE, MAX_PLAYERS, check_choice
from isis_env.game import NOTHING, TILE, UNKNOWN
from isis_env.kernels.jit import inlined, kernel
from isis_env.kernels.vectors import mark, scale
from isis_env.secrecy import FULL, Recall, check_recall, check_seats, first_visible, has_memory_aids

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


_FACES = "face -4, -3, -2, -1, 1, 2, 3, 4"

# The one table of the vector: (name, shape, scale, meaning, memory) of every part, in order. `layout` and the offsets
# that kernels use are derived from it. First come the cell planes, whose shape is followed by (side, side), then what
# does not depend on the board's size; the scale 0 stands for the number of cells.
_CELL_PARTS: tuple[tuple[str, tuple[int, ...], int, str], ...] = (
    ("stones", (MAX_PLAYERS,), 1, "1 where the stone of relative seat 0..3 lies"),
    ("tiles", (), 1, "1 where a tile lies"),
    ("faces", (), FACE_SCALE, "face of the tile on the cell, where the observer sees it"),
)
_GAME_PARTS: tuple[tuple[str, int, int, str, bool], ...] = (
    ("stones_left", MAX_PLAYERS, STONES_SCALE, "stones left of relative seat 0..3", False),
    ("tiles_left", MAX_PLAYERS, TILES_SCALE, "tiles left in the own reserve of relative seat 0..3", False),
    ("reserve", 1, RESERVE_SCALE, "tiles left in the common reserve", False),
    ("box", 1, BOX_SCALE, "tiles in the box", False),
    ("common_reserve", 1, 1, "1 in the common-reserve variant", False),
    ("players", 3, 1, "one-hot: 2, 3, 4 players", False),
    ("on_turn", MAX_PLAYERS, 1, "one-hot: relative seat on turn; zero once the board is full", False),
    ("held", 2 * MAX_FACE, 1, f"one-hot: the drawn tile that must be placed now, {_FACES}", False),
    ("progress", 1, 0, "cells filled", False),
    ("unrevealed", 2 * MAX_FACE, COPIES_SCALE, f"never revealed tiles of {_FACES}", True),
    ("scores", MAX_PLAYERS, SCORE_SCALE, "running score of relative seat 0..3", True),
)


def _offsets(sizes: dict[str, int]) -> tuple[dict[str, int], int]:
    """Where each part begins if they follow one another, and their size together."""
    offsets, end = {}, 0
    for name, size in sizes.items():
        offsets[name] = end
        end += size
    return offsets, end


# Where the cell parts begin, in planes, and how many planes there are; where the other parts begin, counted from the
# end of the planes, and how many entries there are. Kernels need them as constants of the module.
_plane_of, CELL_PLANES = _offsets({name: math.prod(shape) for name, shape, *_ in _CELL_PARTS})
_offset_of, _GLOBALS = _offsets({name: size for name, size, *_ in _GAME_PARTS})
_FACES_PLANE = _plane_of["faces"]
_STONES_LEFT = _offset_of["stones_left"]
_TILES_LEFT = _offset_of["tiles_left"]
_RESERVE = _offset_of["reserve"]
_BOX = _offset_of["box"]
_VARIANT = _offset_of["common_reserve"]
_PLAYERS = _offset_of["players"]
_ON_TURN = _offset_of["on_turn"]
_HELD = _offset_of["held"]
_PROGRESS = _offset_of["progress"]
_UNREVEALED = _offset_of["unrevealed"]
_SCORES = _offset_of["scores"]

_NOBODY = -2  # in place of a seat: no piece on the board is of it
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@cache
def layout(board: str = "standard") -> dict[str, Part]:
    """Name -> part of the observation vector of `board`, in order; the parts cover the vector without overlap."""
    side = _side(board)
    cells = side * side
    parts: dict[str, Part] = {}
    for name, shape, divisor, meaning in _CELL_PARTS:
        begin = _plane_of[name] * cells
        place = slice(begin, begin + math.prod(shape) * cells)
        parts[name] = Part(place, (*shape, side, side), divisor, meaning)
    for name, size, divisor, meaning, memory in _GAME_PARTS:
        begin = CELL_PLANES * cells + _offset_of[name]
        parts[name] = Part(slice(begin, begin + size), (size,), divisor or cells, meaning, memory)
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


@inlined
def observe(s, seat, recall, out):
    """Write what `seat` may know of `s` under `recall` to `out` (float32[L]).

    A state that `secrecy.conceal` has passed shows the faces that are left in it, and no memory aids.
    """
    cells = game.cells_of(s)
    seats = _owner(s, 0, seat), _owner(s, 1, seat), _owner(s, 2, seat), _owner(s, 3, seat)
    mark(s.board, (*seats, TILE), cells, out)
    faces = out[_FACES_PLANE * cells :]
    if recall == FULL or game.is_concealed(s):
        scale(s.face, np.float32(1 / FACE_SCALE), UNKNOWN, cells, faces)
    else:
        faces[:cells] = _ZERO
        for turn in range(first_visible(s, seat, recall), s.placed):
            cell = s.order[turn]
            faces[cell] = s.face[cell] * (1 / FACE_SCALE)
    _show_globals(s, seat, has_memory_aids(s, recall), out[CELL_PLANES * cells :])


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


def observations(states: np.ndarray, seats: np.ndarray, recall: Recall) -> np.ndarray:
    """What `seats` (int[n]) see of `states` (`STATE[n]`, all on one board) under `recall`, as float32[n, L].

    Raises:
        ValueError: there is not one seat of the game per state, or the states are on different boards.
    """
    seats = check_seats(states, seats)
    sides = np.unique(states["side"])
    if len(sides) > 1:
        raise ValueError(f"states on boards of sides {sides.tolist()}: must all be on one board")
    size = CELL_PLANES * int(sides[0]) ** 2 + _GLOBALS if len(sides) else 0
    out = np.empty((len(states), size), np.float32)
    observe_all(states, seats, check_recall(recall), out)
    return out


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
