"""What an unfinished position is worth: an evaluation that knows what the free cells around stones and tiles promise.

The score so far says little: a stone with free cells beside it has yet to get tiles, a tile with free cells beside it
will be somebody's, and whoever is on turn takes the best of it. So the expected final margin of a seat is estimated as
its margin so far plus a linear function of the position:

- for every free cell a weight that depends on how many of the seat's stones (0-3) and of the others' (0-3) lie around
  it, on the sum of tiles around it (-6..6), and on which third of the game it is;
- the gain that one-ply greedy expects of the seat on turn; the mean unrevealed face, also times the seat's share of
  stones around free cells; stones left compared to the others', also times the share of free cells; how many cells are
  free, and whether that is odd; a constant.

The weights differ by form of the game and by how many turns the seat has to wait. They were fitted by least squares to
the final margins of games between agents that look one turn ahead with this evaluation, by
`python -m train.fit_evaluation`, which writes `evaluation.safetensors`. It also fits how far results stray from the
estimate, from which an estimate of the win share follows.
"""

from functools import cache
from pathlib import Path

import numpy as np
import safetensors.numpy

from agents.search.position import best_stone, draw_gain, free_cells
from isis_env import game
from isis_env.config import MAX_CELLS, MAX_FACE, GameConfig
from isis_env.game import FACE_SLOTS
from isis_env.kernels.jit import kernel
from isis_env.reward import MARGIN, returns

WEIGHTS_FILE = Path(__file__).with_name("evaluation.safetensors")

PHASES = 3
NEAR = 4  # stones around a cell are counted up to 3
SUMS = 13  # sums of tiles around it up to +-6
CELL_FEATURES = PHASES * NEAR * NEAR * SUMS
GLOBAL_FEATURES = 8
FEATURES = CELL_FEATURES + GLOBAL_FEATURES

FORMS = (
    *(GameConfig("standard", n, common) for common in (False, True) for n in (2, 3, 4)),
    GameConfig("mini4"),
    GameConfig("mini3"),
)


@kernel
def form_index(p):
    """Where the form of the game of `p` stands in `FORMS`."""
    if p.side < 6:
        return 10 - p.side
    return p.players - 2 + 3 * p.common_reserve


@cache
def load_weights() -> tuple[np.ndarray, np.ndarray]:
    """The fitted weights float64[forms, 4, FEATURES] by form and turns to wait, and the spread float64[forms, 37]: how
    far, in points of margin, results stray from the estimate with so many free cells."""
    tensors = safetensors.numpy.load_file(WEIGHTS_FILE)
    return tensors["weights"].astype(np.float64), tensors["spread"].astype(np.float64)


@kernel
def greedy_gain(p):
    """The margin that one-ply greedy expects to gain for the seat on turn by its turn, which has not begun."""
    scale = 1.0 / (p.players - 1)
    gain = -np.inf
    if p.stones[p.seat] > 0:
        gain = float(best_stone(p))
    if game.can_draw(p):
        gain = max(gain, scale * draw_gain(p) / game.tiles_to_reveal(p))
    return gain


@kernel
def cell_feature(p, seat, cell, phase):
    """The number of the feature that the free `cell` is to `seat`."""
    own = int(p.stones_near[int(seat) * MAX_CELLS + cell])
    others = -own
    for other in range(p.players):
        others += p.stones_near[other * MAX_CELLS + cell]
    total = min(max(int(p.tiles_near[cell]), -6), 6) + 6
    return ((phase * NEAR + min(own, NEAR - 1)) * NEAR + min(others, NEAR - 1)) * SUMS + total


@kernel
def phase_of(p):
    """Which third of the game is left: 0 for the last."""
    return (free_cells(p) - 1) * PHASES // game.cells_of(p)


@kernel
def global_features(p, seat, gain, out):
    """Write the features of the whole position to `out` (float64[8]); `gain` is `greedy_gain(p)`."""
    n = int(p.players)
    free = free_cells(p)
    share = 0  # of stones around free cells
    for index in range(free):
        cell = int(p.free[index])
        share += n * p.stones_near[int(seat) * MAX_CELLS + cell]
        for other in range(n):
            share -= p.stones_near[other * MAX_CELLS + cell]
    hidden, mean = game.tiles_to_reveal(p), 0
    for slot in range(FACE_SLOTS):
        mean += p.unrevealed[slot] * (slot - MAX_FACE)
    mean_face = mean / hidden if hidden > 0 else 0.0
    stones = n * p.stones[seat]
    for other in range(n):
        stones -= p.stones[other]
    left = free / game.cells_of(p)
    out[0] = gain
    out[1] = mean_face * share / (n - 1)
    out[2] = mean_face
    out[3] = stones / (n - 1)
    out[4] = left * stones / (n - 1)
    out[5] = left
    out[6] = free % 2
    out[7] = 1.0


@kernel
def features(p, seat, out):
    """Write all features of an unfinished position between two turns, as `seat` sees it, to `out`."""
    out[:] = 0.0
    phase = phase_of(p)
    for index in range(free_cells(p)):
        out[cell_feature(p, seat, int(p.free[index]), phase)] += 1.0
    global_features(p, seat, greedy_gain(p), out[CELL_FEATURES:])


@kernel
def estimate_margins(p, weights, work, out):
    """Write every seat's estimated final margin to `out` (float64[players]); exact once the board is full.

    Args:
        p: a position between two turns.
        weights: float64[4, FEATURES] of the form of the game.
        work: float64[8], written over.
    """
    returns(p, MARGIN, out)
    if game.is_over(p):
        return
    n = int(p.players)
    phase = phase_of(p)
    gain = greedy_gain(p)
    for wait in range(1 if n == 2 else n):  # with two players one's margin is the other's loss
        seat = (int(p.seat) + wait) % n
        total = 0.0
        for index in range(free_cells(p)):
            total += weights[wait, cell_feature(p, seat, int(p.free[index]), phase)]
        global_features(p, seat, gain, work)
        for k in range(GLOBAL_FEATURES):
            total += weights[wait, CELL_FEATURES + k] * work[k]
        out[seat] += total
    if n == 2:
        out[1 - p.seat] = -out[p.seat]


@kernel
def win_returns(margins, players, spread):
    """Turn estimated margins (float64[players]) into estimated returns under `WIN`, in place.

    The shares of the win are a softmax of the scores. For two players that is the logistic function of 1.702 * margin /
    spread, which is within 0.01 of the normal probability of a positive margin.
    """
    highest = -np.inf
    for seat in range(players):
        highest = max(highest, margins[seat])
    steepness = 1.702 / spread * (players - 1) / players  # margins differ by n / (n - 1) times what scores do
    total = 0.0
    for seat in range(players):
        margins[seat] = np.exp(steepness * (margins[seat] - highest))
        total += margins[seat]
    for seat in range(players):
        margins[seat] = (players * margins[seat] / total - 1.0) / (players - 1)


@kernel
def features_all(positions, seats, out):
    """`features` for every row: `seats` int[n], `out` float64[n, FEATURES]."""
    for row in range(len(positions)):
        features(positions[row], seats[row], out[row])
