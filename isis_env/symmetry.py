"""The board's eight symmetries, applied to cells, actions, masks, observations and states alike.

Symmetry k of 0..7 turns the board by k % 4 quarter turns counter-clockwise, after mirroring it left to right for
k >= 4. Symmetry 0 changes nothing. What is mapped is the board; the game that follows is the same.
"""

from functools import cache

import numpy as np

from isis_env.config import BOARDS, MAX_CELLS
from isis_env.game import EMPTY, NOTHING
from isis_env.observation import layout, observation_size, state_layout, state_size

SYMMETRIES = 8


@cache
def cell_map(side: int, symmetry: int) -> np.ndarray:
    """int64[side * side]: the cell that each cell goes to."""
    if not 0 <= symmetry < SYMMETRIES:
        raise ValueError(f"symmetry={symmetry!r}: must be from 0 to 7")
    cells = np.arange(side * side).reshape(side, side)
    # `moved[cell]` is where the piece on `cell` came from; the map wanted is its inverse.
    moved = np.rot90(np.fliplr(cells) if symmetry >= 4 else cells, symmetry % 4).ravel()
    to = np.empty_like(moved)
    to[moved] = np.arange(side * side)
    to.flags.writeable = False
    return to


def inverse(symmetry: int) -> int:
    """The symmetry that undoes `symmetry`."""
    return symmetry if symmetry >= 4 else -symmetry % 4


def apply_to_action(action, symmetry: int, board: str = "standard"):
    """Actions (integer or integer array) as seen on the mapped board; draw stays draw."""
    return _action_map(board, symmetry)[action]


def apply_to_mask(mask: np.ndarray, symmetry: int, board: str = "standard") -> np.ndarray:
    """Masks [..., A] as seen on the mapped board."""
    out = np.empty_like(mask)
    out[..., _action_map(board, symmetry)] = mask
    return out


def apply_to_observation(observation: np.ndarray, symmetry: int, board: str = "standard") -> np.ndarray:
    """Observations [..., L] or vectors of `state()` [..., S] as seen on the mapped board."""
    if observation.shape[-1] not in (observation_size(board), state_size(board)):
        raise ValueError(
            f"last axis {observation.shape[-1]}: must be {observation_size(board)} (an observation of board {board!r}) "
            f"or {state_size(board)} (its state())"
        )
    side = BOARDS[board].side
    to = cell_map(side, symmetry)
    out = observation.copy()
    parts = layout(board) if observation.shape[-1] == observation_size(board) else state_layout(board)
    for part in parts.values():
        if part.shape[-2:] == (side, side):
            before = observation[..., part.slice].reshape(*observation.shape[:-1], -1, side * side)
            after = np.empty_like(before)
            after[..., to] = before
            out[..., part.slice] = after.reshape(*observation.shape[:-1], -1)
    return out


def apply_to_state(states: np.ndarray, symmetry: int) -> np.ndarray:
    """`STATE` arrays (all on one board) as seen on the mapped board."""
    out = states.copy()
    if not states.size:
        return out
    side = int(states["side"].flat[0])
    to = cell_map(side, symmetry)
    for field, blank in (("board", EMPTY), ("face", NOTHING)):
        moved = np.full((*states.shape, MAX_CELLS), blank, states[field].dtype)
        moved[..., to] = states[field][..., : side * side]
        out[field] = moved
    order = states["order"]
    on_board = (order >= 0) & (order < side * side)  # beyond the last placement and concealed entries stay
    out["order"] = np.where(on_board, to[np.where(on_board, order, 0)], order)
    return out


@cache
def _action_map(board: str, symmetry: int) -> np.ndarray:
    side = BOARDS[board].side
    return np.append(cell_map(side, symmetry), side * side)
