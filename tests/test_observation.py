"""The observation vector and the concealed state say what they are documented to say."""

import random

import numpy as np
import pytest
from conftest import ALL_FORMS, form_id, random_game, replay

from isis_env.config import BOARDS, GameConfig
from isis_env.game import TILE, UNKNOWN, new_state
from isis_env.observation import layout, observation_size, observations, planes, state_layout, state_size
from isis_env.secrecy import check_recall, known_states

FACES = (-4, -3, -2, -1, 1, 2, 3, 4)


def played_states(form, games=3):
    """(twin history is not needed) all states of some random games, and the decks they were played with."""
    rng = random.Random(form_id(form))
    for _ in range(games):
        game = list(random_game(form, rng))
        start = game[-1][0].history[0][0]
        yield replay(form, game[0][1], start, [action for _, _, action in game])[0]


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("parts", [layout, state_layout])
def test_parts_cover_the_vector_once_and_have_their_shape(board, parts):
    end = 0
    for part in parts(board).values():
        assert part.slice.start == end
        assert part.slice.stop - part.slice.start == np.prod(part.shape)
        assert part.scale > 0
        end = part.slice.stop
    assert end == (observation_size if parts is layout else state_size)(board)


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
@pytest.mark.parametrize("recall", [1, 3, "full"])
def test_every_part_is_what_it_says(form, recall):
    parts = layout(form.board)
    for states in played_states(form):
        for seat in range(form.players):
            seats = np.full(len(states), seat)
            vectors = observations(states, seats, recall)
            known = known_states(states, seats, recall)
            assert np.abs(vectors).max() <= 1
            for state, seen, vector in zip(states, known, vectors, strict=True):
                found = {name: vector[p.slice].reshape(p.shape) * p.scale for name, p in parts.items()}
                board = state.board[: form.cells].reshape(form.side, form.side)
                order = [(seat + k) % form.players for k in range(form.players)]
                pad = [0] * (4 - form.players)
                for relative, absolute in enumerate(order):
                    assert (found["stones"][relative] == (board == absolute)).all()
                assert not found["stones"][form.players :].any()
                assert (found["tiles"] == (board == TILE)).all()
                face = seen.face[: form.cells].reshape(form.side, form.side)
                assert (found["faces"] == np.where(face == UNKNOWN, 0, face)).all()
                assert found["stones_left"] == pytest.approx([*(state.stones[p] for p in order), *pad])
                own = [0] * form.players if form.common_reserve else [state.pile[p] for p in order]
                assert found["tiles_left"] == pytest.approx([*own, *pad])
                assert found["reserve"] == pytest.approx([state.pile[0] if form.common_reserve else 0])
                assert found["box"] == pytest.approx([form.box_tiles])
                assert found["common_reserve"] == [form.common_reserve]
                assert found["players"].tolist() == [n == form.players for n in (2, 3, 4)]
                over = state.placed == form.cells
                assert found["on_turn"].tolist() == [not over and p == state.seat for p in order] + pad
                assert found["held"].tolist() == [f == state.held for f in FACES]
                assert found["progress"] == pytest.approx([state.placed])
                if recall == "full":
                    assert found["unrevealed"] == pytest.approx([state.unrevealed[f + 4] for f in FACES])
                    assert found["scores"] == pytest.approx([*(state.score[p] for p in order), *pad], abs=1e-4)
                else:
                    assert not found["unrevealed"].any()
                    assert not found["scores"].any()


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_concealed_states_hide_faces_scores_and_history_and_give_the_odds_a_seat_can_tell(form):
    for states in played_states(form):
        for seat in range(form.players):
            known = known_states(states, np.full(len(states), seat), 1)
            for true, seen in zip(states, known, strict=True):
                assert (seen.score[: form.players] == UNKNOWN).all()
                assert (seen.order[: true.placed] == UNKNOWN).all()
                assert (seen.placer[: true.placed] == UNKNOWN).all()
                tiles = true.board == TILE
                shown = tiles & (seen.face != UNKNOWN)
                assert (seen.face[shown] == true.face[shown]).all()
                counts = {f: form.faces.count(f) - int((seen.face[shown] == f).sum()) for f in FACES}
                if true.held:
                    counts[int(true.held)] -= 1
                assert [int(seen.unrevealed[f + 4]) for f in FACES] == [counts[f] for f in FACES]
                for name in ("board", "stones", "pile", "seat", "held", "placed", "start"):
                    assert (true[name] == seen[name]).all()
            assert (known_states(states, np.full(len(states), seat), "full") == states).all()


def test_planes_are_the_cell_parts():
    vectors = np.arange(2 * observation_size("mini4"), dtype=np.float32).reshape(2, -1)
    cells = planes(vectors, "mini4")
    assert cells.shape == (2, 6, 4, 4)
    parts = layout("mini4")
    assert (cells[1, :4] == vectors[1, parts["stones"].slice].reshape(4, 4, 4)).all()
    assert (cells[1, 4] == vectors[1, parts["tiles"].slice].reshape(4, 4)).all()
    assert (cells[1, 5] == vectors[1, parts["faces"].slice].reshape(4, 4)).all()


@pytest.mark.parametrize("recall", [0, -1, 1.0, "all", None, True, "1"])
def test_a_recall_that_is_none_is_an_error_that_says_so(recall):
    with pytest.raises(ValueError, match=r'must be an integer >= 1 or "full"'):
        check_recall(recall)


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_a_concealed_state_can_be_concealed_and_observed_again(form):
    """Agents may call the helpers on what they are given; kernels check no index, so this must not be left to luck."""
    for states in played_states(form, games=1):
        seats = np.arange(len(states)) % form.players
        known = known_states(states, seats, 1)
        assert (known_states(known, seats, 1) == known).all()
        for recall in (1, 2, "full"):
            assert (observations(known, seats, recall) == observations(states, seats, 1)).all()


@pytest.mark.parametrize("seats", [[0], [0, 1, 2], [0, 5], [-1, 0], [[0, 1]], 0])
def test_seats_that_do_not_fit_the_states_are_an_error(seats):
    states = np.concatenate([new_state(GameConfig()), new_state(GameConfig())])
    for helper in (known_states, observations):
        with pytest.raises(ValueError, match="must be"):
            helper(states, seats, 1)


def test_states_of_several_boards_have_no_common_vector():
    states = np.concatenate([new_state(GameConfig()), new_state(GameConfig("mini3"))])
    with pytest.raises(ValueError, match="must all be on one board"):
        observations(states, [0, 0], 1)
