"""The Stable-Baselines3 vector env: what the learner meets is what the AEC environment plays, seen from its seat.

The file is long because all its tests play the two side by side by the same helpers.
"""

import copy
import pickle
import zlib
from typing import NamedTuple

import numpy as np
import pytest
from conftest import ALL_FORMS, STANDARD_FORMS, form_id

from isis_env import GameConfig, deal, isis_osiris_v0
from isis_env.game import IllegalActionError
from isis_env.kernels.threads import MIN_ROWS
from isis_env.policy import make_agent

pytest.importorskip("stable_baselines3")

from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from isis_env.envs.sb3 import IsisOsirisVecEnv

pytestmark = pytest.mark.slow

MIXED = [STANDARD_FORMS[i] for i in (0, 3, 4, 1, 2, 5)] * 2


class Hashing:
    """Chooses by a hash of what it sees and of its seed, so that the same choices can be made beside the AEC env.

    It may like stones or tiles best; in a common reserve those who like stones are stuck in the end.
    """

    def __init__(self, recall, likes, salt=0):
        self.recall, self.likes, self.salt = recall, likes, salt

    def choose(self, observation, mask, seed=0):
        legal = np.flatnonzero(mask)
        draw = len(mask) - 1
        if self.likes == "tiles" and mask[draw]:
            return draw
        if self.likes == "stones" and len(legal) > 1:
            legal = legal[legal != draw]
        return int(legal[(zlib.crc32(observation.tobytes(), self.salt) + seed) % len(legal)])

    def act(self, decisions):
        rows = zip(decisions.observations, decisions.action_masks, decisions.seeds.tolist(), strict=True)
        return np.array([self.choose(*row) for row in rows])


OPPONENTS = [Hashing(1, "tiles", 1), Hashing("full", "tiles", 2), Hashing(2, None, 3)]


class Move(NamedTuple):
    """One transition of the learner."""

    observation: np.ndarray
    mask: np.ndarray
    action: int
    reward: float
    done: bool
    info: dict


def play(env, learner, steps, observations=None):
    """The transitions of every slot, as a list of games: [slot][episode][move]."""
    games = [[[]] for _ in range(env.num_envs)]
    observations = env.reset() if observations is None else observations
    for _ in range(steps):
        masks = env.env_method("action_masks").copy()
        actions = np.array([learner.choose(*row) for row in zip(observations, masks, strict=True)])
        following, rewards, dones, infos = env.step(actions)
        for slot, move in enumerate(zip(observations, masks, actions, rewards, dones, infos, strict=True)):
            games[slot][-1].append(Move(*move))
            if dones[slot]:
                games[slot].append([])
        observations = following
    return games


def replay(config, recall, reward, seed, slot, episode, moves):
    """Play a finished game of the learner again in AEC envs, and compare all that it met.

    Returns who moved last relative to the learner, and whether the learner was skipped at the end.
    """
    seat = (slot + episode) % config.players
    envs = {
        k: isis_osiris_v0.env(config.players, config.common_reserve, config.board, recall=k, reward=reward)
        for k in (1, 2, "full")
    }
    for env in envs.values():
        env.reset(options={"deal_id": f"seed={seed + slot} episode={episode}"})
    env = envs[recall]
    info = moves[-1].info
    left = iter(moves)
    decision = 0
    while not env.terminations[env.agent_selection]:
        agent = env.agent_selection
        on_turn = int(agent[-1])
        if on_turn == seat:
            move = next(left)
            view = env.observe(agent)
            np.testing.assert_array_equal(move.observation, view["observation"])
            np.testing.assert_array_equal(move.mask, view["action_mask"])
            action = move.action
        else:
            opponent = OPPONENTS[info["opponents"][(on_turn - seat) % config.players - 1]]
            view = envs[opponent.recall].observe(agent)
            fresh = deal.decision_seed(np.uint64(seed + slot), np.uint64(episode), on_turn, decision)
            action = opponent.choose(view["observation"], view["action_mask"], int(fresh))
        for each in envs.values():
            each.step(action)
        decision += 1
    assert next(left, None) is None, "the learner decided more often than it was on turn"

    mine = f"player_{seat}"
    assert moves[-1].reward == np.float32(env.rewards[mine])
    np.testing.assert_array_equal(info["terminal_observation"], env.observe(mine)["observation"])
    assert info["terminal_observation"].dtype == np.float32
    assert set(info) == {"terminal_observation", "episode", "win_share", "opponents"}
    assert info["win_share"] == (1 / len(env.winners()) if seat in env.winners() else 0)
    assert info["episode"]["r"] == pytest.approx(env.rewards[mine])
    assert info["episode"]["l"] == len(moves)
    assert len(info["opponents"]) == config.players - 1
    for move in moves[:-1]:
        assert move.reward == 0
        assert not move.done
        assert move.info == {}
    return (on_turn - seat) % config.players, any(skipped == seat for _, skipped in env.skipped)


