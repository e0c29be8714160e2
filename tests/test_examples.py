"""Every program in examples/ runs as its docstring says, at a reduced size."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
REDUCED = {  # arguments, and what the output must hold
    "random_loop": (["--games", "2", "--players", "3"], r"game 1: scores \[-?\d+, -?\d+, -?\d+\], won by \["),
    "own_agent_in_a_tournament": (["--games", "4", "--out", "OUT"], "written to "),
    "maskable_ppo": (["--steps", "2048"], r"share of wins against random in \d+ games: [01]\.\d\d"),
    "centralised_critic": (["--games", "20"], r"from state\(\), 435 entries: -?\d+\.\d\d\n"),
    "perfect_memory": (["--games", "20"], r"at the last decision: 22\nremember:greedy: score rate (0\.[89]|1\.0)"),
}


def test_every_example_is_run():
    assert sorted(REDUCED) == EXAMPLES


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name, tmp_path):
    arguments, expected = REDUCED[name]
    arguments = [str(tmp_path / "out") if argument == "OUT" else argument for argument in arguments]
    command = [sys.executable, "-m", f"examples.{name}", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.search(expected, done.stdout), done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_docstring_begins_with_what_it_is_and_says_how_to_run_it(name):
    text = ast.get_docstring(ast.parse((ROOT / "examples" / f"{name}.py").read_text()))
    assert f"python -m examples.{name} --" in text
