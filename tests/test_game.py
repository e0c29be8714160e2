"""The rules: the engine against its slow twin at every step of random games, and positions counted by hand."""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numba
import numpy as np
import pytest
from conftest import ALL_FORMS, form_id, random_game, replay
from naive import NaiveGame

from isis_env import game, notation
from isis_env.config import GameConfig
from isis_env.game import EMPTY, NOTHING, TILE

# Without the JIT the engine is slow, too; a few games then show that the Python source says the same.
GAMES = {"standard": 2000, "mini4": 500, "mini3": 500}
GAMES_WITHOUT_JIT = 15


def snapshot(twin: NaiveGame) -> dict:
    """The twin's position in the terms of `STATE`."""
    board = [EMPTY if piece is None else TILE if piece[0] == "tile" else piece[1] for piece in twin.board]
    face = [piece[1] if piece is not None and piece[0] == "tile" else NOTHING for piece in twin.board]
    unrevealed = twin.unrevealed()
    return {
        "board": board,
        "face": face,
        "stones": list(twin.stones),
        "pile": [twin.reserve] + [0] * (twin.players - 1) if twin.common_reserve else list(twin.tiles),
        "unrevealed": [unrevealed.get(value, 0) for value in range(-4, 5)],
        "score": twin.scores(),
        "held": twin.held or NOTHING,
        "placed": len(twin.history),
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_engine_equals_slow_twin_at_every_step(form):
    rng = random.Random(form_id(form))
    games = GAMES_WITHOUT_JIT if numba.config.DISABLE_JIT else GAMES[form.board]
    skips = 0
    for _ in range(games):
        positions, legal, seats, actions = [], [], [], []
        for twin, deck, action in random_game(form, rng):  # noqa: B007 (all of them are needed after the loop)
            if not actions:
                start = twin.seat
            positions.append(snapshot(twin))
            legal.append(twin.legal())
            seats.append(twin.seat)
            actions.append(action)
        positions.append(snapshot(twin))
        states, masks = replay(form, deck, start, actions)

        for name in positions[0]:
            expected = np.array([position[name] for position in positions])
            found = states[name] if expected.ndim == 1 else states[name][:, : expected.shape[1]]
            assert (found == expected).all(), f"{name} of\n{notation.dumps(states[-1])}"
        recounted = states.copy()
        for state in recounted:
            state.score[:], state.unrevealed[:] = 1, 1
            game.recount(state)
        assert (recounted == states).all()
        assert states["seat"][:-1].tolist() == seats
        assert [np.flatnonzero(mask).tolist() for mask in masks] == [*legal, []]
        last = states[-1]
        assert game.is_over(last)
        assert not game.is_over(states[-2])
        assert game.skipped(last) == twin.skipped
        won = np.zeros(4, np.bool_)
        assert game.winners(last, won) == len(twin.winners())
        assert np.flatnonzero(won).tolist() == twin.winners()
        assert [(s, c) for s, c in zip(last.placer, last.order, strict=True) if c >= 0] == twin.history
        skips += len(twin.skipped)
    if form.common_reserve:
        assert skips > 0, "the policies must reach stuck players"


@pytest.mark.slow
def test_rules_observations_and_greedy_hold_with_the_jit_off():
    """This file, the witnesses and golden games in a process whose kernels are plain Python."""
    if numba.config.DISABLE_JIT:
        pytest.skip("this is that process")
    here = Path(__file__).parent
    files = [str(here / name) for name in ("test_game.py", "test_facts.py", "test_golden.py")]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *files, "-k", "not batch and not aec_replays"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=here.parent,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-2000:]


def position(text: str) -> np.record:
    """Text in the notation -> state."""
    return notation.loads(text)[0]


PERSONAL = "[isis-osiris 1] board=standard players=2 variant=personal start=0\n"


def test_counted_by_hand_a_stone_scores_its_four_neighbours():
    # b2 lies between a2 (+3), b1 (-1), c2 (+2) and b3 (-4); a1, c1, a3, c3 lie diagonally and do not count.
    s = position(PERSONAL + "a2+3 b1-1 c2+2 b3-4 a1+4 c1+2 b2")
    assert game.scores(s) == [3 - 1 + 2 - 4, 0]


