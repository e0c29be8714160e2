"""What the tests of the batch engine share: random play beside AEC environments, and all that tells how games stand."""

import hashlib

import numpy as np
from conftest import STANDARD_FORMS

from isis_env import GameConfig, game, isis_osiris_v0
from isis_env.kernels.threads import MIN_ROWS

MIXED = [STANDARD_FORMS[i] for i in (0, 3, 4, 1, 2, 5)] * 3
DECK = list(GameConfig().faces)
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
