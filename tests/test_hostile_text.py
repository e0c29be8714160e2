"""Notation, deal ids and specs: digits of other scripts, endless texts, numbers that no memory or machine holds."""

import sys

import pytest

import agents  # noqa: F401  (registers the agents of the repository)
from isis_env import GameConfig, notation
from isis_env.config import shown
from isis_env.deal import Deal
from isis_env.limits import available_memory, check_memory
from isis_env.notation import NotationError
from isis_env.policy import AgentSpecError, make_agent

HEADER = "[isis-osiris 1] board=standard players=2 variant=personal start=0"
DIGITS = {"Arabic-Indic": "٢", "full-width": "２", "superscript": "²", "Devanagari": "२"}  # all are a 2


def message_of(error, call):
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


@pytest.mark.parametrize("two", DIGITS.values(), ids=DIGITS)
@pytest.mark.parametrize(
    "text",
    [
        "[isis-osiris 1] board=standard players=2 variant=personal start=0\na{}",
        "[isis-osiris 1] board=standard players=2 variant=personal start=0\na1+{}",
        "[isis-osiris 1] board=standard players=2 variant=personal start=0\n?-{}",
        "[isis-osiris 1] board=standard players={} variant=personal start=0",
        "[isis-osiris 1] board=standard players=3 variant=personal start={}",
        "[isis-osiris {}] board=standard players=2 variant=personal start=0",
    ],
)
def test_digits_of_other_scripts_are_no_notation(text, two):
    message_of(NotationError, lambda: notation.loads(text.format(two)))
    if "[isis-osiris {}]" not in text:
        notation.loads(text.format("2"))


@pytest.mark.parametrize("value", [None, b"[isis-osiris 1]", 1, 1.5, True, ["a1"], {}, object()])
def test_what_is_no_text_is_no_notation(value):
    assert "must be text" in message_of(NotationError, lambda: notation.loads(value))
    assert "must be a1 to f6" in message_of(NotationError, lambda: notation.parse_cell(value))


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "\n" + "a1 " * 100_000,
        "[isis-osiris " + "1" * 5000 + "]",
        HEADER.replace("players=2", "players=" + "2" * 1000),
        HEADER.replace("players=2", "players=02"),
        HEADER.replace("start=0", "start=00"),
        HEADER.replace("start=0", "start=" + "0" * 1000),
        HEADER + "\na" + "1" * 1000,
        HEADER + "\na1+" + "1" * 1000,
        HEADER + "\0",
        HEADER + "\na1\0",
    ],
    ids=shown,
)
def test_long_and_odd_texts(text):
    message_of(NotationError, lambda: notation.loads(text))


@pytest.mark.parametrize("two", DIGITS.values(), ids=DIGITS)
@pytest.mark.parametrize("text", ["seed={} episode=0", "seed=1 episode={}", "seed=1 episode=0 start={}"])
def test_deal_ids_take_plain_digits(text, two):
    assert "deal_id=" in message_of(ValueError, lambda: Deal.parse(text.format(two), GameConfig(players=3)))
    Deal.parse(text.format(2), GameConfig(players=3))


@pytest.mark.parametrize(
    "value", [None, 7, True, b"seed=1 episode=0", "seed=" + "1" * 5000, "deck=" + "+1" * 9999, {}], ids=shown
)
def test_what_is_no_deal_id(value):
    assert "deal_id=" in message_of(ValueError, lambda: Deal.parse(value, GameConfig()))


# Specs


@pytest.mark.parametrize(
    "value",
    [*DIGITS.values(), "1_000", "0x10", "1e", "1.5", "nan", "inf", "1e400", "9" * 5000, " 5", "5 ", "True", "-"],
)
def test_what_is_no_whole_number(value):
    assert "simulations=" in message_of(AgentSpecError, lambda: make_agent(f"mcts:simulations={value}"))


@pytest.mark.parametrize(
    "value", [*DIGITS.values(), "1_000.0", "nan", "inf", "-inf", "1e999", "9" * 5000, "1,5", "-1"], ids=shown
)
def test_what_is_no_finite_number(value):
    assert "c=" in message_of(AgentSpecError, lambda: make_agent(f"mcts:c={value}"))


