"""The Gymnasium environments: the same games as the SB3 vector env plays, told in Gymnasium's way."""

import copy
import pickle
import threading

import gymnasium
import numpy as np
import pytest
from conftest import ALL_FORMS, STANDARD_FORMS, answer_of_child, form_id
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from isis_env import GameConfig
from isis_env.envs.single import IsisOsirisSingleEnv
from isis_env.envs.vector import IsisOsirisVectorEnv
from isis_env.game import IllegalActionError
from isis_env.kernels.threads import MIN_ROWS
from isis_env.learner_batch import LearnerBatch
from isis_env.policy import make_agent
from isis_env.render.text import render_text

OPPONENTS = ["random", "greedy"]


class FarSighted:
    """An agent that is asked, unlike the built-in ones; likes high actions."""

    recall = 1

    def act(self, decisions):
        return np.array([np.flatnonzero(mask)[-1] for mask in decisions.action_masks])


def choose(masks, salt=0):
    """A legal action per row that depends on nothing but the mask and the step."""
    return np.array([(legal := np.flatnonzero(mask))[salt % len(legal)] for mask in masks])


@pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
def test_the_same_games_as_the_sb3_vector_env(config):
    sb3 = pytest.importorskip("isis_env.envs.sb3")
    agents = [make_agent("random"), FarSighted(), make_agent("greedy")]
    ours = IsisOsirisVectorEnv(5, opponents=["random", agents[1], "greedy"], config=config, reward="margin")
    theirs = sb3.IsisOsirisVecEnv(config, 5, opponents=agents, reward="margin", seed=3)
    seen, infos = ours.reset(seed=3)
    assert infos == {}
    observations = theirs.reset()
    ends = 0
    for step in range(150):
        assert (seen["observation"] == observations).all()
        masks = theirs.env_method("action_masks")
        assert (seen["action_mask"] == masks).all()
        actions = choose(masks, step)
        seen, rewards, terminated, truncated, infos = ours.step(actions)
        observations, their_rewards, dones, their_infos = theirs.step(actions)
        assert (rewards == their_rewards).all()
        assert rewards.dtype == np.float64
        assert (terminated == dones).all()
        assert not truncated.any()
        assert bool(infos) == dones.any()
        if not infos:
            continue
        ends += dones.sum()
        final = infos["final_info"]
        for mask in (infos["_final_obs"], infos["_final_info"], *(final[key] for key in final if key[0] == "_")):
            assert (mask == dones).all()
        for row, info in enumerate(their_infos):
            if not dones[row]:
                assert infos["final_obs"][row] is None
                continue
            assert (infos["final_obs"][row]["observation"] == info["terminal_observation"]).all()
            assert not infos["final_obs"][row]["action_mask"].any()
            assert final["episode"]["r"][row] == np.float32(info["episode"]["r"]) == np.float32(rewards[row])
            assert final["episode"]["l"][row] == info["episode"]["l"]
            assert final["win_share"][row] == info["win_share"]
            assert [index for index in final["opponents"][row] if index >= 0] == info["opponents"]
    assert ends >= 5


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_single_game_is_row_0_of_many(players):
    config = GameConfig(players=players)
    many = IsisOsirisVectorEnv(3, opponents=OPPONENTS, config=config, recall=2)
    one = IsisOsirisSingleEnv(opponents=OPPONENTS, config=config, recall=2)
    seen, _ = many.reset(seed=11)
    alone, info = one.reset(seed=11)
    assert info == {}
    for step in range(200):
        assert (alone["observation"] == seen["observation"][0]).all()
        assert (alone["action_mask"] == seen["action_mask"][0]).all()
        assert one.observation_space.contains(alone)
        assert (one.action_masks() == alone["action_mask"]).all()
        actions = choose(seen["action_mask"], step)
        seen, rewards, done, _, infos = many.step(actions)
        alone, reward, terminated, truncated, info = one.step(actions[0])
        assert (reward, terminated, truncated) == (rewards[0], done[0], False)
        if terminated:
            assert (alone["observation"] == infos["final_obs"][0]["observation"]).all()
            assert info["win_share"] == infos["final_info"]["win_share"][0]
            with pytest.raises(gymnasium.error.ResetNeeded):
                one.step(0)
            alone, _ = one.reset()


def test_built_in_opponents_choose_in_the_kernel_what_they_choose_when_asked():
    class Asked:
        def __init__(self, spec):
            self.agent = make_agent(spec)
            self.recall = self.agent.recall

        def act(self, decisions):
            return self.agent.act(decisions)

    specs = ["random", "uniform", "greedy"]
    envs = [
        LearnerBatch(STANDARD_FORMS, opponents=o, reward="margin") for o in (specs, [Asked(spec) for spec in specs])
    ]
    steps = [env.reset(5) for env in envs]
    for turn in range(100):
        for field in ("observations", "action_masks", "rewards", "done"):
            assert (getattr(steps[0], field) == getattr(steps[1], field)).all()
        for one, other in zip(steps[0].ended, steps[1].ended, strict=True):
            assert (one == other).all()
        steps = [env.step(choose(step.action_masks, turn)) for env, step in zip(envs, steps, strict=True)]


