"""Illegal actions in the AEC environment: an error, or a lost game."""

import copy
import itertools
import re

import numpy as np
import pytest
from aec_play import begin, every_form, every_reward, illegal_actions, make, mid_draw, play_on, snapshot, walk

from isis_env import isis_osiris_v0
from isis_env.config import GameConfig
from isis_env.game import IllegalActionError
from isis_env.reward import MARGIN_BOUND


@every_form
def test_every_integer_outside_the_mask_raises_and_changes_nothing(config):
    for decisions in (0, 3, 12):
        env, _ = begin(config, decisions)
        legal = np.flatnonzero(env.observe(env.agent_selection)["action_mask"]).tolist()
        before = snapshot(env)
        for action in illegal_actions(env):
            with pytest.raises(IllegalActionError) as error:
                env.step(action)
            assert str(int(action)) in str(error.value)
            assert env.agent_selection in str(error.value)
            assert str(legal) in str(error.value)
        assert snapshot(env) == before
    assert issubclass(IllegalActionError, ValueError)


@every_form
def test_illegal_actions_of_the_held_phase_raise_and_the_game_goes_on(config):
    env, actions = mid_draw(config)
    untouched, _ = mid_draw(config)
    assert config.draw_action in illegal_actions(env)
    for action in illegal_actions(env):
        with pytest.raises(IllegalActionError):
            env.step(action)
    assert play_on(env, actions) == play_on(untouched, actions)


@every_form
def test_a_piece_that_the_seat_does_not_have_is_illegal(config):
    lacked = set()
    for env, twin, action in walk(config):
        if action is None or twin.held is not None:
            continue
        for piece, attempt in (("tile", config.draw_action), ("stone", twin.free_cells()[0])):
            if attempt not in twin.legal():
                lacked.add(piece)
                with pytest.raises(IllegalActionError):
                    env.step(attempt)
    assert lacked == {"tile", "stone"}  # the games above reach what they should


NO_INTEGERS = [None, 1.0, np.float32(1), np.array(1.0), "1", True, np.bool_(False), [1], (1,), {}, np.array([1])]


@pytest.mark.parametrize("illegal", ["raise", "lose"])
@pytest.mark.parametrize("action", NO_INTEGERS, ids=repr)
def test_an_action_that_is_no_integer_is_a_type_error_in_both_modes(action, illegal):
    for env, _ in (begin(GameConfig(), 0, illegal=illegal), mid_draw(GameConfig(), illegal=illegal)):
        before = snapshot(env)
        with pytest.raises(TypeError, match=re.escape(repr(action))):
            env.step(action)
        assert snapshot(env) == before


@pytest.mark.parametrize("kind", [int, np.int8, np.int32, np.int64, np.uint8, np.uint64, np.array])
def test_every_integer_type_is_an_action(kind):
    env, plain = isis_osiris_v0.env(), isis_osiris_v0.env()
    env.reset(seed=0)
    plain.reset(seed=0)
    for action in (36, 7, 20):
        env.step(kind(action))
        plain.step(action)
    assert snapshot(env) == snapshot(plain)


@every_form
@every_reward
@pytest.mark.parametrize("phase", ["stone", "held"])
def test_under_lose_any_illegal_integer_ends_the_game_and_is_not_applied(config, reward, phase):
    env, _ = (
        begin(config, 4, reward=reward, illegal="lose")
        if phase == "stone"
        else mid_draw(config, reward=reward, illegal="lose")
    )
    offender, stake = env.agent_selection, 1 if reward == "win" else MARGIN_BOUND
    others = [agent for agent in env.possible_agents if agent != offender]
    scores, state, skipped = env.scores(), env.state().tobytes(), env.skipped
    for action in illegal_actions(env):
        ended = copy.deepcopy(env)
        ended.step(action)
        assert ended.terminations == dict.fromkeys(env.possible_agents, True)
        assert ended.truncations == dict.fromkeys(env.possible_agents, False)
        assert ended.rewards == {offender: -stake, **dict.fromkeys(others, stake / (config.players - 1))}
        assert ended.winners() == [env.possible_agents.index(agent) for agent in others]
        assert (ended.scores(), ended.state().tobytes(), ended.skipped) == (scores, state, skipped)
        for agent in env.possible_agents:
            assert env.observation_space(agent).contains(ended.observe(agent))
            assert not ended.observe(agent)["action_mask"].any()


def test_no_game_reaches_the_margin_paid_for_an_illegal_action():
    """Scores lie between -69 and 69 (see the golden extremes), so no margin is beyond 138."""
    assert MARGIN_BOUND > 2 * 69


@every_form
@every_reward
def test_a_game_ended_by_an_illegal_move_does_not_poison_the_next(config, reward):
    env, _ = mid_draw(config, reward=reward, illegal="lose")
    env.step(config.draw_action)
    while env.agents:
        env.step(None)
    fresh = make(config, reward=reward, illegal="lose")
    for player in (env, fresh):
        player.reset(seed=21)
    _, actions = begin(config, 0, seed=5)
    assert play_on(env, legal_script(env, actions)) == play_on(fresh, legal_script(fresh, actions))


def legal_script(env, numbers):
    """Legal actions picked by the numbers given, chosen as the game goes on."""
    for number in itertools.cycle(numbers):
        legal = np.flatnonzero(env.observe(env.agent_selection)["action_mask"])
        yield int(legal[number % len(legal)])
