"""What agents are given by the batch engine."""

import copy
import random
from collections import Counter

import numpy as np
import pytest
from batch_play import DECK, DRAW, MIXED, digest, random_actions
from conftest import ALL_FORMS, form_id, random_deal
from naive import NaiveGame

from isis_env import GameConfig, game
from isis_env.batch import Batch
from isis_env.game import EMPTY, NOTHING, TILE, UNKNOWN


@pytest.mark.parametrize("recall", [1, 2, "full"])
@pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
def test_decisions_hold_what_the_seat_may_know(config, recall):
    """Against the slow twin: under recall k only the faces in the window, no scores, no history; else everything."""
    rng = random.Random(1)
    decks, starts = zip(*[random_deal(config, rng) for _ in range(4)], strict=True)
    settings = config.board, config.players, config.common_reserve
    twins = [NaiveGame(*settings, deck, start) for deck, start in zip(decks, starts, strict=True)]
    batch = Batch(config, len(twins), recall=recall)
    turn = batch.reset(seed=0, start_player=starts, deck=decks)
    choices = np.random.default_rng(2)
    while not turn.done.any():
        decisions = batch.decisions(recall=recall)
        np.testing.assert_array_equal(decisions.observations, turn.observations)
        np.testing.assert_array_equal(decisions.action_masks, turn.action_masks)
        np.testing.assert_array_equal(decisions.seats, turn.seats)
        for twin, state in zip(twins, decisions.states, strict=True):
            assert_knows(state, twin, recall)
        if recall == "full":
            np.testing.assert_array_equal(decisions.states, batch.states)
        actions = random_actions(turn, choices)
        turn = batch.step(actions)
        for twin, action in zip(twins, actions.tolist(), strict=True):
            twin.step(action)
        over = [twin.over for twin in twins]
        assert turn.done.tolist() == over
        if any(over):  # games end at different decisions; the others need not go on
            for twin, final in zip(np.array(twins)[over], batch.final_states[over], strict=True):
                assert game.scores(final) == twin.scores()


def assert_knows(state, twin, recall):
    visible = twin.visible(twin.seat, recall)
    board, faces = [], []
    for cell, piece in enumerate(twin.board):
        kind, value = piece or ("nothing", NOTHING)
        board.append({"nothing": EMPTY, "stone": value, "tile": TILE}[kind])
        faces.append(visible.get(cell, UNKNOWN) if kind == "tile" else NOTHING)
    assert state.board[: twin.cells].tolist() == board
    assert state.face[: twin.cells].tolist() == faces
    assert state.seat == twin.seat
    assert state.held == (twin.held or NOTHING)
    assert state.stones[: twin.players].tolist() == twin.stones
    piles = [twin.reserve, 0, 0, 0] if twin.common_reserve else twin.tiles
    assert state.pile[: twin.players].tolist() == piles[: twin.players]

    unseen = Counter(twin.faces)
    unseen.subtract([*visible.values(), *([twin.held] if twin.held else [])])
    odds = np.empty(9)
    game.outcomes(state, odds)
    total = sum(unseen.values())
    np.testing.assert_allclose(odds, [unseen[face] / total if total else 0 for face in range(-4, 5)])

    placed = len(twin.history)
    scores, order = state.score[: twin.players].tolist(), state.order[:placed].tolist()
    placer = state.placer[:placed].tolist()
    if recall == "full":
        assert scores == twin.scores()
        assert list(zip(placer, order, strict=True)) == twin.history
    else:
        assert set(scores + order + placer) == {UNKNOWN}


def decisions_after(batch, actions, recall, **reset):
    batch.reset(seed=0, **reset)
    for action in actions:
        batch.step([action])
    return batch.decisions(recall=recall)


def same_decisions(one, two):
    return all(
        getattr(one, field).tobytes() == getattr(two, field).tobytes()
        for field in ("states", "observations", "action_masks", "seats", "games", "first", "seeds")
    )


