"""What the environment is made of and read back from: junk of every type is an error that names key, value, allowed."""

import itertools
import json

import numpy as np
import pytest

from isis_env import isis_osiris_v0
from isis_env.config import shown
from isis_env.game import IllegalActionError

JUNK = [None, True, False, 1.0, -1, 10**400, float("nan"), "", "x" * 5000, "\ud800", [], [[]], {}, {"a": 1}]


def raw(data):
    return isis_osiris_v0.raw_env.from_dict(data)


def playing(decisions=5, seed=7, **settings):
    env = isis_osiris_v0.env(**settings)
    env.reset(seed=seed)
    for _ in range(decisions):
        env.step(int(env.last()[0]["action_mask"].nonzero()[0][-1]))
    return env


def refusal(data):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the caller looks at the message)
        raw(data)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


def finished():
    env = playing(0, board="mini3")
    while not env.terminations[env.agent_selection]:
        env.step(int(env.last()[0]["action_mask"].nonzero()[0][-1]))
    return env


def offended():
    env = playing(3, illegal="lose")
    env.step(-1)
    env.step(None)
    return env


SAVED = {
    "new": isis_osiris_v0.env,
    "running": playing,
    "finished": finished,
    "offended": offended,
    "three": lambda: playing(players=3, common_reserve=True, recall="full", illegal="lose"),
}


@pytest.mark.parametrize("name", SAVED)
def test_what_is_saved_is_read_back_as_it_is(name):
    data = json.loads(json.dumps(SAVED[name]().to_dict()))
    assert raw(data).to_dict() == data


@pytest.mark.parametrize("name", SAVED)
def test_junk_in_any_key_is_refused_or_is_what_stood_there(name):
    data = SAVED[name]().to_dict()
    for (key, right), wrong in itertools.product(data.items(), JUNK):
        if repr(wrong) == repr(right):
            continue
        changed = {**data, key: wrong}
        try:
            again = raw(changed)
        except ValueError as error:
            message = str(error)
            assert key in message or (key, wrong) == ("offender", None), message
            assert "\n" not in message
            assert len(message) < 1000
        else:
            assert repr(again.to_dict()) == repr(changed), f"{key}={wrong!r} was taken as something else"


@pytest.mark.parametrize("key", ["players", "common_reserve", "board", "recall", "reward", "illegal", "render_mode"])
def test_junk_in_any_setting_is_refused(key):
    data = playing().to_dict()
    allowed = {"common_reserve": [False, True], "render_mode": [None], "recall": [10**400]}.get(key, [])
    for wrong in [*JUNK, 1, 0]:
        if any(repr(wrong) == repr(right) for right in allowed) or (key == "recall" and repr(wrong) == "1"):
            continue
        assert key in refusal({**data, "settings": {**data["settings"], key: wrong}})
    settings = {name: value for name, value in data["settings"].items() if name != key}
    assert f"key {key!r} is missing" in refusal({**data, "settings": settings})


def test_keys_that_are_unknown_or_no_text():
    data = playing().to_dict()
    assert "key 'colour' is unknown" in refusal({**data, "colour": "red"})
    assert "key 3 is unknown" in refusal({**data, 3: 4})
    assert "key 'seat' is unknown" in refusal({**data, "settings": {**data["settings"], "seat": 1}})
    for junk in [None, 5, "text", [], [1], {}]:
        assert "environment=" in refusal(junk)


def test_a_running_game_needs_its_deal():
    data = playing().to_dict()
    assert "deal_id" in refusal({**data, "deal_id": None})
    for key in ("game", "agents"):
        kept = dict.fromkeys(("seed", "deal_id", "game", "agents", "offender"))
        assert f"{key}=" in refusal({**data, **kept, "episode": 0, key: data[key]})
    assert "episode=3: must be 0" in refusal({**isis_osiris_v0.env().to_dict(), "episode": 3})
    assert "seed=None: must be an integer" in refusal({**data, "seed": None})


def test_a_game_of_another_deal_or_form():
    data, other = playing().to_dict(), playing(seed=8).to_dict()
    assert "is not one of deal" in refusal({**data, "game": other["game"]})
    assert "is not one of deal" in refusal({**data, "game": playing(board="mini3").to_dict()["game"]})
    assert "is not one of deal" in refusal({**data, "game": playing(players=3).to_dict()["game"]})


