"""What the tests of the AEC environment share: envs at known points of games, and all that is seen of one."""

import copy
import json
import pickle
import random

import numpy as np
import pytest
from conftest import ALL_FORMS, form_id, random_game

from isis_env import isis_osiris_v0
from isis_env.config import BOARDS
from isis_env.observation import layout

COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "json": lambda env: isis_osiris_v0.raw_env.from_dict(json.loads(json.dumps(env.to_dict()))),
}
FACES = [-4, -3, -2, -1, 1, 2, 3, 4]  # the order of one-hot parts
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
    return FACES[held.argmax()] if held.any() else None


def illegal_actions(env):
    """Every integer beside the space and within it that is not legal, and the far ends of integer types."""
    size = env.config.num_actions
    legal = np.flatnonzero(env.observe(env.agent_selection)["action_mask"]).tolist()
    near = [action for action in range(-size - 1, size + 3) if action not in legal]
    return [*near, 2**7, 2**31, -(2**63), 2**63, 2**64, -(10**30), 10**30, np.int64(-1), np.uint64(2**64 - 1)]


def part(observation, name, board):
    """One part of an observation in the units of the game."""
    entry = layout(board)[name]
    return np.rint(observation["observation"][entry.slice] * entry.scale).astype(int)
