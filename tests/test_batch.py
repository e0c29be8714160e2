"""The batch engine: row by row what the AEC environment plays; errors, copies, threads, and what agents are given."""

import copy
import hashlib
import pickle
import random
from collections import Counter

import numpy as np
import pytest
from conftest import ALL_FORMS, STANDARD_FORMS, answer_of_child, form_id, random_deal
from naive import NaiveGame

from isis_env import GameConfig, game, isis_osiris_v0
from isis_env.batch import Batch, TimeStep
from isis_env.game import EMPTY, NOTHING, STATE, TILE, UNKNOWN, IllegalActionError
from isis_env.kernels.threads import MIN_ROWS

MIXED = [STANDARD_FORMS[i] for i in (0, 3, 4, 1, 2, 5)] * 3
DRAW = 36  # on the standard board
BIG = 3 * MIN_ROWS  # rows enough for three threads to share the work


def aec(config, **settings):
    return isis_osiris_v0.env(config.players, config.common_reserve, config.board, **settings)


def aec_envs(configs, seeds, **settings):
    envs = [aec(config, **settings) for config in configs]
    for env, seed in zip(envs, seeds, strict=True):
        env.reset(seed=seed)
    return dict(enumerate(envs))


def random_actions(turn, rng):
    """Legal actions; even seats like stones and odd ones tiles, so that common reserves leave seats stuck."""
    weights = turn.action_masks * rng.random(turn.action_masks.shape)
    weights[:, -1] *= np.where(turn.seats % 2, 30.0, 0.1)
    return weights.argmax(axis=1)


def assert_same_view(turn, index, env):
    agent = env.agent_selection
    view = env.observe(agent)
    assert agent == f"player_{turn.seats[index]}"
    np.testing.assert_array_equal(turn.action_masks[index], view["action_mask"])
    np.testing.assert_array_equal(turn.observations[index], view["observation"])


def play_beside(batch, turn, envs, steps, seed=0):
    """Random decisions in all rows; those with an AEC env (row -> env at the same point) must agree after each.

    Returns how many games ended and how many turns were skipped in the rows that were compared.
    """
    rng = np.random.default_rng(seed)
    ended = skips = 0
    for row, env in envs.items():
        assert_same_view(turn, row, env)
    for _ in range(steps):
        actions = random_actions(turn, rng)
        turn = batch.step(actions)
        assert turn.rewards.dtype == np.float64
        assert turn.observations.dtype == np.float32
        assert turn.action_masks.dtype == np.int8
        for row, env in envs.items():
            env.step(actions[row])
            over = all(env.terminations.values())
            assert turn.done[row] == over
            np.testing.assert_array_equal(turn.rewards[row], [*env.rewards.values()] + [0] * (4 - env.config.players))
            if over:
                final = batch.final_states[row]
                assert game.is_over(final)
                assert game.scores(final) == env.scores()
                assert game.skipped(final) == env.skipped
                assert not batch.forfeited[row]
                ended += 1
                skips += len(env.skipped)
                env.reset()
            assert_same_view(turn, row, env)
    return ended, skips


def contents(batch):
    """Every array of a batch that tells how its games stand, as bytes."""
    arrays = (batch.states, batch.final_states, batch.forfeited, batch.seeds, batch.episodes)
    return [array.tobytes() for array in arrays]


def digest(batch, turn, steps, seed=0):
    """A hash of everything that happens in the next random steps."""
    rng = np.random.default_rng(seed)
    seen = hashlib.sha256()
    for _ in range(steps):
        turn = batch.step(random_actions(turn, rng))
        for array in (*turn, batch.final_states[turn.done]):
            seen.update(array.tobytes())
    return seen.hexdigest()


# The same games as the AEC environment


@pytest.mark.parametrize("reward", ["win", "margin"])
@pytest.mark.parametrize("recall", [1, 2, "full"])
@pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
def test_rows_equal_aec_games(config, recall, reward):
    """Seats, masks, observations and returns of three episodes and of what follows after auto-reset."""
    batch = Batch(config, 3, recall=recall, reward=reward)
    envs = aec_envs([config] * 3, range(40, 43), recall=recall, reward=reward)
    ended, skips = play_beside(batch, batch.reset(seed=40), envs, 3 * 58)
    assert ended >= 9
    assert (skips > 0) == config.common_reserve  # stuck seats were among it


