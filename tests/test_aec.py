"""The AEC environment, against the slow twin and against what PettingZoo's users rely on."""

import copy
import importlib
import inspect
import itertools
import json
import multiprocessing
import pickle
import random
import re
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pettingzoo
import pytest
from conftest import ALL_FORMS, STANDARD_FORMS, form_id, random_deal, random_game
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from pettingzoo.test import api_test, performance_benchmark, render_test, seed_test

from isis_env import isis_osiris_v0
from isis_env.config import BOARDS, GameConfig
from isis_env.game import IllegalActionError
from isis_env.observation import layout, planes, state_layout
from isis_env.render import render_text
from isis_env.reward import MARGIN_BOUND
from isis_env.secrecy import known_states
from isis_env.symmetry import apply_to_action, apply_to_mask, apply_to_observation, apply_to_state

DEFAULTS = {
    "players": 2,
    "common_reserve": False,
    "board": "standard",
    "recall": 1,
    "reward": "win",
    "illegal": "raise",
    "render_mode": None,
}
COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "json": lambda env: isis_osiris_v0.raw_env.from_dict(json.loads(json.dumps(env.to_dict()))),
}

every_form = pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
every_board = pytest.mark.parametrize("board", BOARDS)
every_reward = pytest.mark.parametrize("reward", ["win", "margin"])


def make(config, **arguments):
    return isis_osiris_v0.env(config.players, config.common_reserve, config.board, **arguments)


def walk(config, games=6, seed=0, **arguments):
    """Random games in an env and in its slow twin: both, before every decision (with it) and after the end (None)."""
    env, rng = make(config, **arguments), random.Random(seed)
    for _ in range(games):
        for twin, deck, action in random_game(config, rng):
            if not twin.history and twin.held is None:
                env.reset(options={"deck": deck, "start_player": twin.seat})
            yield env, twin, action
            env.step(action)
        yield env, twin, None


def begin(config, decisions, seed=0, **arguments):
    """An env after some decisions of a random game (its second), and the decisions that the game goes on with."""
    rng = random.Random(seed)
    twin, deck, first = next(game := random_game(config, rng))
    env = make(config, **arguments)
    env.reset(seed=seed)
    env.reset(options={"deck": deck, "start_player": twin.seat})
    actions = [first, *(action for _, _, action in game)]
    for action in actions[:decisions]:
        env.step(action)
    return env, actions[decisions:]


