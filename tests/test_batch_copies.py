"""Copies, child processes and snapshots of the batch engine."""

import copy
import pickle

import numpy as np
import pytest
from batch_play import BIG, MIXED, contents, digest, random_actions
from conftest import ALL_FORMS, answer_of_child, form_id

from isis_env import GameConfig
from isis_env.batch import Batch
from isis_env.game import STATE


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_copies_play_on_identically(duplicate):
    batch = Batch(MIXED, recall=2, reward="margin")
    turn = batch.reset(seed=6, deck=[config.faces for config in MIXED])  # a deck that the seeds do not tell
    rng = np.random.default_rng(7)
    for _ in range(29):
        turn = batch.step(random_actions(turn, rng))
    assert len(set(batch.states["held"].tolist())) > 2, "some rows should be in mid-draw"
    before = contents(batch)
    twin = duplicate(batch)
    seen = digest(twin, turn, 100)
    assert contents(batch) == before, "the copy shares memory with the batch"
    assert digest(batch, turn, 100) == seen
    assert contents(twin) == contents(batch)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_works_in_child_processes(method):
    """In a child of a parent whose threads have been at work already."""
    batch = Batch(GameConfig("mini4"), BIG, threads=3)
    turn = batch.reset(seed=8)
    for _ in range(5):
        turn = batch.step(random_actions(turn, np.random.default_rng(0)))
    assert answer_of_child(method, digest, batch, turn, 30) == digest(batch, turn, 30)


def test_a_snapshot_restores_the_games_and_one_of_other_settings_is_refused():
    batch = Batch(GameConfig(players=3), 5)
    turn = batch.reset(3)
    for _ in range(7):
        turn = batch.step(turn.action_masks.argmax(axis=1))
    other = Batch(GameConfig(players=3), 5)
    other.restore(batch.snapshot())
    for _ in range(100):  # through the ends of games and into the next
        actions = turn.action_masks.argmax(axis=1)
        turn, again = batch.step(actions), other.step(actions)
        for ours, theirs in zip(turn, again, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    for config, n in ((GameConfig(players=2), 5), (GameConfig("standard", 3, True), 5), (GameConfig("mini3"), 5)):
        with pytest.raises(ValueError, match="states of another"):
            Batch(config, n).restore(batch.snapshot())
    with pytest.raises(ValueError, match="states of shape"):
        Batch(GameConfig(players=3), 4).restore(batch.snapshot())


def edited(name, value):
    def edit(arrays):
        arrays[name] = value(arrays[name])
        return arrays

    return edit


def with_field(name, value):
    """The states of a snapshot after a change of one field of row 2."""

    def edit(raw):
        states = raw.copy().view(STATE).reshape(len(raw))
        states[name][2] = value
        return states.view(np.uint8).reshape(raw.shape)

    return edited("states", edit)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda arrays: {name: array for name, array in arrays.items() if name != "decks"}, "decks None: must be of"),
        (edited("decks", lambda decks: 5), "decks 5: must be of"),
        (edited("decks", lambda decks: decks.astype(float)), "decks of shape .* type float64: must be"),
        (edited("decks", lambda decks: decks[:, ::-1]), "row 0: its deck does not lead to its state"),
        (edited("decks", lambda decks: np.full_like(decks, 9)), "row 0: its deck does not lead to its state"),
        (edited("seeds", lambda seeds: seeds[:-1]), r"seeds of shape \(3,\)"),
        (edited("episodes", lambda episodes: episodes.astype(np.int64)), "type int64: must be"),
        (with_field("seat", 77), "row 2: its deck does not lead to its state"),
        (with_field("start", -3), "row 2: its deck"),
        (with_field("placed", 100), "row 2: its deck"),
        (with_field("order", 99), "row 2: its deck"),
        (with_field("held", 4), "row 2: its deck"),
        (with_field("unrevealed", 0), "row 2: its deck"),
    ],
)
def test_a_snapshot_that_is_none_is_refused(edit, message):
    batch = Batch(GameConfig(), 4)
    turn = batch.reset(0)
    for _ in range(21):
        turn = batch.step(turn.action_masks.argmax(axis=1))
    before = contents(batch)
    with pytest.raises(ValueError, match=message):
        batch.restore(edit(batch.snapshot()))
    assert contents(batch) == before


@pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
def test_any_position_of_a_game_can_be_restored(config):
    batch, again = Batch(config, 30), Batch(config, 30)
    turn = batch.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(80):
        drawing = (turn.action_masks[:, -1] == 1) & (rng.random(30) < 0.5)
        turn = batch.step(np.where(drawing, batch.num_actions - 1, turn.action_masks.argmax(axis=1)))
        again.restore(batch.snapshot())
        assert contents(again)[0] == contents(batch)[0]