def test_undrawn_and_forgotten_tiles_do_not_show():
    """Two tiles swap places in the deck: no difference while both are undrawn or, under recall 1, out of sight."""
    batch = Batch(GameConfig(), 1)
    deck = [4, -4, *sorted(set(DECK) - {4, -4}), *[1, 2, 2, 2, 2, 2, 3, -1, -2, -2, -2, -2, -2, -3]]
    swapped = [-4, 4, *deck[2:]]
    unlike = {"undrawn": [0, 1], "held": [DRAW], "shown": [DRAW, 0, 1, DRAW, 2], "gone": [DRAW, 0, 1, DRAW, 2, 3, 4, 5]}
    same = {}
    for moment, actions in unlike.items():
        for recall in (1, "full"):
            pair = [decisions_after(batch, actions, recall, start_player=[0], deck=[d]) for d in (deck, swapped)]
            same[moment, recall] = same_decisions(*pair)
    assert [key for key, value in same.items() if value] == [("undrawn", 1), ("undrawn", "full"), ("gone", 1)]


def test_first_is_true_once_per_seat_and_game():
    batch = Batch(MIXED)
    turn = batch.reset(seed=1)
    rng = np.random.default_rng(0)
    met = set()
    for _ in range(130):
        decisions = batch.decisions()
        for row, (seat, first) in enumerate(zip(decisions.seats, decisions.first, strict=True)):
            key = row, int(batch.episodes[row]), int(seat)
            assert first == (key not in met)
            met.add(key)
        turn = batch.step(random_actions(turn, rng))
    assert max(episode for _, episode, _ in met) == 2


def test_decision_seeds_are_fresh():
    batch = Batch(MIXED)
    turn = batch.reset(seed=1)
    rng = np.random.default_rng(0)
    seeds = []
    for _ in range(130):
        decisions = batch.decisions()
        assert decisions.seeds.dtype == np.uint64
        seeds += decisions.seeds.tolist()
        assert (batch.decisions().seeds == decisions.seeds).all()  # asking twice changes nothing
        turn = batch.step(random_actions(turn, rng))
    assert len(set(seeds)) == len(seeds)


def test_decision_seeds_come_from_seed_episode_seat_and_decision_alone():
    """Other neighbours, another row, other moves: the same seeds."""
    alone = Batch(GameConfig(players=3), 1)
    among = Batch(MIXED, recall=1, threads=2)
    row = 8
    assert among.configs[row].players == 4
    seeds = np.arange(100, 100 + len(MIXED))
    seeds[row] = 7
    alone.reset(seed=7, episode=2, start_player=[1])
    among.reset(seed=seeds, episode=2, start_player=[1] * len(MIXED))
    for decision in range(6):  # seats 1, 1, 2, 2, 0, 0 by drawing and placing; then the games part
        one, many = alone.decisions(), among.decisions()
        if decision < 4:
            assert one.seats[0] == many.seats[row]
            assert one.seeds[0] == many.seeds[row]
            assert one.seeds[0] not in np.delete(many.seeds, row)
        else:
            assert one.seats[0] != many.seats[row]
            assert one.seeds[0] != many.seeds[row]
        alone.step([DRAW if decision % 2 == 0 else decision])
        among.step([DRAW if decision % 2 == 0 else 20 + decision] * len(MIXED))


def test_decisions_of_some_rows_and_their_indexing():
    batch = Batch(MIXED, recall=1)
    turn = batch.reset(seed=1)
    for _ in range(20):
        turn = batch.step(random_actions(turn, np.random.default_rng(0)))
    rows = np.array([5, 2, 11])
    everything = batch.decisions(recall=2)
    assert len(everything) == len(MIXED)
    assert everything.games.tolist() == list(range(len(MIXED)))
    some = batch.decisions(rows, recall=2)
    assert len(some) == 3
    assert same_decisions(some, everything[rows])
    assert same_decisions(some[1:], everything[[2, 11]])
    assert same_decisions(everything[everything.games == 5], some[:1])


def test_agents_cannot_spoil_the_batch():
    batch = Batch(GameConfig(), 3)
    turn = batch.reset(seed=1)
    twin = copy.deepcopy(batch)
    decisions = batch.decisions()
    for array in (decisions.observations, decisions.action_masks, decisions.seats, decisions.games, decisions.seeds):
        array[:] = 0
    decisions.states["board"] = TILE
    assert batch.decisions().games.tolist() == [0, 1, 2]
    assert digest(batch, turn, 60) == digest(twin, turn, 60)
