"""PettingZoo wrappers: perfect memory equals full recall, and masks in infos are those of the observations."""

import copy
import pickle
import random

import numpy as np
import pytest
from conftest import ALL_FORMS, form_id
from pettingzoo.test import api_test, seed_test

from isis_env import isis_osiris_v0
from isis_env.envs.wrappers import MaskInInfo, PerfectMemory
from isis_env.observation import layout

every_form = pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda env: pickle.loads(pickle.dumps(env))}


def make(config, recall):
    return isis_osiris_v0.env(config.players, config.common_reserve, config.board, recall)


def legal_action(env, rng):
    """A random legal action of the agent on turn, a tile half of the time; looks past wrappers."""
    legal = np.flatnonzero(env.unwrapped.observe(env.agent_selection)["action_mask"]).tolist()
    return legal[-1] if rng.random() < 0.5 else rng.choice(legal)


def assert_same_view(seen, expected):
    for name, array in expected.items():
        assert seen[name].tobytes() == array.tobytes(), name


@every_form
@pytest.mark.parametrize("recall", [1, 3, "full"])
def test_perfect_memory_shows_what_full_recall_shows(config, recall):
    """At any moment and to any agent, whoever has looked before."""
    rng = random.Random(0)
    wrapped, full = PerfectMemory(make(config, recall)), make(config, "full")
    for game in range(5):
        wrapped.reset(seed=game)
        full.reset(seed=game)
        while wrapped.agents:
            for agent in rng.sample(full.possible_agents, rng.randrange(config.players + 1)):
                assert_same_view(wrapped.observe(agent), full.observe(agent))
            action = None if wrapped.terminations[wrapped.agent_selection] else legal_action(wrapped, rng)
            if rng.random() < 0.5:
                assert_same_view(wrapped.last()[0], full.last()[0])
            wrapped.step(action)
            full.step(action)
            assert wrapped.agents == full.agents


def test_a_memory_that_was_not_there_from_the_beginning_claims_no_counts():
    rng = random.Random(0)
    env = make(ALL_FORMS[0], 1)
    env.reset(seed=0)
    for _ in range(30):
        env.step(legal_action(env, rng))
    wrapped = PerfectMemory(env)
    memory_aids = [part.slice for part in layout().values() if part.memory]
    for _ in range(4):
        wrapped.step(legal_action(wrapped, rng))
        for agent in wrapped.agents:
            vector = wrapped.observe(agent)["observation"]
            assert all((vector[aid] == 0).all() for aid in memory_aids)


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_in_mid_game_remembers_and_plays_on_by_itself(how):
    rng = random.Random(0)
    env, full = PerfectMemory(make(ALL_FORMS[2], 1)), make(ALL_FORMS[2], "full")
    env.reset(seed=3)
    full.reset(seed=3)
    for _ in range(25):
        action = legal_action(env, rng)
        env.step(action)
        full.step(action)
    before = env.observe("player_1")
    twin = COPIES[how](env)
    for _ in range(12):
        action = legal_action(twin, rng)
        twin.step(action)
        full.step(action)
        assert_same_view(twin.last()[0], full.last()[0])
    assert_same_view(env.observe("player_1"), before)


@every_form
def test_masks_stand_in_infos(config):
    rng = random.Random(0)
    env, plain = MaskInInfo(make(config, 1)), make(config, 1)
    env.reset(seed=0)
    plain.reset(seed=0)
    while env.agents:
        for agent in env.agents:
            expected = plain.observe(agent)
            assert env.observation_space(agent).contains(env.observe(agent))
            assert env.observe(agent).tobytes() == expected["observation"].tobytes()
            assert env.infos[agent].keys() == {"action_mask"}
            assert env.infos[agent]["action_mask"].tobytes() == expected["action_mask"].tobytes()
        observation, reward, terminated, truncated, info = env.last()
        expected = plain.last()
        assert observation.tobytes() == expected[0]["observation"].tobytes()
        assert (reward, terminated, truncated) == expected[1:4]
        assert info["action_mask"].tobytes() == expected[0]["action_mask"].tobytes()
        action = None if terminated else legal_action(env, rng)
        env.step(action)
        plain.step(action)


def test_perfect_memory_goes_around_the_environment_itself():
    with pytest.raises(TypeError, match="must be an IsisOsirisEnv"):
        PerfectMemory(MaskInInfo(make(ALL_FORMS[0], 1)))


@every_form
def test_wrapped_environments_pass_pettingzoos_own_tests(config):
    for wrap in (PerfectMemory, MaskInInfo, lambda env: MaskInInfo(PerfectMemory(env))):
        with pytest.warns(UserWarning, match="options"):  # that the test makes up
            api_test(wrap(make(config, 1)), num_cycles=100)
        seed_test(lambda wrap=wrap: wrap(make(config, 1)), num_cycles=50)