@pytest.mark.parametrize("config", STANDARD_FORMS, ids=form_id)
@pytest.mark.parametrize("reward", ["win", "margin"])
def test_an_illegal_action_is_an_error_or_loses(config, reward):
    env = IsisOsirisVectorEnv(4, config=config, reward=reward)
    seen, _ = env.reset(seed=0)
    taken = int(choose(seen["action_mask"])[2])
    seen, *_ = env.step(choose(seen["action_mask"]))
    actions = choose(seen["action_mask"])
    before = {key: array.copy() for key, array in env.games.snapshot().items()}
    actions[2] = taken
    with pytest.raises(IllegalActionError, match=f"row 2: action {taken} .* legal are"):
        env.step(actions)
    for key, array in env.games.snapshot().items():
        assert (array == before[key]).all(), key

    env = IsisOsirisVectorEnv(4, config=config, reward=reward, illegal="lose")
    env.reset(seed=0)
    seen, rewards, done, _, infos = env.step(np.array([-1, 0, 99, 0]))
    assert done.tolist() == [True, False, True, False]
    assert rewards.tolist() == [-139.0 if reward == "margin" else -1.0, 0, -139.0 if reward == "margin" else -1.0, 0]
    assert infos["final_info"]["win_share"].tolist() == [0, 0, 0, 0]
    assert seen["action_mask"].any(axis=1).all()


def test_an_opponents_illegal_action_is_an_error_always():
    class Wild(FarSighted):
        def act(self, decisions):
            return np.full(len(decisions), 99)

    env = IsisOsirisVectorEnv(4, opponents=[Wild()], illegal="lose")
    with pytest.raises(IllegalActionError, match=r"an opponent's choice: row \d: action 99"):
        env.reset(seed=0)


def test_a_step_that_an_opponent_breaks_off_is_not_gone_on_from():
    """Or the learner's next actions would be taken for its opponents."""

    class Fragile(FarSighted):
        def act(self, decisions):
            if self.broken:
                raise KeyboardInterrupt
            return super().act(decisions)

    opponent = Fragile()
    opponent.broken = False
    env = IsisOsirisVectorEnv(4, opponents=[opponent])
    seen, _ = env.reset(seed=0)
    kept = env.games.snapshot()
    actions = seen["action_mask"].argmax(axis=1)
    expected = IsisOsirisVectorEnv(4, opponents=[opponent])
    expected.reset(seed=0)
    opponent.broken = True
    with pytest.raises(KeyboardInterrupt):
        env.step(actions)
    opponent.broken = False
    for call in (lambda: env.step(actions), env.games.look, env.games.snapshot):
        with pytest.raises(RuntimeError, match=r"left unfinished when an opponent failed: call reset\(\) or restore"):
            call()
    env.games.restore(kept)
    assert np.array_equal(env.step(actions)[0]["observation"], expected.step(actions)[0]["observation"])
    opponent.broken = True
    with pytest.raises(KeyboardInterrupt):
        env.step(expected.games.look().action_masks.argmax(axis=1))
    opponent.broken = False
    env.reset()
    env.step(env.games.look().action_masks.argmax(axis=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learner": np.zeros(3, np.int64)}, r"learner of shape \(3,\)"),
        ({"learner": np.full(4, 7)}, r"learner=\[7, 7, 7, 7\]: must be on turn"),
        ({"opponent": np.full((4, 4), 2)}, "opponent 2: must be the index of one of 2 opponents"),
        ({"length": None}, "length None: must be of shape"),
        ({"decks": np.zeros((4, 22), np.int8)}, "row 0: its deck does not lead"),
    ],
)
def test_a_snapshot_that_is_none_is_refused(change, message):
    env = IsisOsirisVectorEnv(4, opponents=["random", "greedy"])
    env.reset(seed=0)
    before = env.games.snapshot()
    with pytest.raises(ValueError, match=message):
        env.games.restore({**before, **change})
    for name, array in env.games.snapshot().items():
        assert np.array_equal(array, before[name]), name


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"opponents": "greedy"}, "opponents='greedy': must be a sequence"),
        ({"opponents": []}, r"opponents=\[\]: must be a sequence of at least one agent"),
        ({"opponents": 5}, "opponents=5: must be a sequence"),
        ({"opponents": [None]}, "opponents: None must be an agent's spec, or have `recall`"),
        ({"shares": ["a"]}, r"shares=\['a'\]: must be 1 finite"),
        ({"opponents": ["greedy"] * 2, "shares": [1e308, 1e308]}, "must be 2 finite"),
        ({"opponents": ["gready"]}, "'gready' must be one of"),
        ({"num_envs": 0}, "num_envs=0: must be an integer >= 1"),
        ({"num_envs": 3, "config": [GameConfig()] * 2}, "num_envs=3: must be the number of configs, 2"),
        ({"recall": 0}, "recall=0"),
        ({"reward": "points"}, "reward='points'"),
        ({"illegal": "ignore"}, "illegal='ignore'"),
        ({"shares": [1, 2]}, r"shares=\[1, 2\]: must be 1 finite"),
    ],
)
def test_wrong_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        IsisOsirisVectorEnv(**kwargs)


