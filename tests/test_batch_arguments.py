"""What a batch and a batch of learners refuse before anything is made or changed, and that copies share nothing."""

import copy

import numpy as np
import pytest

from isis_env import GameConfig
from isis_env.batch import Batch, TimeStep
from isis_env.envs.single import IsisOsirisSingleEnv
from isis_env.envs.vector import IsisOsirisVectorEnv
from isis_env.kernels.threads import check_threads, max_threads
from isis_env.learner_batch import LearnerBatch

MINI = GameConfig("mini3")


def learners(config=MINI, num_games=2, **settings):
    return LearnerBatch(config, num_games, **{"opponents": ["random"], **settings})


def one_line(caught):
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Sizes


@pytest.mark.parametrize("threads", [0, -1, 100_000, 2**70, True, np.True_, 1.0, "2", None])
@pytest.mark.parametrize("make", [Batch, learners, IsisOsirisVectorEnv], ids=lambda make: make.__name__)
def test_threads_that_no_machine_has(make, threads):
    if threads is None:  # the default
        threads = max_threads() + 1
    arguments = (2,) if make is IsisOsirisVectorEnv else (MINI, 2)
    with pytest.raises(ValueError, match="threads=") as caught:
        make(*arguments, threads=threads)
    assert str(threads) in one_line(caught)


def test_the_most_threads_work():
    assert check_threads(max_threads()) == max_threads()
    batch = Batch(MINI, 3, threads=max_threads())
    assert not batch.step(batch.reset(0).action_masks.argmax(axis=1)).done.any()


@pytest.mark.parametrize("count", [2**70, 10**12, np.int64(2**62)])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("num_games", lambda count: Batch(GameConfig(), count)),
        ("num_games", lambda count: learners(GameConfig(), count)),
        ("num_envs", lambda count: IsisOsirisVectorEnv(count, config=GameConfig())),
    ],
)
def test_more_games_than_memory_holds(name, make, count):
    with pytest.raises(
        ValueError, match=f"^{name}={count}: must be at most [0-9]+, .* memory that is available$"
    ) as caught:
        make(count)
    one_line(caught)


def test_the_memory_that_a_batch_is_said_to_need_is_about_what_it_takes(monkeypatch):
    needed = []
    monkeypatch.setattr("isis_env.batch_arguments.check_memory", lambda name, value, each: needed.append(value * each))
    batch = Batch(GameConfig(), 500)
    turn = batch.reset(0)
    own = (*batch.arrays, *turn, batch._all_rows)
    assert sum(array.nbytes for array in own) <= needed[0] <= 1.1 * sum(array.nbytes for array in own)


# Integers

NO_COUNTS = [True, np.True_, 1.0, np.float64(1), "1"]


@pytest.mark.parametrize("value", NO_COUNTS)
@pytest.mark.parametrize("config", [MINI, [MINI]], ids=["one", "each"])
@pytest.mark.parametrize("make", [Batch, learners], ids=lambda make: make.__name__)
def test_num_games_is_an_integer(make, config, value):
    with pytest.raises((TypeError, ValueError)) as caught:
        make(config, value)
    assert f"num_games={value!r}" in one_line(caught)


NO_INTEGERS = {
    "seed=": [lambda batch, value: batch.reset(value), lambda batch, value: batch.reset(seed=value)],
    "seed[1]=": [lambda batch, value: batch.reset([1, value])],
    "episode=": [lambda batch, value: batch.reset(0, value)],
    "episode[0]=": [lambda batch, value: batch.reset(0, [value, 0])],
    "start_player[0]=": [lambda batch, value: batch.reset(0, start_player=[value, 0])],
    "actions": [lambda batch, value: batch.step([value, value]), lambda batch, value: batch.step([3, value])],
    "rows": [lambda batch, value: batch.step([0], [value]), lambda batch, value: batch.step([0, 0], [0, value])],
}


@pytest.mark.parametrize("value", [True, np.True_, 1.0, np.float32(1)])
@pytest.mark.parametrize("named", NO_INTEGERS)
def test_bools_and_floats_are_no_integers(named, value):
    batch = Batch(MINI, 2)
    batch.reset(5)
    before = batch.states.copy()
    for call in NO_INTEGERS[named]:
        with pytest.raises((TypeError, ValueError)) as caught:
            call(batch, value)
        assert named in one_line(caught)
    assert (batch.states == before).all()