@pytest.mark.parametrize("num_games", [1, 7, 1000, BIG])
def test_batch_size_and_threads_change_nothing(num_games):
    config = GameConfig("standard", 3, common_reserve=True)
    seen = set()
    for threads in (1, 2, 3):
        batch = Batch(config, num_games, recall=1, threads=threads)
        seen.add(digest(batch, batch.reset(seed=5), 70, seed=num_games))
    assert len(seen) == 1, "the number of threads changes the games"

    batch = Batch(config, num_games, recall=1, threads=3)
    envs = {}
    for row in {0, num_games // 3, num_games // 2, num_games - 1}:
        envs[row] = aec(config, recall=1)
        envs[row].reset(seed=5 + row)
    ended, _ = play_beside(batch, batch.reset(seed=5), envs, 70, seed=num_games)
    assert ended == len(envs)


def test_rows_may_differ_in_players_and_variant():
    batch = Batch(MIXED, recall=2, reward="margin")
    envs = aec_envs(MIXED, range(9, 9 + len(MIXED)), recall=2, reward="margin")
    ended, skips = play_beside(batch, batch.reset(seed=9), envs, 2 * 58)
    assert ended >= 2 * len(MIXED)
    assert skips > 0


def test_reset_without_seed_is_the_next_episode():
    batch = Batch(GameConfig(), 2, recall=1)
    batch.reset(seed=0)  # seed 0 is a seed like any other
    envs = aec_envs([GameConfig()] * 2, [0, 1])
    for env in envs.values():
        env.reset()
    play_beside(batch, batch.reset(), envs, 60)
    assert batch.episodes.tolist() == [2, 2]


def test_first_reset_without_seed_is_fresh():
    seeds = []
    for _ in range(2):
        batch = Batch(GameConfig("mini3"), 2)
        batch.reset()
        seeds += batch.seeds.tolist()
    assert len(set(seeds)) == 4


# What reset may be told


def test_seeds_and_episodes_per_row():
    seeds, episodes = [7, 2**64 - 1, 7, 0], [3, 1, 0, 2]
    batch = Batch(GameConfig("mini4"), 4, recall=1)
    envs = aec_envs(batch.configs, seeds)
    for env, episode in zip(envs.values(), episodes, strict=True):
        for _ in range(episode):
            env.reset()
    play_beside(batch, batch.reset(seed=seeds, episode=np.array(episodes)), envs, 60)


def test_one_episode_number_for_all_rows():
    batch = Batch(GameConfig("mini4"), 2, recall=1)
    envs = aec_envs(batch.configs, [11, 12])
    for env in envs.values():
        env.reset()
    play_beside(batch, batch.reset(seed=11, episode=1), envs, 30)


@pytest.mark.parametrize("overrides", [("start_player",), ("deck",), ("start_player", "deck")], ids="+".join)
def test_overrides_last_one_episode(overrides):
    rng = np.random.default_rng(1)
    given = {
        "start_player": [config.players - 1 - row % 2 for row, config in enumerate(MIXED)],
        "deck": np.array([rng.permutation(config.faces) for config in MIXED]),
    }
    given = {key: given[key] for key in overrides}
    batch = Batch(MIXED, recall="full")
    envs = aec_envs(MIXED, range(len(MIXED)), recall="full")
    for row, env in envs.items():
        env.reset(seed=row, options={key: values[row] for key, values in given.items()})
    ended, _ = play_beside(batch, batch.reset(seed=0, **given), envs, 2 * 58)
    assert ended >= 2 * len(MIXED)


# Illegal actions


@pytest.mark.parametrize("bad", [-1, 0, DRAW, DRAW + 1, 2**40, -(2**63)])
@pytest.mark.parametrize("subset", [False, True])
def test_illegal_action_raises_and_no_row_changes(bad, subset):
    batch = Batch(MIXED)
    turn = batch.reset(seed=3)
    batch.step(np.zeros(len(MIXED), int))  # a stone on cell 0 in every row
    turn = batch.step(np.full(len(MIXED), DRAW))  # so 0 is not free, and who holds a tile cannot draw
    rows = np.arange(len(MIXED))[::-2] if subset else np.arange(len(MIXED))
    actions = random_actions(turn, np.random.default_rng(0))[rows]
    index = 4
    actions[index] = bad
    out = TimeStep(*(np.full_like(array[rows], 1) for array in turn))
    before, untouched = contents(batch), copy.deepcopy(out)
    with pytest.raises(IllegalActionError) as caught:
        batch.step(actions, rows if subset else None, out)
    message = str(caught.value)
    legal = np.flatnonzero(turn.action_masks[rows[index]]).tolist()
    assert f"row {rows[index]}:" in message
    assert f"action {bad} " in message
    assert str(legal) in message
    assert "\n" not in message
    assert contents(batch) == before, "an action was applied although another was illegal"
    for array, same in zip(out, untouched, strict=True):
        np.testing.assert_array_equal(array, same)
    assert digest(batch, turn, 60) == digest(*replayed(), 60), "the games go on otherwise than without the error"


def replayed():
    """The batch of the test above without the illegal action."""
    batch = Batch(MIXED)
    batch.reset(seed=3)
    batch.step(np.zeros(len(MIXED), int))
    return batch, batch.step(np.full(len(MIXED), DRAW))


@pytest.mark.parametrize("bad", [-3, 0, DRAW + 1])
@pytest.mark.parametrize("reward", ["win", "margin"])
def test_illegal_action_loses_its_own_game_only(reward, bad):
    batch = Batch(MIXED, recall=1, reward=reward, illegal="lose")
    envs = aec_envs(MIXED, range(len(MIXED)), recall=1, reward=reward, illegal="lose")
    batch.reset(seed=0)
    turn = batch.step(np.zeros(len(MIXED), int))
    actions = random_actions(turn, np.random.default_rng(0))
    offending = np.arange(len(MIXED)) % 3 == 0
    actions[offending] = bad
    before = batch.states.copy()
    turn = batch.step(actions)

    np.testing.assert_array_equal(turn.done, offending)
    np.testing.assert_array_equal(batch.forfeited, offending)
    np.testing.assert_array_equal(batch.final_states[offending], before[offending])  # the action is not applied
    for row, env in envs.items():
        env.step(0)
        env.step(int(actions[row]))
        np.testing.assert_array_equal(turn.rewards[row], [*env.rewards.values()] + [0] * (4 - env.config.players))
        if offending[row]:
            env.reset()
    play_beside(batch, turn, envs, 60)  # next games are not poisoned, and the flag goes with the next end
    assert not batch.forfeited.any()


# Some rows, given arrays


def test_stepping_some_rows_in_any_order():
    together, apart = Batch(MIXED, recall=1), Batch(MIXED, recall=1)
    turn = together.reset(seed=2)
    apart.reset(seed=2)
    rng = np.random.default_rng(3)
    for _ in range(60):
        actions = random_actions(turn, rng)
        turn = together.step(actions)
        left, right = np.array_split(rng.permutation(len(MIXED)), 2)
        for rows in (left, right):
            before = apart.states.copy()
            part = apart.step(actions[rows], rows)
            for array, whole in zip(part, turn, strict=True):
                np.testing.assert_array_equal(array, whole[rows])
            others = np.setdiff1d(np.arange(len(MIXED)), rows)
            np.testing.assert_array_equal(apart.states[others], before[others])
        assert contents(apart) == contents(together)


def test_no_rows_is_no_step():
    batch = Batch(GameConfig(), 3)
    batch.reset(seed=0)
    before = contents(batch)
    turn = batch.step(np.empty(0, int), np.empty(0, int))
    assert [len(array) for array in turn] == [0] * 5
    assert len(batch.decisions(np.empty(0, int))) == 0
    assert contents(batch) == before


def test_out_is_what_is_written():
    batch, twin = Batch(MIXED), Batch(MIXED)
    turn = batch.reset(seed=4)
    twin.reset(seed=4)
    out = TimeStep(*(np.empty_like(array) for array in turn))
    rng = np.random.default_rng(5)
    for _ in range(60):
        actions = random_actions(turn, rng)
        turn = batch.step(actions)
        for array in out:
            array.fill(1)  # what an earlier step left must not show through
        returned = twin.step(actions, out=out)
        for given, back, fresh in zip(out, returned, turn, strict=True):
            assert back is given
            np.testing.assert_array_equal(given, fresh)


def test_arrays_are_fresh_without_out():
    batch = Batch(GameConfig("mini3"), 5)
    turns = [batch.reset(seed=0)]
    copies = [copy.deepcopy(turns[0])]
    for _ in range(20):
        turns.append(batch.step(random_actions(turns[-1], np.random.default_rng(0))))
        copies.append(copy.deepcopy(turns[-1]))
    for turn, kept in zip(turns, copies, strict=True):
        for array, as_it_was in zip(turn, kept, strict=True):
            np.testing.assert_array_equal(array, as_it_was)


def test_steps_from_lists_and_small_integers():
    batch, twin = Batch(GameConfig(), 2), Batch(GameConfig(), 2)
    batch.reset(seed=0)
    twin.reset(seed=0)
    batch.step([3, 4], rows=[1, 0])
    twin.step(np.array([4, 3], np.uint8))
    assert contents(batch) == contents(twin)


# Errors

BAD_SETTINGS = {
    "num_games=0": lambda: Batch(GameConfig(), 0),
    "num_games=-2": lambda: Batch(GameConfig(), -2),
    "num_games=1.5": lambda: Batch(GameConfig(), 1.5),
    "num_games=True": lambda: Batch(GameConfig(), True),
    "num_games=None": lambda: Batch(GameConfig()),
    "num_games=3": lambda: Batch([GameConfig()] * 2, 3),
    "config=None": lambda: Batch(None),
    "config='mini3'": lambda: Batch("mini3", 4),
    "config=4": lambda: Batch([GameConfig(), 4]),
    "0": lambda: Batch([]),
    "mini3, standard": lambda: Batch([GameConfig("mini3"), GameConfig()]),
    "recall=0": lambda: Batch(GameConfig(), 1, recall=0),
    "recall='all'": lambda: Batch(GameConfig(), 1, recall="all"),
    "reward='score'": lambda: Batch(GameConfig(), 1, reward="score"),
    "illegal='ignore'": lambda: Batch(GameConfig(), 1, illegal="ignore"),
    "threads=0": lambda: Batch(GameConfig(), 1, threads=0),
    "threads=2.0": lambda: Batch(GameConfig(), 1, threads=2.0),
}


@pytest.mark.parametrize("named", BAD_SETTINGS)
def test_wrong_settings(named):
    with pytest.raises((TypeError, ValueError)) as caught:
        BAD_SETTINGS[named]()
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


DECK = list(GameConfig().faces)
ONES = np.array([[1] * 22] * 3, np.int8)
BAD_CALLS = [  # (what the message must name, a call on a batch of a 2-, a 3- and a 4-player game)
    ("seed=-1", lambda b: b.reset(seed=-1)),
    ("out of type tuple", lambda b: b.step([0, 0, 0], out=tuple(b.look()))),
    ("out of type list", lambda b: b.step([0, 0, 0], out=[])),
    ("seed=1.5", lambda b: b.reset(seed=1.5)),
    ("seed=True", lambda b: b.reset(seed=True)),
    ("seed[0]='7'", lambda b: b.reset(seed="789")),
    ("18446744073709551616", lambda b: b.reset(seed=2**64 - 2)),  # would be the seed of the last row
    ("seed[1]=-5", lambda b: b.reset(seed=[1, -5, 3])),
    ("seed[2]=0.5", lambda b: b.reset(seed=[1, 2, 0.5])),
    ("seed: 2", lambda b: b.reset(seed=[1, 2])),
    ("episode=-1", lambda b: b.reset(seed=0, episode=-1)),
    ("episode=1.5", lambda b: b.reset(seed=0, episode=1.5)),
    ("episode[0]=-4", lambda b: b.reset(seed=0, episode=[-4, 0, 0])),
    ("start_player[0]=2", lambda b: b.reset(seed=0, start_player=[2, 2, 2])),
    ("start_player[2]=-1", lambda b: b.reset(seed=0, start_player=[0, 0, -1])),
    ("start_player=1", lambda b: b.reset(seed=0, start_player=1)),
    ("start_player: 4", lambda b: b.reset(seed=0, start_player=[0] * 4)),
    ("deck[1]=", lambda b: b.reset(seed=0, deck=[DECK, DECK[:-1], DECK])),
    ("deck[0]=", lambda b: b.reset(seed=0, deck=ONES)),
    ("deck: 1", lambda b: b.reset(seed=0, deck=[DECK])),
    ("(2,)", lambda b: b.step([0, 0])),
    ("()", lambda b: b.step(0)),
    ("(3, 1)", lambda b: b.step([[0], [0], [0]])),
    ("float64", lambda b: b.step([0.0, 1.0, 2.0])),
    ("bool", lambda b: b.step(np.ones(3, bool))),
    ("(1,)", lambda b: b.step([0], rows=[0, 1])),
    ("2", lambda b: b.step(0, rows=2)),
    ("3", lambda b: b.step([0, 0], rows=[0, 3])),
    ("-1", lambda b: b.step([0, 0], rows=[0, -1])),
    ("1", lambda b: b.step([0, 1], rows=[1, 1])),
    ("float", lambda b: b.step([0], rows=[0.5])),
    ("bool", lambda b: b.step([0, 1, 2], rows=[False, True, True])),
    ("2", lambda b: b.decisions(2)),
    ("3", lambda b: b.decisions([3])),
    ("-1", lambda b: b.decisions([-1])),
    ("float", lambda b: b.decisions([0.5])),
    ("recall=0", lambda b: b.decisions(recall=0)),
]


@pytest.mark.parametrize(("named", "call"), BAD_CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_arguments(named, call):
    batch = Batch(STANDARD_FORMS[::2])
    batch.reset(seed=5)
    before = contents(batch)
    with pytest.raises((TypeError, ValueError, IndexError)) as caught:
        call(batch)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(batch) == before


@pytest.mark.parametrize("field", TimeStep._fields)
@pytest.mark.parametrize("wrong", ["rows", "type", "axes"])
def test_out_that_does_not_fit(field, wrong):
    """Written to unchecked it would be memory of somebody else."""
    batch = Batch(GameConfig(), 3)
    out = copy.deepcopy(batch.reset(seed=0))
    array = getattr(out, field)
    unfit = {
        "rows": np.zeros((9, *array.shape[1:]), array.dtype)[:2],
        "type": array.astype(np.float32 if array.dtype == np.float64 else np.float64),
        "axes": array[0],
        "every other": np.repeat(array, 2, axis=-1)[..., ::2],
        "backwards": array[..., ::-1],
    }
    before = contents(batch)
    with pytest.raises((TypeError, ValueError)) as caught:
        batch.step([0, 1, 2], out=out._replace(**{field: unfit[wrong]}))
    assert field in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(batch) == before


def test_before_reset():
    batch = Batch(GameConfig(), 2)
    for call in (lambda: batch.step([0, 0]), batch.decisions):
        with pytest.raises(RuntimeError, match="reset"):
            call()


# Copies, other processes


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


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_works_in_child_processes(method):
    """In a child of a parent whose threads have been at work already."""
    batch = Batch(GameConfig("mini4"), BIG, threads=3)
    turn = batch.reset(seed=8)
    for _ in range(5):
        turn = batch.step(random_actions(turn, np.random.default_rng(0)))
    assert answer_of_child(method, digest, batch, turn, 30) == digest(batch, turn, 30)


# What agents are given


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
