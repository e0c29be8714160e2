"""Positions for search against the slow twin of the rules."""

import random
from fractions import Fraction

import numpy as np
import pytest
from conftest import ALL_FORMS, form_id, random_game
from naive import neighbours

from agents.search.position import (
    POSITION,
    best_stone,
    draw_gain,
    free_cells,
    highest_and_lowest_weight,
    load,
    new_positions,
    place,
    weight,
)
from isis_env import GameConfig, game
from isis_env.config import MAX_CELLS
from isis_env.game import STATE
from isis_env.secrecy import known_states

pytestmark = pytest.mark.slow

every_form = pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)


def walk(config, seed, games):
    """Random games as (slow twin, engine state, position), both brought along action by action."""
    rng = random.Random(seed)
    for _ in range(games):
        states = None
        for twin, _, action in random_game(config, rng):
            if states is None:
                states = game.new_state(config, twin.seat)
                positions = new_positions(states)
            yield twin, states[0], positions[0]
            if action == config.draw_action:
                face = twin.pile(twin.seat)[0]
                game.draw(states[0], face)
                game.draw(positions[0], face)
            else:
                game.place(states[0], action)
                place(positions[0], action)


def assert_holds(position, twin):
    """What a position adds to a state is what the twin's board says."""
    free = twin.free_cells()
    assert free_cells(position) == len(free)
    assert sorted(position.free[: len(free)].tolist()) == free
    assert [position.free[position.index[cell]] for cell in free] == free
    for cell in range(twin.cells):
        around = [twin.board[near] for near in neighbours(cell, twin.side) if twin.board[near] is not None]
        assert position.tiles_near[cell] == sum(value for kind, value in around if kind == "tile")
        for seat in range(twin.players):
            assert position.stones_near[seat * MAX_CELLS + cell] == around.count(("stone", seat))


@every_form
def test_a_position_played_along_and_one_loaded_on_the_way_hold_the_same(config):
    loaded = np.zeros(1, POSITION)
    loaded[0].free[:] = loaded[0].tiles_near[:] = loaded[0].stones_near[:] = 9  # of whatever was there before
    for twin, state, position in walk(config, 1, games=3):
        load(state, loaded[0])
        for p in (position, loaded[0]):
            assert_holds(p, twin)
            for name in STATE.names:
                assert np.array_equal(p[name], state[name]), name


@every_form
def test_a_loaded_position_plays_on(config):
    for twin, state, _ in walk(config, 2, games=1):
        if twin.held is None:
            continue
        p, cell = new_positions(np.array([state], STATE))[0], twin.free_cells()[-1]
        before = twin.board[cell]
        twin.board[cell] = ("tile", twin.held)
        place(p, cell)
        assert_holds(p, twin)
        twin.board[cell] = before


@every_form
def test_gains_are_those_of_the_twin(config):
    for twin, _, position in walk(config, 3, games=2):
        legal = twin.legal()
        now = Fraction(weighted_margin(twin))
        if twin.held is None and twin.stones[twin.seat]:
            assert best_stone(position) == twin.best_cells(("stone", twin.seat))[0] - now
        gain, _ = twin.best_cells(("tile", 1))
        highest, lowest = highest_and_lowest_weight(position)
        assert highest == (config.players - 1) * (gain - now)
        assert lowest == -(config.players - 1) * (twin.best_cells(("tile", -1))[0] - now)
        assert {highest, lowest} <= {weight(position, cell) for cell in twin.free_cells()}
        if config.draw_action in legal:
            drawn = sum(odds * (twin.best_cells(("tile", face))[0] - now) for face, odds in twin.outcomes().items())
            value = Fraction(int(draw_gain(position)), int(game.tiles_to_reveal(position)))
            assert value == (config.players - 1) * drawn


def weighted_margin(twin):
    scores = twin.scores()
    others = sum(scores) - scores[twin.seat]
    return scores[twin.seat] - Fraction(others, twin.players - 1)


def test_a_search_is_given_open_unfinished_states_only():
    states = np.concatenate([game.new_state(GameConfig("mini3")) for _ in range(3)])
    states[1:] = known_states(states[1:], states["seat"][1:], 1)
    with pytest.raises(ValueError, match="state 1 is concealed"):
        new_positions(states)
    finished = game.new_state(GameConfig("mini3"))
    while not game.is_over(finished[0]):
        if not game.can_place(finished[0]):
            game.draw(finished[0], int(np.flatnonzero(finished[0].unrevealed)[0]) - 4)
        game.place(finished[0], game.legal_actions(finished[0])[0])
    with pytest.raises(ValueError, match="state 0 is finished"):
        new_positions(finished)