def test_wrong_calls():
    env = IsisOsirisVectorEnv(2)
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.step(np.zeros(2, int))
    env.reset(seed=1)
    for actions in (np.zeros(3, int), np.zeros(2), 0):
        with pytest.raises(TypeError, match="must be 2 integers"):
            env.step(actions)
    with pytest.warns(UserWarning, match="'deck' ignored"):
        env.reset(options={"deck": 1})
    one = IsisOsirisSingleEnv()
    for call in (one.action_masks, one.render, lambda: one.step(0)):
        with pytest.raises(gymnasium.error.ResetNeeded):
            call()
    one.reset(seed=1)
    for action in (1.5, "3", [0, 1]):
        with pytest.raises(TypeError, match="must be 1 integers"):
            one.step(action)


@pytest.mark.filterwarnings("ignore:.*render modes.*")
def test_gymnasiums_own_check():
    check_env(gymnasium.make("isis_env/IsisOsiris-v0", illegal="lose").unwrapped, skip_render_check=True)


def test_made_by_name_and_wrapped():
    env = gymnasium.make_vec("isis_env/IsisOsiris-v0", num_envs=6, opponents=["greedy"])
    assert isinstance(env.unwrapped, IsisOsirisVectorEnv)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    env = RecordEpisodeStatistics(env)
    seen, _ = env.reset(seed=0)
    ends = 0
    for step in range(80):
        assert env.observation_space.contains(seen)
        seen, rewards, done, _, infos = env.step(choose(seen["action_mask"], step))
        ends += done.sum()
        if done.any():
            assert (infos["episode"]["r"] == rewards).all()
    assert ends


def test_arrays_are_fresh():
    env = IsisOsirisVectorEnv(3)
    seen, _ = env.reset(seed=0)
    kept = [seen]
    for step in range(40):
        copies = copy.deepcopy(kept)
        seen, *_ = env.step(choose(seen["action_mask"], step))
        for one, other in zip(kept, copies, strict=True):
            assert all((one[key] == other[key]).all() for key in one)
        kept.append(seen)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_play_on_identically(duplicate):
    for env in (IsisOsirisVectorEnv(3, opponents=OPPONENTS), IsisOsirisSingleEnv(opponents=OPPONENTS)):
        seen, _ = env.reset(seed=4)
        for _ in range(10):
            seen, *_ = env.step(choose(np.atleast_2d(seen["action_mask"])))
        twin = duplicate(env)
        for step in range(12):
            actions = choose(np.atleast_2d(seen["action_mask"]), step)
            other, *_ = twin.step(actions)
            seen, *_ = env.step(actions)
            assert all((seen[key] == other[key]).all() for key in seen)


def test_rendering_shows_what_the_learner_may_know():
    env = IsisOsirisSingleEnv(recall=1, render_mode="ansi")
    seen, _ = env.reset(seed=0)
    terminated, pictures = False, []
    while not terminated:
        pictures.append(env.render())
        seen, _, terminated, _, _ = env.step(choose(seen["action_mask"][None], -1)[0])
    tiles = [picture.count("[") for picture in pictures]
    faces = [picture.count("[+") + picture.count("[-") for picture in pictures]
    assert max(tiles) > 10
    assert max(faces) < 6, "those that were placed since its own last turn, and the one in hand"
    assert env.render() == render_text(env.games.batch.final_states[0], ended=True)
    with pytest.raises(ValueError, match="render_mode='human'"):
        IsisOsirisSingleEnv(render_mode="human")


def _play(env, seen):
    total = 0.0
    for step in range(30):
        seen, rewards, *_ = env.step(choose(seen["action_mask"], step))
        total += rewards.sum() + seen["observation"].sum()
    return total


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_works_in_child_processes_of_a_parent_that_has_used_torch(method):
    torch = pytest.importorskip("torch")
    env = IsisOsirisVectorEnv(3 * MIN_ROWS, config=GameConfig("mini4"), threads=3)
    seen, _ = env.reset(seed=8)
    for step in range(5):
        seen, *_ = env.step(choose(seen["action_mask"], step))
        torch.ones(500, 500) @ torch.ones(500, 500)
    assert answer_of_child(method, _play, env, seen, seconds=100) == _play(env, seen)


@pytest.mark.slow
def test_single_environments_in_processes_of_gymnasium():
    env = AsyncVectorEnv([IsisOsirisSingleEnv] * 2, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)
    try:
        seen, _ = env.reset(seed=[1, 2])
        for step in range(40):
            seen, *_ = env.step(choose(seen["action_mask"], step))
    finally:
        env.close()


@pytest.mark.slow
def test_many_environments_in_threads_of_the_program():
    totals = {}

    def work(name):
        env = IsisOsirisVectorEnv(2 * MIN_ROWS, config=GameConfig("mini3"), threads=2)
        seen, _ = env.reset(seed=1)
        totals[name] = _play(env, seen)

    callers = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(set(totals.values())) == 1
    assert len(totals) == 3
