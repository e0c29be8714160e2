"""Observations, state and planes of the AEC environment, beside the slow twin."""

import numpy as np
import pytest
from aec_play import begin, every_form, mid_draw, snapshot, walk
from conftest import ALL_FORMS, form_id

from isis_env import isis_osiris_v0
from isis_env.observation import planes, state_layout
from isis_env.symmetry import apply_to_action, apply_to_mask, apply_to_observation, apply_to_state


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


@pytest.mark.parametrize("agent", ["player_2", "player_-1", "", None, 0])
def test_observing_nobody_raises_naming_the_agents(agent):
    env = isis_osiris_v0.env()
    env.reset()
    with pytest.raises(ValueError, match=f"agent={agent!r}: must be one of player_0, player_1"):
        env.observe(agent)