@pytest.mark.parametrize("actions", [[True, True], [3, True], [3, np.True_], [0.0, 1.0], np.ones(2)])
def test_a_learners_actions_are_integers(actions):
    games = learners()
    games.reset(0)
    with pytest.raises(TypeError, match="actions of shape"):
        games.step(actions)


@pytest.mark.parametrize(
    ("named", "settings"),
    [
        ("margin_weight=True", {"margin_weight": True}),
        ("margin_weight=nan", {"margin_weight": float("nan")}),
        ("shares=[True]", {"shares": [True]}),
        ("recall=True", {"recall": True}),
        ("recall=1.0", {"recall": 1.0}),
    ],
)
def test_other_settings_of_learners(named, settings):
    with pytest.raises((TypeError, ValueError)) as caught:
        learners(**settings)
    assert named in one_line(caught)


# Arrays to write to

UNFIT = {
    "empty": lambda array: np.empty((0, *array.shape[1:]), array.dtype),
    "too many rows": lambda array: np.zeros((9, *array.shape[1:]), array.dtype),
    "reshaped": lambda array: array.reshape(1, *array.shape),
    "of another type": lambda array: array.astype(np.uint16),
    "of another byte order": lambda array: array.astype(">f4") if array.itemsize > 1 else array[::-1],
    "read-only": lambda array: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape),
    "repeated": lambda array: np.broadcast_to(array[:1], array.shape),
    "strided": lambda array: np.repeat(array, 2, axis=0)[::2],
    "backwards": lambda array: array[::-1],
    "masked": np.ma.masked_array,
    "a list": lambda array: array.tolist(),
    "nothing": lambda array: None,
    "unaligned": lambda array: (
        np.frombuffer(bytearray(array.nbytes + 1), np.int8, array.nbytes, 1).view(array.dtype).reshape(array.shape)
        if array.itemsize > 1
        else array[::-1]
    ),
}


@pytest.mark.parametrize("unfit", UNFIT)
@pytest.mark.parametrize("field", TimeStep._fields)
def test_out_that_cannot_be_written(field, unfit):
    batch = Batch(GameConfig(), 3)
    out = copy.deepcopy(batch.reset(0))
    before = batch.states.copy()
    with pytest.raises(ValueError, match=f"out.{field} .*must be") as caught:
        batch.step([0, 1, 2], out=out._replace(**{field: UNFIT[unfit](getattr(out, field))}))
    one_line(caught)
    assert (batch.states == before).all()


def reshape(array):
    array.shape = (array.size,) if array.ndim > 1 else (1, array.size)


def make_read_only(array):
    array.flags.writeable = False


def retype(array):
    array.dtype = np.dtype(f"V{array.itemsize}")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("change", [reshape, make_read_only, retype], ids=lambda change: change.__name__)
@pytest.mark.parametrize("field", TimeStep._fields)
def test_out_that_is_changed_after_a_step_took_it(field, change):
    batch = Batch(GameConfig(), 3)
    out = copy.deepcopy(batch.reset(0))
    batch.step([0, 1, 2], out=out)
    before = batch.states.copy()
    change(getattr(out, field))
    with pytest.raises(ValueError, match=f"out.{field} of shape"):
        batch.step([3, 4, 5], out=out)
    assert (batch.states == before).all()


def test_out_of_another_number_of_rows_than_the_last_time():
    batch = Batch(MINI, 3)
    out = copy.deepcopy(batch.reset(0))
    batch.step([0, 1, 2], out=out)
    with pytest.raises(ValueError, match=r"out\.observations of shape"):
        batch.step([3, 4], [0, 1], out=out)


def test_arrays_of_out_that_overlap_each_other():
    batch = Batch(GameConfig(), 4)
    out = copy.deepcopy(batch.reset(0))
    room = np.zeros(out.rewards.nbytes)
    rewards, seats = room[:16].reshape(4, 4), room[12:16].view(np.int64)
    with pytest.raises(ValueError, match=r"out\.seats overlaps out\.rewards"):
        batch.step([0, 1, 2, 3], out=out._replace(rewards=rewards, seats=seats))