def mid_draw(config, **arguments):
    """An env in which a tile is held after some turns, and the decisions that the game goes on with."""
    _, actions = begin(config, 0)
    return begin(config, actions.index(config.draw_action, len(actions) // 3) + 1, **arguments)


def snapshot(env):
    """All that can be seen of an env, as plain values."""
    seen = {agent: env.observe(agent) for agent in env.possible_agents}
    return {
        "seen": {agent: [(key, array.tobytes()) for key, array in parts.items()] for agent, parts in seen.items()},
        "turn": (list(env.agents), env.agent_selection, env.num_agents),
        "flags": (dict(env.rewards), dict(env.terminations), dict(env.truncations), dict(env.infos)),
        "last": env.last(observe=False) if env.agents else None,
        "told": (env.state().tobytes(), env.scores(), env.skipped, env.deal_id),
        "picture": env.render() if env.render_mode == "ansi" else None,
    }


def play_on(env, actions):
    """Snapshots from here to the last dead step, and through the beginning of the next episode."""
    seen = [snapshot(env)]
    actions = iter(actions)
    while env.agents:
        env.step(None if env.terminations[env.agent_selection] else next(actions))
        seen.append(snapshot(env))
    seen.append({"winners": env.winners()})
    env.reset()
    return [*seen, snapshot(env), env.to_dict()["settings"]]


def draw_everything(env):
    """Draw whenever it is legal, and return the faces that each pile gave, in order."""
    config, piles = env.config, {}
    while not env.terminations[env.agent_selection]:
        seat = env.possible_agents.index(env.agent_selection)
        mask = env.observe(env.agent_selection)["action_mask"]
        if mask[config.draw_action]:
            env.step(config.draw_action)
            piles.setdefault(0 if config.common_reserve else seat, []).append(held_face(env, env.agent_selection))
            mask = env.observe(env.agent_selection)["action_mask"]
        env.step(int(np.flatnonzero(mask)[0]))
    return piles


def held_face(env, agent):
    """The face of the held tile as `agent` observes it, or None."""
    held = env.observe(agent)["observation"][layout(env.config.board)["held"].slice]
    assert sorted(set(held.tolist())) in ([0], [0, 1])
    assert held.sum() <= 1
    return [-4, -3, -2, -1, 1, 2, 3, 4][held.argmax()] if held.any() else None


def illegal_actions(env):
    """Every integer beside the space and within it that is not legal, and the far ends of integer types."""
    size = env.config.num_actions
    legal = np.flatnonzero(env.observe(env.agent_selection)["action_mask"]).tolist()
    near = [action for action in range(-size - 1, size + 3) if action not in legal]
    return [*near, 2**7, 2**31, -(2**63), 2**63, 2**64, -(10**30), 10**30, np.int64(-1), np.uint64(2**64 - 1)]


# --- Arguments and spaces


def test_arguments_and_defaults_are_the_documented_ones():
    for factory in (isis_osiris_v0.env, isis_osiris_v0.raw_env):
        parameters = inspect.signature(factory).parameters
        assert {name: parameter.default for name, parameter in parameters.items()} == DEFAULTS


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        *[({"players": players}, "2 or 3 or 4") for players in (0, 1, 5, -2, 2.0, "2", None, True)],
        *[({"players": players, "board": board}, "2") for players in (1, 3, 4) for board in ("mini4", "mini3")],
        *[({"common_reserve": common}, "True or False") for common in (1, 0, "yes", None)],
        *[({"common_reserve": True, "board": board}, "False") for board in ("mini4", "mini3")],
        *[({"board": board}, "'standard', 'mini4', 'mini3'") for board in ("6x6", "Standard", "", None, 6, ["mini3"])],
        *[({"recall": recall}, 'integer >= 1 or "full"') for recall in (0, -1, 1.0, True, "all", "1", None)],
        *[({"reward": reward}, "'win', 'margin'") for reward in ("score", "", None, 1)],
        *[({"illegal": illegal}, "'raise', 'lose'") for illegal in ("ignore", "", None, True)],
        *[({"render_mode": mode}, "None, 'ansi', 'human'") for mode in ("rgb_array", "", "HUMAN", 1)],
    ],
    ids=repr,
)
@pytest.mark.parametrize("factory", [isis_osiris_v0.env, isis_osiris_v0.raw_env], ids=["env", "raw_env"])
def test_wrong_argument_raises_naming_the_value_and_the_allowed_ones(factory, arguments, allowed):
    name, value = next(iter(arguments.items()))
    with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}")) as error:
        factory(**arguments)
    assert allowed in str(error.value).partition("must be")[2]


@every_form
def test_spaces_and_agents(config):
    env = make(config)
    assert env.possible_agents == [f"player_{seat}" for seat in range(config.players)]
    assert env.max_num_agents == config.players
    length = max(part.slice.stop for part in layout(config.board).values())
    for agent in env.possible_agents:
        space = env.observation_space(agent)
        assert list(space) == ["action_mask", "observation"]
        assert space["observation"] == spaces.Box(-1, 1, (length,), np.float32)
        assert space["action_mask"] == spaces.Box(0, 1, (config.cells + 1,), np.int8)
        assert env.action_space(agent) == spaces.Discrete(config.cells + 1)
        assert env.observation_space(agent) is space  # or seeding a space would not last
        assert env.action_space(agent) is env.action_space(agent)
    assert env.state_space.dtype == np.float32
    assert str(env) == "isis_osiris_v0"


def test_one_shape_serves_all_player_counts_and_variants():
    envs = [make(config) for config in STANDARD_FORMS]
    assert len({str(env.observation_space("player_1")) for env in envs}) == 1
    assert len({str(env.action_space("player_1")) for env in envs}) == 1
    assert len({str(env.state_space) for env in envs}) == 1


