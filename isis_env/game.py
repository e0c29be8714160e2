"""The rulebook: the `STATE` record of what has happened, and the functions that change or query it.

What the printed rules leave open is decided in `docs/rules.md`, whose decisions are cited by number.

A state holds only what has happened. Which tile comes next is not in it: `draw` is given the face, so a state can be
copied to any planner without leaking the future, and `outcomes` gives the odds of every face as a chance node.

The functions are numba kernels on one record. From Python pass `states[i]`, an element of an array of `STATE`; it is a
view, so the array changes. Cells are numbered row by row from the top left; on the standard board:

     0  1  2  3  4  5
     6  7  8  9 10 11
    12 13 14 15 16 17
    18 19 20 21 22 23
    24 25 26 27 28 29
    30 31 32 33 34 35

Actions are these cells and, after the last of them, draw.
"""

import numpy as np

from isis_env.config import (
    COPIES,
    MAX_CELLS,
    MAX_FACE,
    MAX_PLAYERS,
    NEIGHBOURS,
    STONES_EACH,
    TILES_EACH,
    TILES_TOTAL,
    GameConfig,
)
from isis_env.kernels.jit import inlined, kernel
from isis_env.kernels.vectors import mark

EMPTY = -1  # on `board`; a stone is the number of its seat, 0 to 3
TILE = 4
NOTHING = 0  # held: no tile is drawn; face: no tile lies here
UNKNOWN = 127  # in states handed to agents: what the seat does not know (see `secrecy.conceal`)

FACE_SLOTS = 2 * MAX_FACE + 1  # counts per face are indexed by face + MAX_FACE; slot MAX_FACE stays 0

STATE = np.dtype(
    (
        np.record,
        [
            # Settings
            ("side", "i1"),  # 6, 4 or 3
            ("players", "i1"),
            ("common_reserve", "i1"),  # 0 or 1
            ("start", "i1"),  # the seat that began
            # The table; on small boards only the first side * side cells are in use
            ("board", "i1", MAX_CELLS),  # EMPTY, seat of the stone, or TILE
            ("face", "i1", MAX_CELLS),  # face of the tile on a cell, else NOTHING
            ("stones", "i1", MAX_PLAYERS),  # stones left per seat
            ("pile", "i1", MAX_PLAYERS),  # tiles left per pile: pile p is seat p's, or pile 0 is everybody's
            ("unrevealed", "i1", FACE_SLOTS),  # never revealed tiles of each face, undrawn and in the box together
            ("score", "i2", MAX_PLAYERS),  # running score per seat, counting face-down tiles
            # Whose decision
            ("seat", "i1"),  # on turn; after the end the seat that placed last
            ("held", "i1"),  # face of the drawn tile that must be placed now, else NOTHING
            # What happened, in order; -1 beyond the last placement
            ("placed", "i1"),  # completed turns = filled cells
            ("order", "i1", MAX_CELLS),  # the cell of the i-th placement
            ("placer", "i1", MAX_CELLS),  # the seat that made it
        ],
    )
)


# [side, cell, 4]: the neighbours of a cell, padded with the cell itself where the board ends, which adds nothing to any
# score: a tile finds no stone there, a stone no face. A loop without an early exit has no branch to mispredict.
_NEIGHBOURS_PADDED = np.where(NEIGHBOURS >= 0, NEIGHBOURS, np.arange(MAX_CELLS)[:, None]).astype(
    np.uint64
)  # [side, cell, 4]


class IllegalActionError(ValueError):
    """An action outside the mask; the message names it and the legal ones. Nothing was applied."""


def new_state(config: GameConfig, start: int = 0) -> np.ndarray:
    """The position before the first turn, as an array of one `STATE`."""
    states = np.zeros(1, STATE)
    reset(states[0], config.side, config.players, config.common_reserve, start)
    return states


