"""What `reset` of the AEC environment may be told: seeds, options, deal ids; and use before it."""

import random
import warnings

import numpy as np
import pytest
from aec_play import COPIES, draw_everything, every_form, make, mid_draw, snapshot
from conftest import random_deal
from gymnasium.error import ResetNeeded

from isis_env import isis_osiris_v0
from isis_env.config import BOARDS, GameConfig


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