def replay_all(configs, recall, reward, seed, games):
    """All finished games of all slots: how many, who moved last (relative to the learner), was the learner skipped."""
    finished = [
        replay(configs[slot], recall, reward, seed, slot, episode, moves)
        for slot, episodes in enumerate(games)
        for episode, moves in enumerate(episodes[:-1])  # the last is under way
    ]
    return len(finished), {last for last, _ in finished}, any(skipped for _, skipped in finished)


# Against the AEC environment


@pytest.mark.parametrize(("recall", "reward"), [(1, "win"), ("full", "margin")])
@pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
def test_learner_meets_what_the_aec_env_plays(config, recall, reward):
    """Observations, masks, returns and terminal views of every seat, whoever ends the game."""
    slots = 6
    env = IsisOsirisVecEnv(config, slots, opponents=OPPONENTS, seed=70, recall=recall, reward=reward)
    games = play(env, Hashing(recall, "stones"), steps=62)
    finished, last, skipped = replay_all([config] * slots, recall, reward, 70, games)
    assert finished >= 2 * slots
    assert last != {0}, "some games should end by an opponent's move"
    assert skipped == config.common_reserve, "a common reserve should leave the learner stuck sometimes"


@pytest.mark.parametrize("recall", [1, 2])
def test_slots_may_differ_in_players_and_variant(recall):
    env = IsisOsirisVecEnv(MIXED, opponents=OPPONENTS, seed=5, recall=recall, reward="margin")
    games = play(env, Hashing(recall, None), steps=80)
    finished, last, _ = replay_all(MIXED, recall, "margin", 5, games)
    assert finished >= 2 * len(MIXED)
    assert last == {0, 1, 2, 3}


def test_every_reward_is_paid_once():
    """Summed over the games that all learners played, `win` returns are those of whole games."""
    env = IsisOsirisVecEnv(GameConfig("mini3"), 2, opponents=OPPONENTS, seed=0)
    games = play(env, Hashing("full", None), steps=200)
    paid = [move.reward for episodes in games for moves in episodes for move in moves if move.done]
    assert len(paid) > 50
    assert set(paid) == {-1.0, 0.0, 1.0}


# The VecEnv interface


def test_is_a_vec_env():
    env = IsisOsirisVecEnv(GameConfig(players=3), 5, opponents=[make_agent("random")], seed=0)
    assert isinstance(env, VecEnv)
    assert env.num_envs == 5
    observations = env.reset()
    assert observations.shape == (5, *env.observation_space.shape)
    for _ in range(30):
        assert observations.dtype == np.float32
        assert all(env.observation_space.contains(row) for row in observations)
        masks = env.env_method("action_masks")
        assert isinstance(masks, np.ndarray)
        assert masks.shape == (5, env.action_space.n)
        assert masks.dtype == np.int8
        np.testing.assert_array_equal(env.env_method("action_masks", indices=[3, 1]), masks[[3, 1]])
        env.step_async(masks.argmax(axis=1))
        observations, rewards, dones, infos = env.step_wait()
        assert observations.shape == (5, *env.observation_space.shape)
        assert rewards.shape == dones.shape == (5,)
        assert rewards.dtype == np.float32
        assert dones.dtype == np.bool_
        assert [bool(info) for info in infos] == dones.tolist()
        assert len({id(info) for info in infos}) == 5
    assert len(env.get_attr("num_envs")) == 5
    assert env.env_is_wrapped(VecMonitor) == [False] * 5
    env.close()


def test_arrays_of_earlier_steps_stay_as_they_were():
    """SB3 keeps the last observations and masks while it steps on."""
    env = IsisOsirisVecEnv(GameConfig("mini3"), 4, opponents=[make_agent("random")], seed=0)
    kept = [env.reset(), env.env_method("action_masks")]
    copies = copy.deepcopy(kept)
    for _ in range(20):
        observations, rewards, dones, _ = env.step(env.env_method("action_masks").argmax(axis=1))
        kept += [observations, rewards, dones, env.env_method("action_masks")]
        copies += copy.deepcopy(kept[-4:])
    for array, as_it_was in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, as_it_was)