@kernel
def reset(s, side, players, common_reserve, start):
    """Setup: an empty board, stones and face-down tiles handed out, `start` to begin."""
    s.side = side
    s.players = players
    s.common_reserve = 1 if common_reserve else 0
    s.start = start
    s.board[:] = EMPTY
    s.face[:] = NOTHING
    s.stones[:] = 0
    s.pile[:] = 0
    s.stones[:players] = STONES_EACH[side, players]
    if common_reserve:
        s.pile[0] = TILES_TOTAL[side]
    else:
        s.pile[:players] = TILES_EACH[side, players]
    s.unrevealed[:] = COPIES[side]
    s.score[:] = 0
    s.seat = start
    s.held = NOTHING
    s.placed = 0
    s.order[:] = -1
    s.placer[:] = -1


@inlined
def draw(s, face):
    """The seat on turn takes the top tile of its pile and shows everybody that it is `face`."""
    s.pile[pile_of(s, s.seat)] -= 1
    s.unrevealed[face + MAX_FACE] -= 1
    s.held = face


@inlined
def place(s, cell):
    """The seat on turn places the tile it holds, or else a stone, on `cell`, and the turn passes."""
    if s.held != NOTHING:
        s.board[cell] = TILE
        s.face[cell] = s.held
        s.held = NOTHING
    else:
        s.board[cell] = s.seat
        s.stones[s.seat] -= 1
    _score_placement(s, cell)
    s.order[s.placed] = cell
    s.placer[s.placed] = s.seat
    s.placed += 1
    _pass_turn(s)


@inlined
def cells_of(s):
    """Number of cells of the board; also the number of the draw action."""
    return int(s.side) * int(s.side)


@inlined
def is_over(s):
    """Whether the last free cell is filled."""
    return s.placed == cells_of(s)


@inlined
def legal(s, action):
    """Whether the seat on turn may take `action` now (rules, decisions 1 and 2); nobody may after the end."""
    cells = cells_of(s)
    if action == cells:
        return can_draw(s)
    return 0 <= action < cells and s.board[action] == EMPTY and can_place(s)


@inlined
def legal_mask(s, mask):
    """Write 1 for every legal action of the seat on turn and 0 for the others to `mask` (int8[cells + 1])."""
    cells = cells_of(s)
    # A seat that cannot place looks for a value that no cell of a board has, so its mask of the cells is all 0.
    mark(s.board, (EMPTY if can_place(s) else UNKNOWN,), cells, mask)
    mask[cells] = can_draw(s)


@inlined
def can_draw(s):
    """Whether the seat on turn may draw: no tile is held, and its pile has one."""
    return s.held == NOTHING and s.pile[pile_of(s, s.seat)] > 0 and not is_over(s)


@inlined
def can_place(s):
    """Whether the seat on turn may fill a free cell: with the tile it holds, or with a stone it has left."""
    return s.held != NOTHING or s.stones[s.seat] > 0


@inlined
def pile_of(s, seat):
    """The pile that `seat` draws from: its own, or with a common reserve pile 0."""
    return 0 if s.common_reserve else seat


@inlined
def box(s):
    """Tiles that went to the box unseen."""
    return 0 if s.common_reserve else TILES_TOTAL[s.side] - s.players * TILES_EACH[s.side, s.players]


@kernel
def tiles_to_reveal(s):
    """How many tiles were never revealed, those of the box included: the denominator of every face's odds."""
    total = 0
    for slot in range(FACE_SLOTS):
        total += s.unrevealed[slot]
    return total


@kernel
def recount(s):
    """Work out running scores and unrevealed tiles from what lies on the table, all faces known, and what is held."""
    s.unrevealed[:] = COPIES[s.side]
    s.score[:] = 0
    if s.held != NOTHING:
        s.unrevealed[s.held + MAX_FACE] -= 1
    for cell in range(cells_of(s)):
        if s.board[cell] == TILE:
            s.unrevealed[s.face[cell] + MAX_FACE] -= 1
        elif s.board[cell] != EMPTY:
            for k in range(4):
                s.score[s.board[cell]] += s.face[_NEIGHBOURS_PADDED[s.side, cell, k]]


