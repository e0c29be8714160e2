"""What a finished game pays each seat (rules, decisions 8, 9 and 15)."""

import numpy as np

from isis_env.config import MAX_PLAYERS
from isis_env.game import winners
from isis_env.kernels.jit import kernel

REWARDS = {"win": 0, "margin": 1}
ILLEGAL = ("raise", "lose")  # what an action outside the mask does
WIN, MARGIN = REWARDS["win"], REWARDS["margin"]

# No game reaches this margin: no score is beyond +-69.
MARGIN_BOUND = 139


@kernel
def returns(s, kind, out):
    """Write the returns of the finished game `s` to `out` (float64[4]; absent seats 0).

    `WIN`: with k < n winners each gets 1/k and each other -1/(n-k); if all tie, everybody gets 0.
    `MARGIN`: own score minus the mean of the others' scores.
    (Rules, decision 9.)
    """
    out[:] = 0.0
    players = s.players
    if kind == MARGIN:
        total = 0
        for seat in range(players):
            total += s.score[seat]
        for seat in range(players):
            out[seat] = (players * s.score[seat] - total) / (players - 1)
        return
    won = np.empty(MAX_PLAYERS, np.bool_)
    count = winners(s, won)
    if count < players:
        for seat in range(players):
            out[seat] = 1.0 / count if won[seat] else -1.0 / (players - count)


@kernel
def returns_all(states, kind, out):
    """`returns` for every row: `out` float64[n, 4]."""
    for row in range(len(states)):
        returns(states[row], kind, out[row])


@kernel
def pay(s, forfeited, kind, out):
    """`returns` of the game that ended as `s`, or `forfeit` where an illegal action of the seat on turn ended it."""
    if forfeited:
        forfeit(s, kind, out)
    else:
        returns(s, kind, out)


@kernel
def forfeit(s, kind, out):
    """Write the returns of a game that the seat on turn ended by an illegal action to `out` (rules, decision 15)."""
    stake = MARGIN_BOUND if kind == MARGIN else 1
    out[:] = 0.0
    for seat in range(s.players):
        out[seat] = -stake if seat == s.seat else stake / (s.players - 1)