@pytest.mark.parametrize("own", ["seeds", "episodes", "forfeited"])
def test_arrays_of_out_that_are_the_batchs_own(own):
    batch = Batch(GameConfig(), 4)
    out = copy.deepcopy(batch.reset(0))
    field = {"seeds": "seats", "episodes": "seats", "forfeited": "done"}[own]
    array = getattr(batch, own).view(getattr(out, field).dtype)
    before = getattr(batch, own).copy()
    with pytest.raises(ValueError, match=f"out.{field} overlaps an array of the batch"):
        batch.step([0, 1, 2, 3], out=out._replace(**{field: array}))
    assert (getattr(batch, own) == before).all()


@pytest.mark.parametrize("own", ["states", "final_states"])
def test_arrays_of_out_that_lie_in_the_batchs_states(own):
    batch = Batch(GameConfig(), 200)
    out = copy.deepcopy(batch.reset(0))
    array = getattr(batch, own).view(np.bool_)[:200]
    with pytest.raises(ValueError, match=r"out\.done overlaps an array of the batch"):
        batch.step(np.arange(200) % 30, out=out._replace(done=array))


def test_actions_may_lie_in_the_arrays_that_are_written():
    """Threads would otherwise read as actions what others have written."""
    batch, twin = Batch(GameConfig(), 5000, threads=2), Batch(GameConfig(), 5000, threads=1)
    batch.reset(0)
    out = copy.deepcopy(twin.reset(0))
    for cell in range(16):  # the stones of two players
        actions = np.full(5000, cell)
        out.seats[:] = actions
        one, other = batch.step(actions), twin.step(out.seats, out=out)
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(one.seats, other.seats)


def test_two_buffers_by_turns():
    batch, twin = Batch(MINI, 3), Batch(MINI, 3)
    turn = batch.reset(0)
    buffers = [copy.deepcopy(twin.reset(0)) for _ in range(2)]
    for step in range(30):
        actions = turn.action_masks.argmax(axis=1)
        turn, written = batch.step(actions), twin.step(actions, out=buffers[step % 2])
        assert written is buffers[step % 2]
        for one, other in zip(turn, written, strict=True):
            np.testing.assert_array_equal(one, other)


# Copies


def step_batch(batch):
    batch.step(batch.look().action_masks.argmax(axis=1))
    return batch.states.tobytes()


def step_learners(games):
    return games.step(games.look().action_masks.argmax(axis=1)).observations.tobytes()


def step_vector(env):
    return step_learners(env.games)


def step_single(env):
    return env.step(int(env.action_masks().argmax()))[0]["observation"].tobytes()


def step_sb3(env):
    return env.step(env.action_masks().argmax(axis=1))[0].tobytes()


def sb3_env():
    return pytest.importorskip("isis_env.envs.sb3").IsisOsirisVecEnv(MINI, 2, opponents=["random"], seed=0)


@pytest.mark.parametrize(
    ("make", "step"),
    [
        (lambda: Batch(MINI, 2), step_batch),
        (learners, step_learners),
        (lambda: IsisOsirisVectorEnv(2, config=MINI, opponents=["random"]), step_vector),
        (lambda: IsisOsirisSingleEnv(config=MINI), step_single),
        (sb3_env, step_sb3),
    ],
    ids=["Batch", "LearnerBatch", "VectorEnv", "SingleEnv", "SB3"],
)
def test_a_copy_shares_nothing_with_its_original(make, step):
    original = make()
    original.reset() if step is step_sb3 else original.reset(seed=0)
    twin = copy.copy(original)
    seen = [step(twin) for _ in range(3)]
    assert [step(original) for _ in range(3)] == seen


def test_a_copy_does_not_carry_a_callers_buffers():
    batch = Batch(MINI, 2)
    out = copy.deepcopy(batch.reset(0))
    batch.step([0, 1], out=out)
    kept = [value for value in copy.copy(batch).__dict__.values() if isinstance(value, tuple) and value]
    assert not any(isinstance(part, TimeStep) for value in kept for part in value)