@every_board
def test_layout_covers_the_vector_without_gap_or_overlap(board):
    env = isis_osiris_v0.env(board=board)
    for parts, length in (
        (layout(board), env.observation_space("player_0")["observation"].shape[0]),
        (state_layout(board), env.state_space.shape[0]),
    ):
        assert [index for part in parts.values() for index in range(length)[part.slice]] == list(range(length))
        for part in parts.values():
            assert np.prod(part.shape, dtype=int) == part.slice.stop - part.slice.start


def test_no_parallel_api_is_offered():
    """A turn-based game behind a parallel API would show stale observations."""
    assert isis_osiris_v0.env().metadata["is_parallelizable"] is False
    assert not hasattr(isis_osiris_v0, "parallel_env")
    with pytest.raises(AssertionError, match="parallel"):
        pettingzoo.utils.aec_to_parallel(isis_osiris_v0.env())


# --- Play, beside the slow twin


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


@every_form
@pytest.mark.parametrize("recall", [1, 3, "full"])
def test_every_agent_can_be_observed_at_every_moment(config, recall):
    for env, twin, _ in walk(config, games=2, recall=recall):
        while True:
            for agent in env.possible_agents:
                assert env.observation_space(agent).contains(env.observe(agent))
            assert env.state_space.contains(env.state())
            assert env.infos == {agent: {} for agent in env.agents}
            if not (twin.over and env.agents):
                break
            env.step(None)


@every_form
def test_arrays_are_fresh_at_every_call(config):
    """Whoever stores or scribbles on an observation must not see it change or change the next one."""
    env, actions = mid_draw(config)
    kept, before = arrays_of(env), snapshot(env)
    values = [array.copy() for array in kept]
    env.step(actions[0])
    again = arrays_of(env)
    assert all(np.array_equal(array, value) for array, value in zip(kept, values, strict=True))
    assert not any(np.shares_memory(old, new) for old in kept for new in again)
    env, _ = mid_draw(config)
    for array in arrays_of(env):
        array[:] = -1
    assert snapshot(env) == before


def arrays_of(env):
    return [*(array for agent in env.possible_agents for array in env.observe(agent).values()), env.state()]


@every_form
def test_state_holds_faces_order_and_placer_of_everything_placed(config):
    parts, side = state_layout(config.board), config.side
    for env, twin, _ in walk(config, games=2):
        state = env.state()
        part = {name: state[parts[name].slice] * parts[name].scale for name in ("faces", "placed_at", "tile_placer")}
        faces = [piece[1] if piece and piece[0] == "tile" else 0 for piece in twin.board]
        assert part["faces"].round().tolist() == faces
        placed_at, placers = [0] * config.cells, np.zeros((4, config.cells))
        for turn, (seat, cell) in enumerate(twin.history, start=1):
            placed_at[cell] = turn
            placers[seat, cell] = twin.board[cell][0] == "tile"
        assert part["placed_at"].round().tolist() == placed_at
        assert np.array_equal(part["tile_placer"].reshape(4, side * side), placers)


@every_form
def test_planes_show_the_pieces_where_they_lie(config):
    for env, twin, _ in walk(config, games=2, recall="full"):
        for seat, agent in enumerate(env.possible_agents):
            expected = np.zeros((6, config.cells))
            for cell, piece in enumerate(twin.board):
                if piece and piece[0] == "stone":
                    expected[(piece[1] - seat) % config.players, cell] = 1
                elif piece:
                    expected[4:, cell] = 1, piece[1] / 4
            seen = planes(env.observe(agent)["observation"], config.board)
            assert np.array_equal(seen, expected.reshape(6, config.side, config.side))


