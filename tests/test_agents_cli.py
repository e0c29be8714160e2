"""`python -m agents`: what it lists, explains and refuses."""

import inspect
import io
import subprocess
import sys
from pathlib import Path

import pytest

from agents.__main__ import main
from isis_env.policy import registered

pytestmark = pytest.mark.slow

TWO_CELLS = "[isis-osiris 1] board=mini3 players=2 variant=personal start=0\na1 c3 a2 b1+3 b2+1 a3-2 b3-3"
FULL = "[isis-osiris 1] board=mini3 players=2 variant=personal start=0\na1 a3 a2 c3 b2+2 b3+3 c1-1 c2-3 b1+1"
START = "[isis-osiris 1] board=standard players=2 variant=personal start=1"


@pytest.fixture
def ask(tmp_path, capsys):
    """Ask an agent about a position given as text: exit code, lines of output, lines of errors."""

    def run(spec, text, *options):
        file = tmp_path / "position.txt"
        file.write_text(text)
        code = main([spec, "--position", str(file), *options])
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err.splitlines()

    return run


def test_every_agent_is_listed_with_its_arguments(capsys):
    assert main([]) == 0
    headings = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith(" ")]
    assert [heading.partition(":")[0] for heading in headings] == list(registered())
    assert {"expectimax", "flat_mc", "mcts", "exact", "greedy", "random", "uniform", "ppo"} <= set(registered())
    for heading, factory in zip(headings, registered().values(), strict=True):
        for name, parameter in inspect.signature(factory).parameters.items():
            expected = name if parameter.default is parameter.empty else f"{name}={parameter.default}"
            assert expected in heading.partition(":")[2].split(",")


@pytest.mark.parametrize("spec", ["exact", "expectimax", "mcts"])
def test_a_choice_is_explained(ask, spec):
    """Counted by hand in `test_exact`: seat 1 gets -1 for c1, and loses more by all else."""
    code, out, err = ask(f"{spec}:reward=margin", TWO_CELLS)
    assert (code, err) == (0, [])
    assert out == ["seat 1 plays c1", "value -1.000", "   c1  100.0%  -1.000"]


def test_actions_are_listed_from_the_most_probable_up_to_the_number_asked_for(ask):
    _, out, _ = ask("random", START)
    assert out[1] == "value -"
    assert out[2].split()[:2] == ["draw", "50.0%"]
    assert out[-1] == "(-: the agent has no estimate of the return)"
    assert len(out) == 2 + 8 + 1
    assert all(line.split()[1:] == ["1.4%", "-"] for line in out[3:-1])
    assert len(ask("random", START, "--top", "2")[1]) == 2 + 2 + 1
    seeded = [ask("random", START, "--seed", str(seed))[1] for seed in (1, 1, *range(2, 20))]
    assert seeded[0] == seeded[1]
    assert len({lines[0] for lines in seeded}) > 5, "draw and a number of cells"


def test_a_held_tile_and_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{TWO_CELLS} ?+2".encode())))
    assert main(["exact:reward=margin", "--position", "-"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "seat 1 plays c2"


def test_an_agent_that_cannot_tell_only_names_its_choice(ask, tmp_path, monkeypatch):
    (tmp_path / "silent.py").write_text(
        "class Last:\n    recall = 1\n\n    def act(self, decisions):\n        return [decisions.states[0].side ** 2]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert ask("python:silent:Last", TWO_CELLS) == (0, ["seat 1 plays draw"], [])
    sys.modules.pop("silent")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"\x80\xff\x00junk", "byte 0 is no text"),
        (b"a1 " * 10**5, "at most 100000 bytes"),
        (b"\0" * 50, "position.txt: "),
        (b"", "position.txt: "),
        (None, "position.txt: cannot be read"),
    ],
    ids=["binary", "huge", "zeros", "empty", "folder"],
)
def test_a_file_that_holds_no_position_is_named_in_one_line(content, named, tmp_path, capsys):
    file = tmp_path / "position.txt"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    assert main(["greedy", "--position", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert named in line
    assert len(line) < 400


@pytest.mark.parametrize(
    ("spec", "text", "options", "named"),
    [
        ("nobody", START, [], "nobody"),
        ("mcts:simulations=none", START, [], "simulations=none"),
        ("mcts:simulations=0", START, [], "simulations=0"),
        ("greedy", "a1 b2", [], "isis-osiris"),
        ("greedy", START + "\na1 a1", [], "a1"),
        ("greedy", FULL, [], "over"),
        ("greedy", START, ["--seed", "-1"], "seed=-1"),
        ("greedy", START, ["--top", "-1"], "--top -1"),
        ("greedy", START, ["--top", "many"], "'many'"),
        ("exact:free=36,max_nodes=500", START, [], "500"),
        ("greedy", START, ["--position", "no-such-file.txt"], "no-such-file.txt"),
    ],
)
def test_what_cannot_be_used_is_named_in_one_line(ask, spec, text, options, named):
    code, out, err = ask(spec, text, *options)
    assert (code, out) == (2, [])
    (line,) = err
    assert line.startswith("error: ")
    assert named in line


def test_a_network_of_another_board_is_named_in_one_line(ask, tmp_path):
    from agents.learned.checkpoint import network_metadata, save_checkpoint
    from agents.learned.network import BoardNetwork

    network = BoardNetwork("mini3", 8, 1)
    folder = tmp_path / "step-0000000001"
    save_checkpoint(folder, network, network_metadata(network, "mini3", "full", 1))
    for spec in (f"ppo:{folder}", f"mcts:simulations=20,exact=0,network={folder}"):
        assert ask(spec, TWO_CELLS)[0] == 0
        code, out, err = ask(spec, START)
        assert (code, out, len(err)) == (2, [], 1), err
        assert "mini3" in err[0]


def test_as_a_program():
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "agents", "greedy"], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == ["error: --position is missing: the position to ask about"]