def test_counted_by_hand_a_tile_affects_every_stone_beside_it():
    # b2-3 lies beside seat 0's stones a2 and b1 and seat 1's stone c2; seat 1's stone c3 is diagonal to it.
    s = position(PERSONAL + "a2 c2 b1 c3 b2-3")
    assert game.scores(s) == [-6, -3]


def test_counted_by_hand_edges_have_no_neighbours_beyond():
    # f1 and a2 are neighbours in the numbering (cells 5 and 6), not on the board.
    s = position(PERSONAL + "f1 a2+4 a1 e6-2 f6")
    assert game.scores(s) == [4 - 2, 0]


def test_running_score_counts_tiles_placed_before_and_after_the_stone():
    s = position(PERSONAL + "a1 b1+2 c3 a2-1")
    assert game.scores(s) == [2 - 1, 0]


def test_a_drawn_tile_must_be_placed():
    s = position(PERSONAL + "a1 ?+3")
    assert s.held == 3
    assert s.seat == 1
    assert game.legal_actions(s) == list(range(1, 36)), "no draw, no way back to a stone"
    assert s.pile.tolist() == [11, 10, 0, 0]
    game.place(s, 1)
    assert s.stones.tolist() == [7, 8, 0, 0], "the tile was placed, not a stone"
    assert game.scores(s) == [3, 0]


def test_draw_odds_count_every_unrevealed_tile_the_box_included():
    states = game.new_state(GameConfig(players=3))
    s = states[0]
    game.draw(s, -4)
    game.place(s, 0)
    odds = np.zeros(9)
    game.outcomes(s, odds)
    assert odds.tolist() == [0, 2 / 21, 6 / 21, 2 / 21, 0, 2 / 21, 6 / 21, 2 / 21, 1 / 21]
    assert odds.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (0, ("off", 0, 0)),
        (1, ("blue", 0, 1)),
        (-1, ("red", 0, 1)),
        (20, ("blue", 0, 20)),
        (21, ("blue", 1, 1)),
        (-21, ("red", 1, 1)),
        (40, ("blue", 1, 20)),
        (41, ("blue", 2, 1)),
        (69, ("blue", 3, 9)),
        (-60, ("red", 2, 20)),
    ],
)
def test_scoring_strips(score, shown):
    assert game.strip(score) == shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"players": 5}, "players=5: must be 2 or 3 or 4"),
        ({"players": 1}, "players=1: must be"),
        ({"players": "2"}, "players='2': must be"),
        ({"players": True}, "players=True: must be"),
        ({"board": "mini3", "players": 3}, "players=3: must be 2 on board 'mini3'"),
        ({"board": "7x7"}, "board='7x7': must be one of 'standard', 'mini4', 'mini3'"),
        ({"board": ["standard"]}, "board="),
        ({"board": "mini4", "common_reserve": True}, "common_reserve=True: must be False on board 'mini4'"),
        ({"common_reserve": 1}, "common_reserve=1: must be True or False"),
    ],
)
def test_settings_outside_the_rules_are_errors_that_say_so(arguments, message):
    with pytest.raises(ValueError, match="must be") as caught:
        GameConfig(**arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_may_be_numpy_scalars():
    config = GameConfig(players=np.int64(3), common_reserve=np.bool_(True))
    assert config == GameConfig(players=3, common_reserve=True)
    assert (type(config.players), type(config.common_reserve)) == (int, bool)


def test_pieces_by_the_table():
    table = {(n, c): (GameConfig("standard", n, c)) for n in (2, 3, 4) for c in (False, True)}
    assert {key: (g.stones_each, g.pile_size, g.box_tiles) for key, g in table.items()} == {
        (2, False): (8, 11, 0),
        (3, False): (6, 7, 1),
        (4, False): (5, 5, 2),
        (2, True): (8, 22, 0),
        (3, True): (6, 22, 0),
        (4, True): (5, 22, 0),
    }
    assert Counter(GameConfig().faces) == {1: 2, 2: 6, 3: 2, 4: 1, -1: 2, -2: 6, -3: 2, -4: 1}