@pytest.mark.parametrize("symmetry", range(8))
@pytest.mark.parametrize("config", [ALL_FORMS[3], *ALL_FORMS[-2:]], ids=form_id)
def test_a_mapped_game_looks_like_the_mapped_observations(config, symmetry):
    env, actions = begin(config, 0, seed=symmetry)
    mapped, _ = begin(config, 0, seed=symmetry)
    for action in actions:
        env.step(action)
        mapped.step(apply_to_action(action, symmetry, config.board))
        for agent in env.possible_agents:
            here, there = env.observe(agent), mapped.observe(agent)
            expected = apply_to_observation(here["observation"], symmetry, config.board)
            assert np.array_equal(there["observation"], expected)
            assert np.array_equal(there["action_mask"], apply_to_mask(here["action_mask"], symmetry, config.board))
        assert np.array_equal(mapped.state(), apply_to_observation(env.state(), symmetry, config.board))
        assert mapped._states.tobytes() == apply_to_state(env._states, symmetry).tobytes()
    assert mapped.scores() == env.scores()


# --- Rewards and the end


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


# --- Reset


def test_a_seed_fixes_the_game_and_zero_is_a_seed():
    games = {}
    for seed in (0, 1, 2, 2**64 - 1):
        env = isis_osiris_v0.env()
        env.reset(seed=seed)
        first = snapshot(env), draw_everything(env)
        env.reset(seed=seed)
        assert (snapshot(env), draw_everything(env)) == first
        assert env.deal_id == f"seed={seed} episode=0"
        games[seed] = repr(first[1])
    assert len(set(games.values())) == 4


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint64])
def test_numpy_integers_are_seeds(kind):
    env = isis_osiris_v0.env()
    env.reset(seed=kind(7))
    assert env.deal_id == "seed=7 episode=0"
    assert COPIES["json"](env).deal_id == env.deal_id


@every_form
def test_reset_without_seed_goes_to_the_next_episode(config):
    env, other = make(config), make(config)
    env.reset(seed=5)
    for episode in range(1, 4):
        env.reset()
        assert env.deal_id == f"seed=5 episode={episode}"
        other.reset(options={"deal_id": f"seed=5 episode={episode}"})
        assert draw_everything(env) == draw_everything(other)
    env.reset(seed=5)
    assert env.deal_id == "seed=5 episode=0"


def test_the_very_first_reset_without_seed_takes_fresh_entropy():
    ids = set()
    for _ in range(5):
        env = isis_osiris_v0.env()
        env.reset()
        ids.add(env.deal_id)
    assert len(ids) == 5


@every_form
def test_the_start_player_is_drawn_from_the_seed_and_is_selected(config):
    env = make(config)
    starts = set()
    for seed in range(40):
        env.reset(seed=seed)
        starts.add(env.agent_selection)
    assert starts == set(env.possible_agents)


@every_form
def test_options_override_the_seed_for_one_episode(config):
    plain, env = make(config), make(config)
    deck, _ = random_deal(config, random.Random(1))
    plain.reset(seed=4)
    start, piles = plain.agent_selection, draw_everything(plain)
    for seat, agent in enumerate(plain.possible_agents):
        env.reset(seed=4, options={"start_player": np.int64(seat)})
        assert env.agent_selection == agent
        assert draw_everything(env) == piles  # the seed's deck
    env.reset(seed=4, options={"deck": np.array(deck)})
    assert env.agent_selection == start  # the seed's start player
    size = config.pile_size
    shown = draw_everything(env)
    assert shown == {pile: deck[pile * size :][: len(faces)] for pile, faces in shown.items()}
    for options in ({"deck": deck}, {"start_player": 0}, {"deal_id": "seed=8 episode=3"}):
        env.reset(seed=4, options=options)
        env.reset()
        plain.reset(seed=4)
        plain.reset()
        assert snapshot(env) == snapshot(plain)
        assert draw_everything(env) == draw_everything(plain)


@every_form
def test_deal_id_restores_all_three_kinds_of_deal(config):
    deck, start = random_deal(config, random.Random(2))
    for options in (None, {"start_player": start}, {"deck": deck}, {"deck": deck, "start_player": start}):
        env, other = make(config), make(config)
        env.reset(seed=11)
        env.reset(options=options)
        other.reset(options={"deal_id": env.deal_id})
        assert isinstance(env.deal_id, str)
        assert snapshot(other) == snapshot(env)
        assert draw_everything(other) == draw_everything(env)
    assert env.deal_id == "deck=" + "".join(f"{face:+d}" for face in deck) + f" start={start}"


