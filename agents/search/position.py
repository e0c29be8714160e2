"""Positions for search: a `STATE` with what every search asks of it kept up to date.

A `POSITION` has all fields of `game.STATE`, so the rulebook's kernels work on it, and three things besides: the free
cells as a list, and for every cell the sum of the tiles around it and the stones of every seat around it. They are
brought up to date by `place`, which is `game.place` followed by that. Like a state it does not know what lies face
down and undrawn; a draw is given its face.
"""

import numpy as np

from isis_env import game
from isis_env.config import MAX_CELLS, MAX_FACE, MAX_PLAYERS, NEIGHBOURS
from isis_env.game import EMPTY, FACE_SLOTS, NOTHING, STATE, TILE
from isis_env.kernels.jit import kernel

POSITION = np.dtype(
    (
        np.record,
        [
            ("free", "i1", MAX_CELLS),  # the free cells, in no order; `side * side - placed` of them
            ("index", "i1", MAX_CELLS),  # where a free cell stands in `free`
            ("tiles_near", "i1", MAX_CELLS),  # per cell the sum of the faces around it: what a stone there scores
            ("stones_near", "i1", MAX_PLAYERS * MAX_CELLS),  # per seat and cell (seat * 36 + cell) its stones around
            # Last, or numba would take a position for a subtype of `STATE`, which it calls experimental
            *STATE.descr,
        ],
    )
)


def new_positions(states: np.ndarray) -> np.ndarray:
    """`POSITION[n]` of `STATE[n]`.

    Raises:
        ValueError: a state is concealed (a search needs all that has happened) or its game is over.
    """
    positions = np.zeros(len(states), POSITION)
    for row, state in enumerate(states):
        if game.is_concealed(state):
            raise ValueError(f"state {row} is concealed: a search needs what recall 'full' knows")
        if game.is_over(state):
            raise ValueError(f"state {row} is finished: there is nothing to decide")
    load_all(states, positions)
    return positions


@kernel
def load_all(states, positions):
    """`load` for every row."""
    for row in range(len(states)):
        load(states[row], positions[row])


@kernel
def load(s, p):
    """Write the position of the state `s` to `p`."""
    p.side = s.side
    p.players = s.players
    p.common_reserve = s.common_reserve
    p.start = s.start
    p.board[:] = s.board
    p.face[:] = s.face
    p.stones[:] = s.stones
    p.pile[:] = s.pile
    p.unrevealed[:] = s.unrevealed
    p.score[:] = s.score
    p.seat = s.seat
    p.held = s.held
    p.placed = s.placed
    p.order[:] = s.order
    p.placer[:] = s.placer
    p.tiles_near[:] = 0
    p.stones_near[:] = 0
    free = 0
    for cell in range(game.cells_of(s)):
        if s.board[cell] == EMPTY:
            p.free[free] = cell
            p.index[cell] = free
            free += 1
        else:
            _update_neighbours(p, cell)


@kernel
def place(p, cell):
    """`game.place` on a position."""
    game.place(p, cell)
    last = p.free[game.cells_of(p) - p.placed]
    hole = p.index[cell]
    p.free[hole] = last
    p.index[last] = hole
    _update_neighbours(p, cell)


@kernel
def free_cells(p):
    """How many cells are free."""
    return game.cells_of(p) - p.placed


@kernel
def weight(p, cell):
    """What a point on a tile at `cell` is worth to the seat on turn: margin times (players - 1), an integer."""
    seat = int(p.seat)
    own = int(p.stones_near[seat * MAX_CELLS + cell])
    near = 0
    for other in range(p.players):
        near += p.stones_near[other * MAX_CELLS + cell]
    return p.players * own - near


@kernel
def _update_neighbours(p, cell):
    piece = p.board[cell]
    for k in range(4):
        neighbour = NEIGHBOURS[p.side, cell, k]
        if neighbour < 0:
            break
        if piece == TILE:
            p.tiles_near[neighbour] += p.face[cell]
        else:
            p.stones_near[piece * MAX_CELLS + neighbour] += 1


@kernel
def highest_and_lowest_weight(p):
    """The range of `weight` over the free cells."""
    highest, lowest = -(2**31), 2**31
    for index in range(free_cells(p)):
        value = weight(p, p.free[index])
        highest = max(highest, value)
        lowest = min(lowest, value)
    return highest, lowest


@kernel
def best_stone(p):
    """The largest sum of tiles around a free cell."""
    best = -(2**31)
    for index in range(free_cells(p)):
        best = max(best, int(p.tiles_near[p.free[index]]))
    return best


@kernel
def gain(p, cell):
    """What filling `cell` gains the seat on turn at once: margin times (players - 1), an integer."""
    if p.held != NOTHING:
        return int(p.held) * weight(p, cell)
    return (int(p.players) - 1) * int(p.tiles_near[cell])


@kernel
def best_cell(p):
    """The free cell of the largest gain; of equals the first in `free`."""
    best, chosen = -(2**31), 0
    for index in range(free_cells(p)):
        here = gain(p, p.free[index])
        if here > best:
            best, chosen = here, index
    return int(p.free[chosen])


@kernel
def draw_gain(p):
    """What greedy play expects of drawing: margin times (players - 1) times `game.tiles_to_reveal`, an integer."""
    highest, lowest = highest_and_lowest_weight(p)
    total = 0
    for slot in range(FACE_SLOTS):
        face = slot - MAX_FACE
        total += int(p.unrevealed[slot]) * face * (highest if face > 0 else lowest)
    return total