def test_vec_monitor_counts_the_same_episodes():
    env = IsisOsirisVecEnv(GameConfig("mini3"), 3, opponents=[make_agent("greedy")], seed=0, reward="margin")
    twin = copy.deepcopy(env)
    monitored = VecMonitor(env)
    monitored.reset()
    twin.reset()
    ended = 0
    for _ in range(40):
        actions = twin.action_masks().argmax(axis=1)
        infos, ours = monitored.step(actions)[3], twin.step(actions)[3]
        for info, our in zip(infos, ours, strict=True):
            assert ("episode" in info) == ("episode" in our)
            if our:
                ended += 1
                assert info["episode"]["l"] == our["episode"]["l"]
                assert info["episode"]["r"] == pytest.approx(our["episode"]["r"])
    assert ended > 10


def test_illegal_action_of_the_learner_changes_nothing():
    env = IsisOsirisVecEnv(MIXED, opponents=OPPONENTS, seed=1)
    learner = Hashing("full", None)
    observations = env.reset()
    twin = copy.deepcopy(env)
    for _ in range(3):
        actions = env.action_masks().argmax(axis=1)
        actions[2] = -1
        with pytest.raises(IllegalActionError, match="row 2"):
            env.step(actions)
    games, same = play(env, learner, 40, observations), play(twin, learner, 40, observations)
    assert_same_games(games, same)


def test_seeds_beyond_the_last_are_refused_at_once():
    with pytest.raises(ValueError, match="seed of the last slot"):
        IsisOsirisVecEnv(GameConfig(), 2, opponents=["random"], seed=2**64 - 1)
    env = IsisOsirisVecEnv(GameConfig(), 2, opponents=["random"], seed=5)
    with pytest.raises(ValueError, match="seed of the last slot"):
        env.seed(2**64 - 1)
    same = IsisOsirisVecEnv(GameConfig(), 2, opponents=["random"], seed=5)
    assert np.array_equal(env.reset(), same.reset())


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "0.1", None])
def test_a_weight_of_the_margin_that_is_none(weight):
    with pytest.raises(ValueError, match=r"margin_weight=.*: must be a finite number"):
        IsisOsirisVecEnv(GameConfig(), 2, opponents=["random"], margin_weight=weight)


def test_a_learner_without_masks_may_lose_by_an_illegal_action():
    env = IsisOsirisVecEnv(GameConfig(players=3), 3, opponents=OPPONENTS, seed=1, illegal="lose")
    env.reset()
    _, rewards, done, infos = env.step(np.array([99, env.action_masks()[1].argmax(), -1]))
    assert done.tolist() == [True, False, True]
    assert rewards.tolist() == [-1, 0, -1]
    assert [info.get("win_share") for info in infos] == [0, None, 0]
    assert env.action_masks().any(axis=1).all(), "the next games have begun"


def assert_same_games(games, others):
    for episodes, other_episodes in zip(games, others, strict=True):
        for moves, other_moves in zip(episodes, other_episodes, strict=True):
            for move, other in zip(moves, other_moves, strict=True):
                np.testing.assert_equal(move._asdict(), other._asdict())


# Seeds, copies, threads


def test_same_seed_same_everything():
    learner = Hashing("full", None)
    envs = [IsisOsirisVecEnv(MIXED, opponents=OPPONENTS, shares=[1, 2, 3], seed=9) for _ in range(3)]
    envs[1].reset()  # an episode of its own, which `seed` takes back
    assert envs[1].seed(9) == list(range(9, 9 + len(MIXED)))
    envs[2].seed(10)
    first, again, other = (play(env, learner, 50) for env in envs)
    assert_same_games(first, again)
    assert any((a[0][0].observation != b[0][0].observation).any() for a, b in zip(first, other, strict=True))


def test_seed_is_of_the_slot_not_of_the_number_of_slots():
    learner = Hashing("full", None)
    many = play(IsisOsirisVecEnv(GameConfig("mini4"), 6, opponents=OPPONENTS, seed=3), learner, 30)
    few = play(IsisOsirisVecEnv(GameConfig("mini4"), 2, opponents=OPPONENTS, seed=3), learner, 30)
    assert_same_games(few, many[:2])


def test_reset_without_seed_begins_the_next_episode():
    env = IsisOsirisVecEnv(GameConfig(players=3), 3, opponents=OPPONENTS, seed=4, recall=1)
    learner = Hashing(1, None)
    play(env, learner, 5)
    games = play(env, learner, 40)  # resets in mid-game
    for slot, episodes in enumerate(games):
        assert len(episodes) > 1
        for episode, moves in enumerate(episodes[:-1], start=1):
            replay(GameConfig(players=3), 1, "win", 4, slot, episode, moves)


