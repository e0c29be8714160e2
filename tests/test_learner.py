"""The learner learns from the right numbers: rewards and advantages of scripted games, derived by hand.

With a value function that is zero everywhere, the advantage of a learner's t-th of T decisions in a game with return R
is (gamma * lambda) ** (T - 1 - t) * R, however many moves and skips of others lie between its decisions. With a
constant value c and lambda = 1 it is gamma ** (T - 1 - t) * R - c.
"""

import numpy as np
import pytest
import torch
from conftest import STANDARD_FORMS, form_id
from stable_baselines3.common.callbacks import BaseCallback

from isis_env import game
from isis_env.envs.sb3 import IsisOsirisVecEnv
from isis_env.policy import make_agent
from train.config import GameSettings, PPOSettings, TrainConfig
from train.ppo.policy import policy_network
from train.ppo.setup import make_learner

pytestmark = pytest.mark.slow

GAMMA, LAMBDA = 0.9, 0.8


class Drawer:
    """Draws whenever it may, else plays the lowest free cell: beside a seat that never draws it empties the reserve."""

    recall = "full"

    def act(self, decisions):
        draw = decisions.action_masks[:, -1] == 1
        return np.where(draw, decisions.action_masks.shape[1] - 1, decisions.action_masks.argmax(axis=1))


class Ends(BaseCallback):
    """Notes where games ended, and how."""

    def __init__(self):
        super().__init__()
        self.games = []  # (slot, step of its last decision, final state, learner's seat)
        self.step = -1

    def _on_step(self):
        env = self.training_env
        self.step += 1
        for slot in np.flatnonzero(self.locals["dones"]):
            played = int(env.batch.episodes[slot]) - 1
            seat = (int(slot) + played) % env.batch.configs[slot].players
            self.games.append((int(slot), self.step, env.batch.final_states[slot].copy(), seat))
        return True


def rollout(form, value, lam, steps=90):
    """The buffer after some games of a learner that never draws while it has stones, and how the games ended."""
    config = TrainConfig(
        game=GameSettings(form.board, form.players, form.common_reserve),
        ppo=PPOSettings(n_envs=12, n_steps=steps, batch_size=64, gamma=GAMMA, gae_lambda=lam),
    )
    torch.manual_seed(0)
    env = IsisOsirisVecEnv(form, 12, opponents=[Drawer(), make_agent("random")], shares=[0.7, 0.3], seed=3)
    model = make_learner(config, env)
    network = policy_network(model)
    with torch.no_grad():
        network.draw.bias.fill_(-50.0)
        network.value.weight.zero_()
        network.value.bias.fill_(value)
    ends = Ends()
    _, callback = model._setup_learn(10**6, ends)
    model.collect_rollouts(env, callback, model.rollout_buffer, steps)
    return model.rollout_buffer, ends.games


def return_by_hand(final, seat) -> float:
    scores = game.scores(final)
    winners = [s for s, score in enumerate(scores) if score == max(scores)]
    if len(winners) == len(scores):
        return 0.0
    return 1 / len(winners) if seat in winners else -1 / (len(scores) - len(winners))


@pytest.mark.parametrize("form", STANDARD_FORMS, ids=form_id)
@pytest.mark.parametrize(("value", "lam"), [(0.0, LAMBDA), (0.25, 1.0)])
def test_rewards_and_advantages_of_whole_games(form, value, lam):
    buffer, games = rollout(form, value, lam)
    assert len(games) >= 20
    begun = dict.fromkeys(range(12), 0)
    rewards = np.zeros_like(buffer.rewards)
    seen, skips = set(), 0
    for slot, last, final, seat in games:
        result = return_by_hand(final, seat)
        rewards[last, slot] = result
        own = range(begun[slot], last + 1)  # the learner's own decisions in this game
        for t in own:
            remaining = last - t
            expected = (GAMMA * lam) ** remaining * result if value == 0 else GAMMA**remaining * result - value
            assert buffer.advantages[t, slot] == pytest.approx(expected, abs=1e-5)
            assert buffer.returns[t, slot] == pytest.approx(expected + value, abs=1e-5)
        assert buffer.episode_starts[begun[slot], slot] == 1
        assert not buffer.episode_starts[begun[slot] + 1 : last + 1, slot].any()
        begun[slot] = last + 1
        seen.add(np.sign(result))
        skips += len(game.skipped(final))
    assert np.allclose(buffer.rewards, rewards), "nothing is paid but the learner's own return, at its last decision"
    assert {-1, 1} <= seen, "winners and losers both learn of it"
    if form.common_reserve:
        assert skips, "skipped turns must lie between decisions"


@pytest.mark.parametrize("form", STANDARD_FORMS, ids=form_id)
def test_every_stored_decision_was_the_learners_own_and_legal(form):
    buffer, _ = rollout(form, 0.0, 1.0, steps=40)
    chosen = buffer.actions[..., 0].astype(int)
    assert np.take_along_axis(buffer.action_masks, chosen[..., None], 2).all()
    on_turn = buffer.observations[..., 216 + 4 + 4 + 1 + 1 + 1 + 3]
    assert (on_turn == 1).all(), "relative seat 0, the observer, is on turn wherever something is stored"
