"""Illegal actions and wrong arguments of the batch engine."""

import copy

import numpy as np
import pytest
from batch_play import DECK, DRAW, MIXED, aec_envs, contents, digest, play_beside, random_actions
from conftest import STANDARD_FORMS

from isis_env import GameConfig
from isis_env.batch import Batch, TimeStep
from isis_env.game import IllegalActionError


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