def test_without_seed_games_are_fresh():
    envs = [IsisOsirisVecEnv(GameConfig(), 1, opponents=[make_agent("greedy")]) for _ in range(2)]
    for env in envs:
        env.reset()
    assert envs[0].batch.seeds != envs[1].batch.seeds


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_play_on_identically(duplicate):
    env = IsisOsirisVecEnv(MIXED, opponents=OPPONENTS, seed=2, recall=1)
    learner = Hashing(1, None)
    observations = env.reset()
    for _ in range(7):
        observations = env.step(env.action_masks().argmax(axis=1))[0]
    twin = duplicate(env)
    assert_same_games(play(twin, learner, 40, observations), play(env, learner, 40, observations))


def test_threads_change_nothing():
    runs = []
    for threads in (1, 2, 3):
        opponents = [make_agent("random"), make_agent("greedy")]
        env = IsisOsirisVecEnv(GameConfig("mini3"), 2 * MIN_ROWS, opponents=opponents, seed=0, threads=threads)
        seen = [env.reset()]
        for _ in range(16):
            observations, rewards, dones, _ = env.step(env.action_masks().argmax(axis=1))
            seen += [observations, rewards, dones, env.action_masks()]
        runs.append([zlib.crc32(array.tobytes()) for array in seen])
    assert runs[0] == runs[1] == runs[2]


# Opponents


def opponents_met(env, steps):
    """int[games, n - 1]: who sat on the other seats of all games that ended."""
    env.reset()
    met = []
    for _ in range(steps):
        infos = env.step(env.action_masks().argmax(axis=1))[3]
        met += [info["opponents"] for info in infos if info]
    return np.array(met)


@pytest.mark.parametrize(("shares", "expected"), [([1, 3, 0], [0.25, 0.75, 0]), (None, [1 / 3] * 3)])
def test_opponents_are_drawn_by_their_shares(shares, expected):
    config = GameConfig(players=3)
    env = IsisOsirisVecEnv(config, 300, opponents=[make_agent("uniform")] * 3, shares=shares, seed=0)
    met = opponents_met(env, 130)
    assert len(met) > 1500
    tolerance = 6 * 0.5 / np.sqrt(len(met))
    for seat in range(2):
        np.testing.assert_allclose(np.bincount(met[:, seat], minlength=3) / len(met), expected, atol=tolerance)
    # The seats are drawn independently of each other.
    pairs = np.bincount(met[:, 0] * 3 + met[:, 1], minlength=9) / len(met)
    np.testing.assert_allclose(pairs, np.outer(expected, expected).ravel(), atol=tolerance)
    assert (pairs > 0).sum() == np.count_nonzero(expected) ** 2


def test_opponents_can_be_changed_under_way():
    class Counting(Hashing):
        calls = 0

        def act(self, decisions):
            self.calls += len(decisions)
            return super().act(decisions)

    before, after, never = (Counting(1, None) for _ in range(3))
    env = IsisOsirisVecEnv(GameConfig("mini3"), 4, opponents=[before], seed=0)
    play(env, Hashing("full", None), 3)
    calls = before.calls
    assert calls > 0
    env.set_opponents([after, never], shares=[1, 0])
    games = play(env, Hashing("full", None), 30)
    assert before.calls == calls
    assert after.calls > 0
    assert never.calls == 0
    assert {index for episodes in games for moves in episodes[:-1] for index in moves[-1].info["opponents"]} == {0}


@pytest.mark.parametrize(
    ("opponents", "shares", "named"),
    [
        ([], None, "opponents"),
        (OPPONENTS, [1, 1], "[1, 1]"),
        (OPPONENTS, [1, -1, 1], "[1, -1, 1]"),
        (OPPONENTS, [0, 0, 0], "[0, 0, 0]"),
        (OPPONENTS, [1, float("nan"), 1], "nan"),
        (OPPONENTS, [1, float("inf"), 1], "inf"),
    ],
)
def test_wrong_opponents(opponents, shares, named):
    with pytest.raises(ValueError, match=r"opponents|shares") as caught:
        IsisOsirisVecEnv(GameConfig(), 1, opponents=opponents, shares=shares)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


# Learning


def test_maskable_ppo_learns():
    sb3_contrib = pytest.importorskip("sb3_contrib")
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

    env = IsisOsirisVecEnv(GameConfig("mini3"), 4, opponents=[make_agent("random")], seed=0)
    assert is_masking_supported(env)
    model = sb3_contrib.MaskablePPO(
        "MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=2, policy_kwargs={"net_arch": [8]}, seed=0, device="cpu"
    )
    model.learn(128)  # an illegal action would raise
    assert model.num_timesteps == 128
    assert len(model.ep_info_buffer) > 4
    observations = env.reset()
    for _ in range(20):
        masks = get_action_masks(env)
        np.testing.assert_array_equal(masks, env.action_masks())
        actions, _ = model.predict(observations, action_masks=masks)
        assert np.take_along_axis(masks, actions[:, None], 1).all()
        observations = env.step(actions)[0]