@pytest.mark.parametrize(("text", "number"), [("1e3", 1000), ("2.5e2", 250), ("1000.0", 1000), ("+7", 7), ("007", 7)])
def test_whole_numbers_as_people_write_them(text, number):
    agent = make_agent(f"mcts:simulations={text}")
    assert agent.simulations == number
    assert type(agent.simulations) is int


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ("mcts:simulations=0", "simulations=0: must be from 1"),
        ("mcts:simulations=-5", "simulations=-5: must be from 1"),
        ("mcts:simulations=2000000000", "simulations=2000000000: must be at most"),
        ("mcts:simulations=99999999999999999999", "must be from 1 to 2147483647"),
        ("mcts:simulations=2000000000,seconds=1", "must be at most"),
        ("mcts:temperature=1e300", "temperature=1e+300: must be from 0 to"),
        ("mcts:c=-1", "c=-1.0: must be from 0 to"),
        ("mcts:seconds=-0.5", "seconds=-0.5: must be from 0 to"),
        ("mcts:exact=100", "exact=100: must be from 0 to 36"),
        ("mcts:exact=-1", "exact=-1: must be from 0 to 36"),
        ("mcts:leaf=Greedy", "leaf='Greedy': must be one of"),
        ("flat_mc:simulations=1e12", "simulations=1000000000000: must be from 1 to"),
        ("flat_mc:candidates=37", "candidates=37: must be from 1 to 36"),
        ("expectimax:depth=0", "depth=0: must be from 1 to 36"),
        ("expectimax:exact=37", "exact=37: must be from 0 to 36"),
        ("exact:free=37", "free=37: must be from 0 to 36"),
        ("exact:max_nodes=0", "max_nodes=0: must be at least 1"),
        ("exact:max_nodes=1e15", "max_nodes=1000000000000000: must be at most"),
        ('mcts:leaf="greedy', "a quotation mark is not closed"),
    ],
)
def test_numbers_out_of_range_name_key_value_and_what_is_allowed(spec, allowed):
    assert allowed in message_of(AgentSpecError, lambda: make_agent(spec))


def test_the_memory_that_is_available():
    available = available_memory()
    assert 2**20 < available < 2**62
    check_memory("things", 1, 2**20)
    with pytest.raises(ValueError, match=r"^things=\d+: must be at most \d+, which fill the memory"):
        check_memory("things", available, 2)


def test_a_tree_takes_the_memory_that_was_counted():
    from agents.search.tree import BYTES_PER_SIMULATION, new_tree

    tree = new_tree(1000)
    assert sum(part.nbytes for part in tree) == pytest.approx(1000 * BYTES_PER_SIMULATION, rel=0.01)


def test_a_deep_chain_of_agents_is_an_error(tmp_path):
    spec = "exact:before=" * 2000 + "greedy"
    message_of(AgentSpecError, lambda: make_agent(spec))


@pytest.mark.parametrize("name", ["exact", "expectimax", "flat_mc", "mcts", "ppo", "remember"])
def test_agents_of_the_repository_say_where_they_come_from(name, monkeypatch):
    from isis_env import baselines, policy

    assert set(policy._OF_THE_REPOSITORY) | {"random", "uniform", "greedy"} == set(policy._REGISTRY)
    monkeypatch.setattr(policy, "_REGISTRY", {"greedy": baselines.Greedy})
    assert "`import agents` in a checkout" in message_of(AgentSpecError, lambda: make_agent(f"{name}:x=1"))


@pytest.mark.parametrize(
    ("package", "module", "words"),
    [
        ("stable_baselines3.common.vec_env", "isis_env.envs.sb3", "pip install 'isis-env[sb3]'"),
        ("gymnasium.vector.AutoresetMode", "isis_env.envs.vector", "pip install 'gymnasium>=1.1'"),
    ],
)
def test_a_package_that_is_missing_is_named_with_what_installs_it(package, module, words, monkeypatch):
    parent, _, name = package.rpartition(".")
    monkeypatch.delitem(sys.modules, module, raising=False)
    if parent == "gymnasium.vector":
        import gymnasium.vector

        monkeypatch.delattr(gymnasium.vector, name)
    else:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError) as caught:
        __import__(module)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