def test_offenders():
    assert "offender=0: must be null where illegal is 'raise'" in refusal({**playing().to_dict(), "offender": 0})
    data = offended().to_dict()
    seat = data["offender"]
    for wrong in (1 - seat, bool(seat), float(seat), str(seat), -1, 2, [seat]):
        assert f"must be null or the seat on turn, {seat}" in refusal({**data, "offender": wrong})
    full = {**finished().to_dict(), "offender": 0}
    full["settings"] = {**full["settings"], "illegal": "lose"}
    assert "offender=0: must be null, the board is full" in refusal(full)


def test_agents_that_are_left():
    data = playing().to_dict()
    for wrong in ([], ["player_1"], ["player_0", "player_1", "player_1"], ["player_1", "player_0"], [0, 1], "player_0"):
        assert "agents=" in refusal({**data, "agents": wrong})
    data = finished().to_dict()
    for left in (["player_0", "player_1"], ["player_1"], []):
        assert raw({**data, "agents": left}).agents == left
    for wrong in (["player_0"], ["player_1", "player_0"], ["player_2"] * 3):
        assert "agents=" in refusal({**data, "agents": wrong})


# Arguments


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("players", True),
        ("players", 2.0),
        ("players", np.float64(2)),
        ("players", "2"),
        ("players", 10**5000),
        ("common_reserve", 1),
        ("common_reserve", 0.0),
        ("common_reserve", "yes"),
        ("recall", True),
        ("recall", np.True_),
        ("recall", 1.0),
        ("recall", np.float32(1)),
        ("recall", 0),
        ("recall", "1"),
        ("reward", None),
        ("reward", ["win"]),
        ("illegal", True),
        ("render_mode", 0),
        ("board", None),
        ("board", ("standard",)),
    ],
    ids=shown,
)
def test_arguments_of_other_types(key, wrong):
    with pytest.raises(ValueError, match=f"^{key}=") as caught:
        isis_osiris_v0.env(**{key: wrong})
    assert "must be" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_numpy_numbers_are_taken_and_saved_as_plain_ones():
    env = isis_osiris_v0.env(players=np.int64(3), common_reserve=np.True_, recall=np.int8(2))
    env.reset(seed=np.uint32(4), options={"start_player": np.int16(1)})
    plain = isis_osiris_v0.env(players=3, common_reserve=True, recall=2)
    plain.reset(seed=4, options={"start_player": 1})
    assert json.dumps(env.to_dict()) == json.dumps(plain.to_dict())


@pytest.mark.parametrize("wrong", [True, np.True_, 1.0, "1", -1, 2**64, 10**5000, [1]], ids=shown)
def test_seeds_and_start_players_of_other_types(wrong):
    env = playing()
    before = env.to_dict()
    with pytest.raises((TypeError, ValueError), match=r"^seed="):
        env.reset(seed=wrong)
    with pytest.raises((TypeError, ValueError), match=r"^start_player="):
        env.reset(options={"start_player": wrong})
    assert env.to_dict() == before


def test_a_deck_holds_integers_and_no_booleans():
    env = isis_osiris_v0.env(board="mini3")
    for deck in ([True, 2, 3, -1, -2, -3], [1.0, 2, 3, -1, -2, -3], "123", None.__class__, [1] * 10_000):
        with pytest.raises(ValueError, match=r"^deck=") as caught:
            env.reset(options={"deck": deck})
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("wrong", [True, np.True_, 1.0, np.float32(1), "1", None, [1], np.ones(2, int)])
def test_actions_of_other_types(wrong):
    env = playing()
    with pytest.raises(TypeError, match=r"^action .*must be an integer") as caught:
        env.step(wrong)
    assert "\n" not in str(caught.value)


def test_an_action_of_any_size_is_an_illegal_one():
    env = playing()
    for action in (10**5000, -(10**5000), 37, np.uint64(2**64 - 1)):
        with pytest.raises(IllegalActionError, match="illegal; legal are"):
            env.step(action)