def test_start_player_and_deck_override_a_deal_id_too():
    env = isis_osiris_v0.env(players=3)
    for seat in range(3):
        env.reset(options={"deal_id": "seed=11 episode=2 start=1", "start_player": seat})
        assert env.deal_id == f"seed=11 episode=2 start={seat}"
        assert env.agent_selection == f"player_{seat}"


def test_unknown_options_are_ignored_with_one_warning():
    env, plain = isis_osiris_v0.env(), isis_osiris_v0.env()
    with pytest.warns(UserWarning, match="'colour', 'size' ignored") as caught:
        env.reset(seed=1, options={"colour": 1, "start_player": 0, "size": None})
    assert [warning.category for warning in caught].count(UserWarning) == 1
    plain.reset(seed=1, options={"start_player": 0})
    assert snapshot(env) == snapshot(plain)


def test_known_options_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        isis_osiris_v0.env().reset(seed=1, options={"start_player": 1, "deck": list(BOARDS["standard"].faces)})
        isis_osiris_v0.env().reset(options={})


FULL_DECK = list(BOARDS["standard"].faces)


@pytest.mark.parametrize(
    "arguments",
    [
        *[{"seed": seed} for seed in (-1, 2**64, 1.0, "1", True, np.bool_(True), [1])],
        *[{"options": {"start_player": start}} for start in (-1, 2, 0.0, "0", True, "player_0")],
        *[{"options": {"deck": deck}} for deck in ([], FULL_DECK[1:], [*FULL_DECK, 1], [1] * 22, [0] * 22, 5, "deck")],
        {"options": {"deck": [float(face) for face in FULL_DECK]}},
        *[{"options": {"deal_id": text}} for text in ("", "seed=1", "seed=-1 episode=0", "deck=+1-1 start=0", 3)],
        {"options": {"deal_id": "seed=1 episode=0 start=2"}},
        {"options": {"deal_id": f"seed={2**64} episode=0"}},
        {"options": {"deal_id": "deck=" + "".join(f"{face:+d}" for face in FULL_DECK)}},
        {"options": ["start_player"]},
        {"options": {"start_player": 0, "deck": [1]}},
    ],
    ids=repr,
)
def test_wrong_reset_argument_raises_naming_it_and_leaves_the_game_running(arguments):
    env, _ = mid_draw(GameConfig())
    before = snapshot(env)
    name, value = next(iter(arguments.items()))
    if isinstance(value, dict):
        name = list(value)[-1]
    with pytest.raises((ValueError, TypeError), match=name) as error:
        env.reset(**arguments)
    assert "must be" in str(error.value)
    assert snapshot(env) == before
    env.reset()
    assert env.deal_id == "seed=0 episode=2"  # the failed reset was no episode


BEFORE_RESET = {
    "step": lambda env: env.step(0),
    "dead step": lambda env: env.step(None),
    "observe": lambda env: env.observe("player_0"),
    "last": lambda env: env.last(),
    "agent_iter": lambda env: list(env.agent_iter()),
    "agents": lambda env: env.agents,
    "num_agents": lambda env: env.num_agents,
    "agent_selection": lambda env: env.agent_selection,
    "rewards": lambda env: env.rewards,
    "state": lambda env: env.state(),
    "scores": lambda env: env.scores(),
    "winners": lambda env: env.winners(),
    "skipped": lambda env: env.skipped,
    "deal_id": lambda env: env.deal_id,
    "render": lambda env: env.render(),
}


@pytest.mark.parametrize("use", BEFORE_RESET.values(), ids=BEFORE_RESET)
def test_use_before_reset_raises_saying_so(use):
    env = isis_osiris_v0.env(render_mode="ansi")
    with pytest.raises((ResetNeeded, AttributeError), match=r"before reset\(\)"):
        use(env)


@pytest.mark.parametrize("agent", ["player_2", "player_-1", "", None, 0])
def test_observing_nobody_raises_naming_the_agents(agent):
    env = isis_osiris_v0.env()
    env.reset()
    with pytest.raises(ValueError, match=f"agent={agent!r}: must be one of player_0, player_1"):
        env.observe(agent)


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


