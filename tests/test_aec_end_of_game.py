"""How games of the AEC environment end, and what every kind of loop is paid."""

import copy
import random

import pytest
from aec_play import begin, every_form, every_reward, snapshot, walk
from conftest import random_game

from isis_env.reward import MARGIN_BOUND


@every_form
@every_reward
def test_all_end_at_once_when_the_board_is_full_paid_by_the_rules(config, reward):
    for env, twin, _ in walk(config, games=6, reward=reward):
        agents = env.possible_agents
        returns = twin.win_returns() if reward == "win" else twin.margin_returns()  # zero before the end
        assert env.agents == agents
        assert env.terminations == dict.fromkeys(agents, twin.over)
        assert env.truncations == dict.fromkeys(agents, False)
        assert env.rewards == {agent: float(paid) for agent, paid in zip(agents, returns, strict=True)}


@every_form
@pytest.mark.parametrize("forfeit", [False, True], ids=["full-board", "illegal"])
def test_dead_steps_go_in_seat_order(config, forfeit):
    env, actions = begin(config, 5, illegal="lose")
    for action in [-1] if forfeit else actions:
        env.step(action)
    scores, winners = env.scores(), env.winners()
    for seat, agent in enumerate(env.possible_agents):
        assert env.agents == env.possible_agents[seat:]
        assert env.agent_selection == agent
        _, _, terminated, truncated, info = env.last()
        assert (terminated, truncated, info) == (True, False, {})
        before = snapshot(env)
        with pytest.raises(ValueError, match="None"):
            env.step(0)
        assert snapshot(env) == before
        env.step(None)
    for left in (env.agents, env.rewards, env.terminations, env.truncations, env.infos):
        assert not left
    assert list(env.agent_iter()) == []
    assert (env.scores(), env.winners()) == (scores, winners)  # valid after the end


def loop_over_reward_sums(env, actions):
    """Add up `rewards` after every step."""
    paid = {agent: [] for agent in env.agents}
    while env.agents:
        env.step(None if env.terminations[env.agent_selection] else next(actions))
        for agent, reward in env.rewards.items():
            paid[agent].append(reward)
    return paid


def loop_over_last(env, actions):
    """PettingZoo's documented loop."""
    paid = {agent: [] for agent in env.agents}
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        paid[agent].append(reward)
        env.step(None if terminated or truncated else next(actions))
    return paid


def loop_like_rllib(env, actions):
    """RLlib's wrapper: after an action, collect `last()` of all who are done, or of the one who is next."""
    paid = {agent: [] for agent in env.agents}
    while env.agents:
        env.step(next(actions))
        while env.agents:
            _, reward, terminated, truncated, _ = env.last()
            paid[env.agent_selection].append(reward)
            if not (terminated or truncated):
                break
            env.step(None)
    return paid


def loop_like_tianshou(env, actions):
    """Tianshou's wrapper: the whole of `rewards` after every action, until `last()` is terminated."""
    paid, done = {agent: [] for agent in env.agents}, False
    while not done:
        env.step(next(actions))
        _, _, terminated, truncated, _ = env.last()
        done = terminated or truncated
        for agent, reward in env.rewards.items():
            paid[agent].append(reward)
    return paid


def loop_like_sb3(env, actions):
    """One learner per game: a transition holds what its seat was paid from its decision to its own next one."""
    paid, pending = {agent: [] for agent in env.agents}, dict.fromkeys(env.agents, 0.0)
    while not env.terminations[env.agent_selection]:
        paid[env.agent_selection].append(pending[env.agent_selection])
        pending[env.agent_selection] = 0.0
        env.step(next(actions))
        for agent, reward in env.rewards.items():
            pending[agent] += reward
    for agent, reward in pending.items():
        paid[agent].append(reward)
    return paid


LOOPS = [loop_over_reward_sums, loop_over_last, loop_like_rllib, loop_like_tianshou, loop_like_sb3]


@every_form
@every_reward
@pytest.mark.parametrize("forfeit", [False, True], ids=["full-board", "illegal"])
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_every_kind_of_loop_pays_each_seat_its_return_exactly_once(config, reward, forfeit, loop):
    """Losers learn that they lost, winners are not paid twice, and nobody gets another seat's reward."""
    for seed in range(4):
        *_, (twin, _, _) = random_game(config, random.Random(seed))  # the twin has played to the end
        env, actions = begin(config, 0, seed=seed, reward=reward, illegal="lose")
        returns = twin.win_returns() if reward == "win" else twin.margin_returns()
        if forfeit:
            actions = [*actions[: 2 + 3 * seed], -1]
            stake = 1 if reward == "win" else MARGIN_BOUND
            loser = copy.deepcopy(env)
            for action in actions[:-1]:
                loser.step(action)
            returns = [stake / (config.players - 1)] * config.players
            returns[env.possible_agents.index(loser.agent_selection)] = -stake
        expected = {agent: float(paid) for agent, paid in zip(env.agents, returns, strict=True)}
        paid = loop(env, iter(actions))
        assert {agent: sum(rewards) for agent, rewards in paid.items()} == expected
        for agent, rewards in paid.items():
            assert [reward for reward in rewards if reward] == [expected[agent]] * (expected[agent] != 0)