@kernel
def outcomes(s, odds):
    """Write the probability of every face for the next draw to `odds` (float64[9], index face + 4).

    Any undrawn tile, in whoever's reserve or in the box, is equally likely to be any of the unrevealed faces.
    """
    total = tiles_to_reveal(s)
    for slot in range(FACE_SLOTS):
        odds[slot] = s.unrevealed[slot] / total if total > 0 else 0.0


@inlined
def is_concealed(s):
    """Whether `secrecy.conceal` has turned this state into what one seat knows under limited recall."""
    return s.score[0] == UNKNOWN


@kernel
def decisions_taken(s):
    """Decisions made so far in the game, draws and placements; a concealed state does not tell."""
    return int(s.placed) + int(TILES_TOTAL[s.side]) - tiles_to_reveal(s)


@kernel
def is_first_decision(s):
    """Whether the seat on turn decides for the first time in the game (nobody is stuck in the first round)."""
    return s.placed < s.players and s.held == NOTHING


@kernel
def winners(s, won):
    """Write to `won` (bool[4]) which seats have the highest score, and return how many they are.

    There is no tie-break: all of them win together (rules, decision 8).
    """
    best = s.score[0]
    for seat in range(1, s.players):
        best = max(best, s.score[seat])
    count = 0
    for seat in range(MAX_PLAYERS):
        won[seat] = seat < s.players and s.score[seat] == best
        count += won[seat]
    return count


def legal_actions(s) -> list[int]:
    """The legal actions of the seat on turn in ascending order; none after the end."""
    mask = np.empty(cells_of(s) + 1, np.int8)
    legal_mask(s, mask)
    return [int(action) for action in np.flatnonzero(mask)]


def scores(s) -> list[int]:
    """The running scores in seat order; final once the board is full."""
    return [int(score) for score in s.score[: s.players]]


def skipped(s) -> list[tuple[int, int]]:
    """All skipped turns as (cells filled, seat): the stuck seats passed over between two placements (decision 3)."""
    players = int(s.players)
    acted = [int(seat) for seat in s.placer[: s.placed]]
    on_turn = acted[1:] + ([] if is_over(s) else [int(s.seat)])
    skips = []
    for filled, (last, following) in enumerate(zip(acted, on_turn, strict=False), start=1):
        seat = (last + 1) % players
        while seat != following:
            skips.append((filled, seat))
            seat = (seat + 1) % players
    return skips


def strip(score: int) -> tuple[str, int, int]:
    """Where a score is shown: the strip (`blue`, `red` or `off`), markers of 20 on it, and the stone's space.

    (Rules, decision 10.)
    """
    if score == 0:
        return "off", 0, 0
    markers = (abs(score) - 1) // 20
    return "blue" if score > 0 else "red", markers, abs(score) - 20 * markers


@inlined
def _score_placement(s, cell):
    """Bring the running scores up to date with the piece just placed on `cell`.

    A stone scores the sum of its orthogonal neighbours' tiles; a tile adds its face to every stone beside it.
    """
    if s.board[cell] == TILE:
        for seat in range(s.players):
            stones = 0
            for k in range(4):
                stones += s.board[_NEIGHBOURS_PADDED[s.side, cell, k]] == seat
            s.score[seat] += stones * s.face[cell]
    else:
        for k in range(4):
            s.score[s.seat] += s.face[_NEIGHBOURS_PADDED[s.side, cell, k]]


@inlined
def _pass_turn(s):
    """The turn goes clockwise to the next seat that has a piece to play (rules, decision 3: stuck players are skipped).

    After the end it stays with the seat that placed last.
    """
    if is_over(s):
        return
    seat = s.seat
    for _ in range(s.players):
        seat += 1
        if seat == s.players:
            seat = 0
        if s.stones[seat] > 0 or s.pile[pile_of(s, seat)] > 0:
            break
    s.seat = seat
