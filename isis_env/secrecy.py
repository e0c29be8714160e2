"""The secrecy policy on one page: what a seat may know of a game. `isis_env.observation` writes that as a vector.

Public at any time: the board, whose stone is where, which cells hold tiles, stones and tiles left of everybody, the
size of the box, the tile just drawn. Known to nobody before the end: undrawn tiles and the box; a state does not hold
them at all. In between lies the face of a placed tile, which everybody saw and which then lies face down. Recall says
how long a seat keeps it (rules, decisions 5 and 6):

- with recall k a seat sees the faces of the tiles placed since its own k-th last completed turn, the tile of that turn
  included, and all of them while it has had fewer than k turns;
- with recall `"full"` it sees all of them, and only then the memory aids: how many tiles of each face are unrevealed,
  and the running scores.

Who placed a tile, and when, cannot be read from the table. Only a state under full recall holds this history.
"""

from typing import Literal

import numpy as np

from isis_env import game
from isis_env.config import COPIES, MAX_FACE, shown
from isis_env.game import NOTHING, TILE, UNKNOWN
from isis_env.kernels.jit import inlined, kernel

Recall = int | Literal["full"]

FULL = 0  # how kernels are given recall="full"


def check_recall(recall: object, name: str = "recall") -> int:
    """`recall` as kernels take it (`FULL` for `"full"`).

    Raises:
        ValueError: it is neither an integer of 1 or more nor `"full"`; the message calls it `name`.
    """
    if isinstance(recall, str) and recall == "full":
        return FULL
    if isinstance(recall, int | np.integer) and not isinstance(recall, bool) and recall >= 1:
        return min(int(recall), 127)  # no game has more turns, so larger numbers are the same window
    raise ValueError(f'{name}={shown(recall)}: must be an integer >= 1 or "full"')


@kernel
def first_visible(s, seat, recall):
    """The first placement whose face `seat` still sees under a limited `recall`; it sees those after it, too.

    That is its own `recall`-th last turn, or placement 0 if it had fewer turns.
    """
    own_turns = 0
    for placement in range(s.placed - 1, -1, -1):
        if s.placer[placement] == seat:
            own_turns += 1
            if own_turns == recall:
                return placement
    return 0


@inlined
def has_memory_aids(s, recall):
    """Whether a seat is given the counts of unrevealed faces and the running scores."""
    return recall == FULL and not game.is_concealed(s)


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
    for placement in range(first_visible(s, seat, recall), s.placed):
        visible[s.order[placement]] = True
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
def conceal_all(states, seats, recall):
    """`conceal` for every row of `states` (`STATE[n]`), in place; `seats` int[n]."""
    for row in range(len(states)):
        conceal(states[row], seats[row], recall)


def known_states(states: np.ndarray, seats: np.ndarray, recall: Recall) -> np.ndarray:
    """A copy of `states` (`STATE[n]`) as far as `seats` (int[n]) know them under `recall`.

    A state that holds only what one seat knows already stays as it is, whichever seat asks.

    Raises:
        ValueError: there is not one seat of the game per state.
    """
    known = states.copy()
    conceal_all(known, check_seats(states, seats), check_recall(recall))
    return known


def check_seats(states: np.ndarray, seats: np.ndarray) -> np.ndarray:
    """`seats` as int64[n], one per state (`STATE[n]`); kernels do not check them.

    Raises:
        ValueError: there is not one seat of the game per state.
    """
    seats = np.asarray(seats)
    if states.ndim != 1 or seats.shape != states.shape or (seats.size and seats.dtype.kind not in "iu"):
        raise ValueError(f"seats of shape {seats.shape} and type {seats.dtype}: must be one per state, {states.shape}")
    seats = seats.astype(np.int64)
    if ((seats < 0) | (seats >= states["players"])).any():
        raise ValueError(f"seats={seats.tolist()}: must be seats of their games, from 0 to players - 1")
    return seats
