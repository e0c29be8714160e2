"""The eight symmetries: applied to a whole game they give the mapped game, in every form that data takes."""

import random

import numpy as np
import pytest
from conftest import ALL_FORMS, form_id, random_game, replay

from isis_env import symmetry
from isis_env.observation import observations, observe_everything, state_size


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_a_mapped_game_has_the_mapped_states_observations_masks_and_vectors(form):
    game = list(random_game(form, random.Random(2)))
    deck, actions = game[0][1], np.array([action for _, _, action in game])
    start = game[-1][0].history[0][0]
    states, masks = replay(form, deck, start, actions)
    for k in range(symmetry.SYMMETRIES):
        mapped, mapped_masks = replay(form, deck, start, symmetry.apply_to_action(actions, k, form.board))
        assert (symmetry.apply_to_state(states, k) == mapped).all()
        assert (symmetry.apply_to_mask(masks, k, form.board) == mapped_masks).all()
        seats = np.arange(len(states)) % form.players
        for recall in (1, "full"):
            before, after = observations(states, seats, recall), observations(mapped, seats, recall)
            assert (symmetry.apply_to_observation(before, k, form.board) == after).all()
        vectors = np.empty((2, state_size(form.board)), np.float32)
        observe_everything(states[-3], vectors[0])
        observe_everything(mapped[-3], vectors[1])
        assert (symmetry.apply_to_observation(vectors[0], k, form.board) == vectors[1]).all()


@pytest.mark.parametrize("side", [3, 4, 6])
def test_eight_different_maps_that_keep_neighbours_and_have_inverses(side):
    maps = [symmetry.cell_map(side, k) for k in range(symmetry.SYMMETRIES)]
    assert len({tuple(m) for m in maps}) == 8
    rows, columns = np.divmod(np.arange(side * side), side)
    distance = np.abs(rows[:, None] - rows) + np.abs(columns[:, None] - columns)
    for k, to in enumerate(maps):
        assert ((distance == 1) == (distance[to][:, to] == 1)).all()
        assert (maps[symmetry.inverse(k)][to] == np.arange(side * side)).all()


def test_what_is_no_symmetry_or_no_observation_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="symmetry=8: must be from 0 to 7"):
        symmetry.cell_map(6, 8)
    with pytest.raises(ValueError, match="last axis 7: must be"):
        symmetry.apply_to_observation(np.zeros(7), 1)
