"""Masks, turns, scores and draws of the AEC environment, beside the slow twin."""

import copy

import numpy as np
import pytest
from aec_play import begin, every_form, held_face, make, walk


@every_form
def test_mask_is_brute_force_legality_at_every_state(config):
    for env, twin, _ in walk(config, games=12):
        assert twin.over or twin.legal()
        for seat, agent in enumerate(env.possible_agents):
            mask = env.observe(agent)["action_mask"]
            assert mask.dtype == np.int8
            assert np.flatnonzero(mask).tolist() == (twin.legal() if seat == twin.seat else [])
            assert set(mask.tolist()) <= {0, 1}


@every_form
def test_action_space_samples_with_the_mask(config):
    env = make(config)
    env.reset(seed=3)
    while not env.terminations[env.agent_selection]:
        mask = env.observe(env.agent_selection)["action_mask"]
        action = env.action_space(env.agent_selection).sample(mask)
        assert mask[action] == 1
        env.step(action)


@every_form
def test_turns_scores_and_skips_are_those_of_the_rules(config):
    skips = 0
    for env, twin, _ in walk(config, games=12):
        if not twin.over:
            assert env.agent_selection == f"player_{twin.seat}"
        assert env.scores() == twin.scores()
        assert env.skipped == twin.skipped
        if twin.over:
            assert env.winners() == twin.winners()
            skips += len(twin.skipped)
        else:
            with pytest.raises(RuntimeError, match="before the end"):
                env.winners()
    assert bool(skips) == config.common_reserve  # the games above reach what they should


@every_form
def test_results_are_plain_python_values(config):
    env, actions = begin(config, 0)
    for action in actions:
        env.step(action)
    assert all(type(score) is int for score in env.scores())
    assert all(type(seat) is int for seat in env.winners())
    assert all(type(skip) is tuple and [type(x) for x in skip] == [int, int] for skip in env.skipped)
    assert all(type(reward) is float for reward in env.rewards.values())


@every_form
def test_a_draw_keeps_the_agent_swaps_the_mask_and_shows_everybody_the_face(config):
    for env, twin, action in walk(config, games=4):
        if action != config.draw_action:
            continue
        agent, top = env.agent_selection, twin.pile(twin.seat)[0]
        ahead = copy.deepcopy(env)
        assert [held_face(ahead, other) for other in ahead.possible_agents] == [None] * config.players
        ahead.step(action)
        assert ahead.agent_selection == agent
        assert np.flatnonzero(ahead.observe(agent)["action_mask"]).tolist() == twin.free_cells()
        assert [held_face(ahead, other) for other in ahead.possible_agents] == [top] * config.players