# --- Illegal actions


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


# --- Copies


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


def test_a_spawned_process_plays_a_pickled_env_on():
    env, actions = mid_draw(GameConfig("standard", 3))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(play_on, (env, actions))
    assert there == play_on(env, actions)


# --- Pictures


@every_form
@pytest.mark.parametrize("recall", [1, 2, "full"])
def test_ansi_shows_what_the_seat_on_turn_may_know_and_all_after_the_end(config, recall):
    for env, twin, _ in walk(config, games=2, recall=recall, render_mode="ansi"):
        text = env.render()
        board = text.partition("player_0")[0]
        visible = twin.visible(twin.seat if not twin.over else 0, "full" if twin.over else recall)
        tiles = [cell for cell, piece in enumerate(twin.board) if piece and piece[0] == "tile"]
        assert re.findall(r"\[([+-]\d|  )\]", board) == [f"{visible[c]:+d}" if c in visible else "  " for c in tiles]
        stones = [str(piece[1]) for piece in twin.board if piece and piece[0] == "stone"]
        assert re.findall(r"\((\d)\)", board) == stones
        if twin.held is not None:
            assert f"{twin.held:+d}" in text.partition("to place")[2]


def test_a_full_board_that_is_still_concealed_shows_no_scores():
    for env, _, action in walk(GameConfig(), games=1):
        if action is None:
            concealed = known_states(env._states, np.array([0]), 1)[0]
    text = render_text(concealed)
    assert "score" not in text
    assert "strip" not in text
    assert "127" not in text


@every_form
def test_human_prints_the_same_picture_and_returns_nothing(config, capsys):
    human, actions = mid_draw(config, render_mode="human")
    ansi, _ = mid_draw(config, render_mode="ansi")
    for action in actions:
        capsys.readouterr()
        assert human.render() is None
        assert capsys.readouterr().out.strip() == ansi.render().strip()
        human.step(action)
        ansi.step(action)


def test_render_without_a_mode_warns_and_draws_nothing(capsys):
    env = isis_osiris_v0.env()
    env.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None
    assert capsys.readouterr().out == ""


# --- PettingZoo's own suites


@every_form
@pytest.mark.parametrize("illegal", ["raise", "lose"])
def test_pettingzoo_api_test(config, illegal):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        api_test(make(config, illegal=illegal), num_cycles=100)
    expected = (
        "reset options 'options' ignored",  # api_test passes one
        "Observation space for each agent probably should be",  # Dict observations of third-party envs always warn
        "Observation is not a NumPy array",
        "Action mask numpy array is all zeros",  # after the end
    )
    messages = [str(warning.message) for warning in caught if warning.category is UserWarning]
    assert [message for message in messages if not message.startswith(expected)] == []


@every_form
def test_pettingzoo_seed_test(config):
    seed_test(partial(make, config), num_cycles=100)


@every_form
def test_pettingzoo_render_test(config, capsys):
    render_test(partial(make, config))


def test_pettingzoo_performance_benchmark_runs(monkeypatch, capsys):
    """Under a clock of its own that lets its five seconds pass in 300 cycles."""
    ticks = itertools.count(step=1 / 60)
    benchmark = importlib.import_module("pettingzoo.test.performance_benchmark")
    monkeypatch.setattr(benchmark, "time", SimpleNamespace(time=lambda: next(ticks)))
    performance_benchmark(isis_osiris_v0.env(players=3))
    assert "Finished" in capsys.readouterr().out


@pytest.mark.skipif(not hasattr(pettingzoo, "make"), reason="this PettingZoo has no registry")
def test_pettingzoo_makes_the_env_by_name():
    env = pettingzoo.make("aec", "isis_env/isis_osiris_v0", players=4, common_reserve=True, illegal="lose")
    assert isinstance(env.unwrapped, isis_osiris_v0.raw_env)
    env.reset(seed=1)
    assert env.agents == [f"player_{seat}" for seat in range(4)]
    env.step(-1)
    assert all(env.terminations.values())


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
