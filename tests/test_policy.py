"""Specs and the built-in agents: `random`, `uniform` and `greedy` against its slow twin."""

import random
import sys

import numpy as np
import pytest
from conftest import ALL_FORMS, STANDARD_FORMS, form_id, random_game

from isis_env import GameConfig
from isis_env.agent import Agent
from isis_env.batch import Batch, Decisions
from isis_env.policy import AgentSpecError, make_agent, register, registered

DRAW = 36  # on the standard board
MANY = 36_000


# Specs

FACTORIES = '''
class Fixed:
    """Keeps what it was made with."""

    recall = 1

    def __init__(self, path: str, depth: int = 2, weight: float = 0.5, sample: bool = False):
        self.made_with = (path, depth, weight, sample)

    def act(self, decisions):
        return decisions.action_masks.argmax(axis=1)


def bare(note="none", *, path: "str" = "here") -> Fixed:
    return Fixed(note + path)


class Forgetful:
    def act(self, decisions):
        return decisions.action_masks.argmax(axis=1)


class Idle:
    recall = "full"


def no_agent():
    return 1


number = 3
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of a user's own, on the import path."""
    (tmp_path / "my_agents.py").write_text(FACTORIES)
    (tmp_path / "half_written.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "python:my_agents"
    sys.modules.pop("my_agents", None)


@pytest.fixture
def fixed(module, monkeypatch):
    """The class `Fixed` of that module, registered as `fixed`."""
    from isis_env import policy

    monkeypatch.setattr(policy, "_REGISTRY", dict(policy._REGISTRY))
    import my_agents

    return register("fixed")(my_agents.Fixed)


@pytest.mark.parametrize("name", ["random", "uniform", "greedy"])
def test_built_ins(name):
    agent = make_agent(name)
    assert isinstance(agent, registered()[name])
    assert isinstance(agent, Agent)
    assert agent.recall == "full"


@pytest.mark.parametrize(
    ("arguments", "made_with"),
    [
        ("runs/a", ("runs/a", 2, 0.5, False)),
        ("path=runs/a", ("runs/a", 2, 0.5, False)),
        ("runs/a,depth=3,weight=-1.5,sample=true", ("runs/a", 3, -1.5, True)),
        ("runs/a,weight=2,sample=False", ("runs/a", 2, 2.0, False)),
        ("depth=4,path=runs/a", ("runs/a", 4, 0.5, False)),
        ('"runs/a,b",depth=1', ("runs/a,b", 1, 0.5, False)),
        ('depth=1,path="x=1,depth=9"', ("x=1,depth=9", 1, 0.5, False)),
        ("runs/lr=0.1/a,depth=1", ("runs/lr=0.1/a", 1, 0.5, False)),  # what stands before = is no key
        ("C:/runs/a", ("C:/runs/a", 2, 0.5, False)),
    ],
)
def test_arguments_of_a_spec(fixed, arguments, made_with):
    agent = make_agent(f"fixed:{arguments}")
    assert agent.made_with == made_with
    assert [type(value) for value in agent.made_with] == [str, int, float, bool]


@pytest.mark.parametrize(
    ("arguments", "made_with"),
    [
        ("Fixed,path=runs/a,depth=7", ("runs/a", 7, 0.5, False)),
        ("bare", ("nonehere", 2, 0.5, False)),
        ('bare,path="a,b"', ("nonea,b", 2, 0.5, False)),
        ("bare,note=x", ("xhere", 2, 0.5, False)),
    ],
)
def test_python_specs(module, arguments, made_with):
    agent = make_agent(f"{module}:{arguments}")
    assert agent.made_with == made_with
    assert agent.recall == 1


def test_factories_may_be_functions_and_registry_is_a_copy(fixed):
    registered().clear()
    assert registered()["fixed"] is fixed
    register("made")(lambda: fixed("p"))
    assert make_agent("made").made_with[0] == "p"


BAD_SPECS = [  # spec, what the message must name beside the spec itself
    ("", []),
    ("greedier", ["greedier", "greedy", "random", "uniform", "python"]),
    ("Greedy", ["Greedy", "greedy"]),
    (":x=1", ["greedy"]),
    ("greedy:depth=2", ["depth", "no keys"]),
    ("greedy:2", []),
    ("fixed", ["path"]),
    ("fixed:depth=3", ["path"]),
    ("fixed:a,speed=3", ["speed", "path, depth, weight, sample"]),
    ("fixed:a,depth=two", ["depth=two", "int"]),
    ("fixed:a,depth=2.5", ["depth=2.5", "int"]),
    ("fixed:a,depth=", ["depth=", "int"]),
    ("fixed:a,weight=heavy", ["weight=heavy", "float"]),
    ("fixed:a,sample=1", ["sample=1", "true", "false"]),
    ("fixed:a,depth=1,depth=2", ["depth", "twice"]),
    ("fixed:a,path=b", ["path", "twice"]),
    ("fixed:a,b", ["'b'", "key=value"]),
    ("python", ["python:package.module:factory"]),
    ("python:my_agents", ["python:package.module:factory"]),
    ("python:my_agents:", ["python:package.module:factory"]),
    ("python:./my_agents.py:Fixed", ["my_agents.py"]),
    ("python:no_such_module_anywhere:x", ["no_such_module_anywhere"]),
    ("python:half_written:x", ["no_such_module_anywhere"]),
    ("python:my_agents:nobody", ["nobody"]),
    ("python:my_agents:number", ["number"]),
    ("python:my_agents:Fixed", ["path"]),
    ("python:my_agents:Fixed,path=a,speed=1", ["speed", "path, depth, weight, sample"]),
    ("python:my_agents:Idle", ["act"]),
    ("python:my_agents:Forgetful", ["recall"]),
    ("python:my_agents:no_agent", ["recall", "act"]),
]


@pytest.mark.parametrize(("spec", "named"), BAD_SPECS)
def test_wrong_specs_say_what_is_allowed(fixed, spec, named):
    with pytest.raises(AgentSpecError) as caught:
        make_agent(spec)
    message = str(caught.value)
    assert repr(spec) in message
    assert all(word in message for word in named), message
    assert "\n" not in message


def test_a_spec_is_text():
    with pytest.raises(AgentSpecError, match="None"):
        make_agent(None)


# What the agents choose


def choices(agent, decisions, seeds=None):
    """What an agent answers to the first of `decisions` under many seeds."""
    seeds = np.arange(MANY, dtype=np.uint64) if seeds is None else seeds
    repeated = decisions[np.zeros(len(seeds), int)]
    fields = {field: getattr(repeated, field) for field in Decisions.__dataclass_fields__}
    return agent.act(Decisions(**{**fields, "seeds": seeds}))


def assert_uniform(actions, over):
    """Counts per action as a fair die gives them; the bounds are wide enough to hold in practice always."""
    counts = np.bincount(actions, minlength=DRAW + 1)
    expected = len(actions) / len(over)
    assert np.flatnonzero(counts).tolist() == sorted(over)
    chi_square = float(((counts[over] - expected) ** 2 / expected).sum())
    freedom = len(over) - 1
    assert abs(chi_square - freedom) < 6 * np.sqrt(2 * freedom), "far from uniform, or too even to be random"


@pytest.fixture
def position():
    """Three stones lie, a tile may be drawn: the batch and the free cells."""
    batch = Batch(GameConfig(), 1)
    batch.reset(seed=0)
    for cell in (0, 7, 35):
        batch.step([cell])
    return batch, [cell for cell in range(36) if cell not in (0, 7, 35)]


def test_random_is_a_fair_coin_then_any_free_cell(position):
    batch, free = position
    actions = choices(make_agent("random"), batch.decisions())
    drawn = (actions == DRAW).mean()
    assert abs(drawn - 0.5) < 6 * 0.5 / np.sqrt(MANY)
    assert_uniform(actions[actions != DRAW], free)

    batch.step([DRAW])
    assert_uniform(choices(make_agent("random"), batch.decisions()), free)


def test_random_when_only_one_kind_is_left():
    batch = Batch(GameConfig(players=2, common_reserve=True), 1)
    turn = batch.reset(seed=0)
    while turn.action_masks[0, :36].any():  # until a seat has placed its eight stones and has only tiles to play
        turn = batch.step([turn.action_masks[0].argmax()])
    assert set(choices(make_agent("random"), batch.decisions())) == {DRAW}

    turn = batch.reset(seed=0)
    while turn.action_masks[0, :36].all() or turn.action_masks[0, DRAW] or batch.states["held"][0]:
        turn = batch.step([DRAW if turn.action_masks[0, DRAW] else turn.action_masks[0].argmax()])
    free = np.flatnonzero(turn.action_masks[0]).tolist()  # all tiles are on the board
    assert len(free) == 36 - 22
    assert_uniform(choices(make_agent("random"), batch.decisions()), free)


def test_uniform_is_uniform_over_legal_actions(position):
    batch, free = position
    assert_uniform(choices(make_agent("uniform"), batch.decisions()), [*free, DRAW])
    batch.step([DRAW])
    assert_uniform(choices(make_agent("uniform"), batch.decisions()), free)


@pytest.mark.parametrize("name", ["random", "uniform"])
def test_neighbouring_seeds_are_independent(position, name):
    """Consecutive seeds, and seeds that differ in their high bits, give no pattern."""
    decisions = position[0].decisions()
    for seeds in (np.arange(20_000, dtype=np.uint64), np.arange(20_000, dtype=np.uint64) << np.uint64(48)):
        actions = choices(make_agent(name), decisions, seeds)
        high = actions >= np.median(actions)
        both = (high[1:] & high[:-1]).mean()
        assert abs(both - high.mean() ** 2) < 6 * 0.5 / np.sqrt(len(seeds))


def greedy_decisions(config, games, share, seed):
    """Positions of random games: (the slow twin's allowed actions, the engine's decision)."""
    rng = random.Random(seed)
    batch = Batch(config, 1)
    for _ in range(games):
        begun = False
        for twin, deck, action in random_game(config, rng):
            if not begun:
                batch.reset(seed=rng.randrange(2**64), deck=[deck], start_player=[twin.seat])
                begun = True
            if rng.random() < share:
                yield twin.greedy_actions(), batch.decisions()
            batch.step([action])


@pytest.mark.slow
@pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
def test_greedy_chooses_what_its_twin_allows_and_all_of_it(config):
    agent = make_agent("greedy")
    few, many = 0, 0
    for allowed, decisions in greedy_decisions(config, games=20, share=0.5, seed=3):
        seeds = np.arange(1000, dtype=np.uint64)  # enough to meet 36 equals
        assert set(choices(agent, decisions, seeds).tolist()) == set(allowed)
        few += len(allowed) == 1
        many += len(allowed) > 1
    assert few > 30
    assert many > 30


def test_greedy_chooses_evenly_among_equals():
    batch = Batch(GameConfig(players=3), 1)
    batch.reset(seed=0)
    batch.step([DRAW])
    actions = choices(make_agent("greedy"), batch.decisions())  # nothing lies beside any cell
    assert_uniform(actions, list(range(36)))


@pytest.mark.parametrize("name", ["random", "uniform", "greedy"])
def test_a_move_does_not_depend_on_neighbours(name):
    """The same position and seed alone, in a batch of 64, shuffled, and repeated."""
    agent = make_agent(name)
    batch = Batch([STANDARD_FORMS[row % 6] for row in range(64)])
    turn = batch.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(40):
        decisions = batch.decisions()
        actions = agent.act(decisions)
        assert np.take_along_axis(decisions.action_masks, actions[:, None], 1).all()
        order = rng.permutation(64)
        np.testing.assert_array_equal(agent.act(decisions[order]), actions[order])
        np.testing.assert_array_equal(agent.act(decisions), actions)
        for row in order[:4]:
            assert agent.act(decisions[row : row + 1]) == actions[row]
            assert make_agent(name).act(batch.decisions(order[order == row])) == actions[row]
        turn = batch.step((turn.action_masks * rng.random(turn.action_masks.shape)).argmax(axis=1))


@pytest.mark.parametrize("name", ["random", "uniform", "greedy"])
def test_answers_leave_the_decisions_alone(name):
    batch = Batch(GameConfig(), 64)
    batch.reset(seed=1)
    decisions = batch.decisions()
    before = [getattr(decisions, field).tobytes() for field in Decisions.__dataclass_fields__]
    actions = make_agent(name).act(decisions)
    assert actions.shape == (64,)
    assert actions.dtype == np.int64
    assert [getattr(decisions, field).tobytes() for field in Decisions.__dataclass_fields__] == before
