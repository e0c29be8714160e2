"""Returns by decisions 9 and 15, from scores set by hand."""

import numpy as np
import pytest

from isis_env import game
from isis_env.config import GameConfig
from isis_env.reward import MARGIN, MARGIN_BOUND, WIN, forfeit, returns


def paid(scores, kind, by=returns, seat=0):
    states = game.new_state(GameConfig(players=len(scores)))
    states[0].score[: len(scores)] = scores
    states[0].seat = seat
    out = np.full(4, np.nan)
    by(states[0], kind, out)
    assert (out[len(scores) :] == 0).all(), "absent seats get nothing"
    return out[: len(scores)].tolist()


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([3, 1], [1, -1]),
        ([2, 2], [0, 0]),
        ([5, 1, 1], [1, -1 / 2, -1 / 2]),
        ([5, 5, 1], [1 / 2, 1 / 2, -1]),
        ([-3, -1, -2], [-1 / 2, 1, -1 / 2]),
        ([0, 0, 0], [0, 0, 0]),
        ([7, 7, 7, 1], [1 / 3, 1 / 3, 1 / 3, -1]),
        ([7, 1, 7, 1], [1 / 2, -1 / 2, 1 / 2, -1 / 2]),
        ([9, 1, 7, 1], [1, -1 / 3, -1 / 3, -1 / 3]),
        ([-1, -1, -1, -1], [0, 0, 0, 0]),
    ],
)
def test_win(scores, expected):
    assert paid(scores, WIN) == expected


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([9, -2], [11, -11]), ([3, 0, -6], [6, 1.5, -7.5]), ([-51, 51, 0, 8], [-212 / 3, 196 / 3, -8 / 3, 8])],
)
def test_margin(scores, expected):
    assert paid(scores, MARGIN) == expected


@pytest.mark.parametrize("players", [2, 3, 4])
@pytest.mark.parametrize(("kind", "stake"), [(WIN, 1), (MARGIN, MARGIN_BOUND)])
def test_forfeit(players, kind, stake):
    for seat in range(players):
        expected = [stake / (players - 1)] * players
        expected[seat] = -stake
        assert paid([5] * players, kind, forfeit, seat) == expected


def test_no_game_reaches_the_stake_of_a_forfeit():
    assert MARGIN_BOUND > 69 + 69
