"""Copies, pickles and dicts of the AEC environment play on identically; dicts that were tampered with are refused."""

import copy
import multiprocessing

import numpy as np
import pytest
from aec_play import COPIES, begin, every_form, mid_draw, play_on, snapshot
from gymnasium.error import ResetNeeded

from isis_env import isis_osiris_v0
from isis_env.config import GameConfig
from isis_env.observation import layout
from isis_env.reward import MARGIN_BOUND


@pytest.mark.parametrize("how", ["reset", *COPIES])
def test_settings_survive(how):
    """Resetting or copying must not fall back to default settings."""
    settings = {"players": 3, "common_reserve": True, "board": "standard"}
    settings |= {"recall": "full", "reward": "margin", "illegal": "lose", "render_mode": "ansi"}
    env = isis_osiris_v0.env(**settings)
    env.reset(seed=1)
    env.step(-1)
    env = COPIES[how](env) if how != "reset" else env
    env.reset()
    assert env.to_dict()["settings"] == settings
    assert len(env.agents) == 3
    assert isinstance(env.render(), str)
    observation = env.observe("player_0")["observation"]
    assert observation[layout()["unrevealed"].slice].all()  # full recall
    assert observation[layout()["common_reserve"].slice] == 1
    offender = env.agent_selection
    env.step(-1)
    assert env.rewards[offender] == -MARGIN_BOUND


def moments(config):
    """Envs at odd moments, and the actions that they go on with."""
    settings = {"recall": 2, "reward": "margin", "illegal": "lose", "render_mode": "ansi"}
    yield begin(config, 0, **settings)
    yield begin(config, 7, **settings)
    yield mid_draw(config, **settings)
    for dead_steps in range(config.players + 1):
        env, actions = begin(config, 0, **settings)
        for action in actions:
            env.step(action)
        forfeited, _ = mid_draw(config, **settings)
        forfeited.step(config.draw_action)
        for ended in (env, forfeited):
            for _ in range(dead_steps):
                ended.step(None)
            yield ended, []


@every_form
@pytest.mark.parametrize("how", COPIES)
def test_copies_play_on_identically_and_apart(config, how):
    for env, actions in moments(config):
        copied = COPIES[how](env)
        before = snapshot(env)
        played = play_on(copied, actions)
        assert snapshot(env) == before  # nothing is shared
        assert play_on(env, actions) == played


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_made_before_reset_is_not_reset_either(how):
    env = isis_osiris_v0.env(players=4, recall=3)
    copied = COPIES[how](env)
    with pytest.raises(ResetNeeded):
        copied.observe("player_0")
    copied.reset(seed=6)
    env.reset(seed=6)
    assert snapshot(copied) == snapshot(env)


@pytest.mark.parametrize("recall", [np.int64(2), np.int8(1), 200, 10**30])
def test_any_integer_recall_survives_json(recall):
    env, actions = mid_draw(GameConfig("mini4"), recall=recall)
    copied = COPIES["json"](env)
    assert play_on(copied, actions) == play_on(env, actions)


def test_from_dict_refuses_what_is_no_such_env():
    with pytest.raises(ValueError, match="name='chess'"):
        isis_osiris_v0.raw_env.from_dict({**isis_osiris_v0.env().to_dict(), "name": "chess"})


@pytest.mark.slow
def test_a_spawned_process_plays_a_pickled_env_on():
    env, actions = mid_draw(GameConfig("standard", 3))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(play_on, (env, actions))
    assert there == play_on(env, actions)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("name", "chess_v6", "name='chess_v6'"),
        ("settings", {"players": 5}, "players=5"),
        ("settings", {"player": 2}, "settings="),
        ("seed", -1, "seed=-1"),
        ("episode", "first", "episode='first'"),
        ("deal_id", "seed=8 episode=0", "is not one of deal 'seed=8 episode=0'"),
        ("deal_id", "seed 7", "deal_id='seed 7'"),
        ("game", "a1 b1", "header"),
        ("agents", ["player_0"], "agents=['player_0']"),
        ("agents", None, "agents=None"),
        ("offender", 7, "offender=7"),
    ],
)
def test_a_dict_that_was_tampered_with_is_an_error_of_one_line(key, value, message):
    env = isis_osiris_v0.env()
    env.reset(seed=7)
    for action in (36, 0, 36, 7, 36):
        env.step(action)
    data = env.to_dict()
    assert isis_osiris_v0.raw_env.from_dict(data).to_dict() == data
    for wrong in ({**data, key: value}, {k: v for k, v in data.items() if k != key}):
        with pytest.raises((ValueError, TypeError)) as caught:
            isis_osiris_v0.raw_env.from_dict(wrong)
        assert "\n" not in str(caught.value)
        if key in wrong:
            assert message in str(caught.value)


def test_a_shallow_copy_does_not_share_the_board():
    env = isis_osiris_v0.env()
    env.reset(seed=1)
    twin = copy.copy(env)
    twin.step(0)
    assert env.observe("player_0")["observation"][:36].sum() == 0
    assert env.to_dict() != twin.to_dict()
