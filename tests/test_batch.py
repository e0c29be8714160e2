"""The batch engine plays, row by row, what the AEC environment plays, whatever it is told at reset or stepped with."""

import copy

import numpy as np
import pytest
from batch_play import BIG, MIXED, aec, aec_envs, contents, digest, play_beside, random_actions
from conftest import ALL_FORMS, form_id

from isis_env import GameConfig
from isis_env.batch import Batch, TimeStep


@pytest.mark.parametrize("reward", ["win", "margin"])
@pytest.mark.parametrize("recall", [1, 2, "full"])
@pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
def test_rows_equal_aec_games(config, recall, reward):
    """Seats, masks, observations and returns of three episodes and of what follows after auto-reset."""
    batch = Batch(config, 3, recall=recall, reward=reward)
    envs = aec_envs([config] * 3, range(40, 43), recall=recall, reward=reward)
    ended, skips = play_beside(batch, batch.reset(seed=40), envs, 3 * 58)
    assert ended >= 9
    assert (skips > 0) == config.common_reserve  # stuck seats were among it


@pytest.mark.parametrize("num_games", [1, 7, 1000, pytest.param(BIG, marks=pytest.mark.slow)])
def test_batch_size_and_threads_change_nothing(num_games):
    config = GameConfig("standard", 3, common_reserve=True)
    seen = set()
    for threads in (1, 2, 3):
        batch = Batch(config, num_games, recall=1, threads=threads)
        seen.add(digest(batch, batch.reset(seed=5), 70, seed=num_games))
    assert len(seen) == 1, "the number of threads changes the games"

    batch = Batch(config, num_games, recall=1, threads=3)
    envs = {}
    for row in {0, num_games // 3, num_games // 2, num_games - 1}:
        envs[row] = aec(config, recall=1)
        envs[row].reset(seed=5 + row)
    ended, _ = play_beside(batch, batch.reset(seed=5), envs, 70, seed=num_games)
    assert ended == len(envs)


def test_rows_may_differ_in_players_and_variant():
    batch = Batch(MIXED, recall=2, reward="margin")
    envs = aec_envs(MIXED, range(9, 9 + len(MIXED)), recall=2, reward="margin")
    ended, skips = play_beside(batch, batch.reset(seed=9), envs, 2 * 58)
    assert ended >= 2 * len(MIXED)
    assert skips > 0


def test_reset_without_seed_is_the_next_episode():
    batch = Batch(GameConfig(), 2, recall=1)
    batch.reset(seed=0)  # seed 0 is a seed like any other
    envs = aec_envs([GameConfig()] * 2, [0, 1])
    for env in envs.values():
        env.reset()
    play_beside(batch, batch.reset(), envs, 60)
    assert batch.episodes.tolist() == [2, 2]


def test_first_reset_without_seed_is_fresh():
    seeds = []
    for _ in range(2):
        batch = Batch(GameConfig("mini3"), 2)
        batch.reset()
        seeds += batch.seeds.tolist()
    assert len(set(seeds)) == 4


def test_seeds_and_episodes_per_row():
    seeds, episodes = [7, 2**64 - 1, 7, 0], [3, 1, 0, 2]
    batch = Batch(GameConfig("mini4"), 4, recall=1)
    envs = aec_envs(batch.configs, seeds)
    for env, episode in zip(envs.values(), episodes, strict=True):
        for _ in range(episode):
            env.reset()
    play_beside(batch, batch.reset(seed=seeds, episode=np.array(episodes)), envs, 60)


def test_one_episode_number_for_all_rows():
    batch = Batch(GameConfig("mini4"), 2, recall=1)
    envs = aec_envs(batch.configs, [11, 12])
    for env in envs.values():
        env.reset()
    play_beside(batch, batch.reset(seed=11, episode=1), envs, 30)


@pytest.mark.parametrize("overrides", [("start_player",), ("deck",), ("start_player", "deck")], ids="+".join)
def test_overrides_last_one_episode(overrides):
    rng = np.random.default_rng(1)
    given = {
        "start_player": [config.players - 1 - row % 2 for row, config in enumerate(MIXED)],
        "deck": np.array([rng.permutation(config.faces) for config in MIXED]),
    }
    given = {key: given[key] for key in overrides}
    batch = Batch(MIXED, recall="full")
    envs = aec_envs(MIXED, range(len(MIXED)), recall="full")
    for row, env in envs.items():
        env.reset(seed=row, options={key: values[row] for key, values in given.items()})
    ended, _ = play_beside(batch, batch.reset(seed=0, **given), envs, 2 * 58)
    assert ended >= 2 * len(MIXED)


def test_stepping_some_rows_in_any_order():
    together, apart = Batch(MIXED, recall=1), Batch(MIXED, recall=1)
    turn = together.reset(seed=2)
    apart.reset(seed=2)
    rng = np.random.default_rng(3)
    for _ in range(60):
        actions = random_actions(turn, rng)
        turn = together.step(actions)
        left, right = np.array_split(rng.permutation(len(MIXED)), 2)
        for rows in (left, right):
            before = apart.states.copy()
            part = apart.step(actions[rows], rows)
            for array, whole in zip(part, turn, strict=True):
                np.testing.assert_array_equal(array, whole[rows])
            others = np.setdiff1d(np.arange(len(MIXED)), rows)
            np.testing.assert_array_equal(apart.states[others], before[others])
        assert contents(apart) == contents(together)


def test_no_rows_is_no_step():
    batch = Batch(GameConfig(), 3)
    batch.reset(seed=0)
    before = contents(batch)
    turn = batch.step(np.empty(0, int), np.empty(0, int))
    assert [len(array) for array in turn] == [0] * 5
    assert len(batch.decisions(np.empty(0, int))) == 0
    assert contents(batch) == before


def test_out_is_what_is_written():
    batch, twin = Batch(MIXED), Batch(MIXED)
    turn = batch.reset(seed=4)
    twin.reset(seed=4)
    out = TimeStep(*(np.empty_like(array) for array in turn))
    rng = np.random.default_rng(5)
    for _ in range(60):
        actions = random_actions(turn, rng)
        turn = batch.step(actions)
        for array in out:
            array.fill(1)  # what an earlier step left must not show through
        returned = twin.step(actions, out=out)
        for given, back, fresh in zip(out, returned, turn, strict=True):
            assert back is given
            np.testing.assert_array_equal(given, fresh)


def test_arrays_are_fresh_without_out():
    batch = Batch(GameConfig("mini3"), 5)
    turns = [batch.reset(seed=0)]
    copies = [copy.deepcopy(turns[0])]
    for _ in range(20):
        turns.append(batch.step(random_actions(turns[-1], np.random.default_rng(0))))
        copies.append(copy.deepcopy(turns[-1]))
    for turn, kept in zip(turns, copies, strict=True):
        for array, as_it_was in zip(turn, kept, strict=True):
            np.testing.assert_array_equal(array, as_it_was)


def test_steps_from_lists_and_small_integers():
    batch, twin = Batch(GameConfig(), 2), Batch(GameConfig(), 2)
    batch.reset(seed=0)
    twin.reset(seed=0)
    batch.step([3, 4], rows=[1, 0])
    twin.step(np.array([4, 3], np.uint8))
    assert contents(batch) == contents(twin)
