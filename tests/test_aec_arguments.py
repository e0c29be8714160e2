"""The arguments of the AEC environment, its spaces and agents."""

import inspect
import re

import numpy as np
import pettingzoo
import pytest
from aec_play import every_board, every_form, make
from conftest import STANDARD_FORMS
from gymnasium import spaces

from isis_env import isis_osiris_v0
from isis_env.observation import layout, state_layout

DEFAULTS = {
    "players": 2,
    "common_reserve": False,
    "board": "standard",
    "recall": 1,
    "reward": "win",
    "illegal": "raise",
    "render_mode": None,
}


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
