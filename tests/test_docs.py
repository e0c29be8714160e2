"""What the pages say is so: Python blocks run, commands take the arguments shown, links lead somewhere.

Shell commands are read by the programs that they name, up to the point where those would begin to work.
"""

import argparse
import dataclasses
import inspect
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import agents  # noqa: F401  (registers its specs)
from isis_env import isis_osiris_v0, notation
from isis_env.policy import registered
from train import __main__ as train_command
from train.config import PPOSettings
from train.config_file import read_config

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SMALLER = {  # what takes long on a page, and what is run instead
    ".learn(100_000)": ".learn(4_096)",
    "num_games=1024": "num_games=64",
    "(1024, opponents": "(64, opponents",
    "range(1000)": "range(100)",
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETTING_UP = ("source .venv/bin/activate", "pip install pre-commit", "pre-commit install")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The page's fenced blocks of a language: line of the page and text."""
    text = page.read_text()
    return [(text.count("\n", 0, m.start(2)), m[2]) for m in FENCE.finditer(text) if m[1] == language]


def commands() -> list[str]:
    """Every shell command of the pages, without its comment; the other plain blocks are pictures."""
    lines = [line for page in PAGES for _, text in blocks(page, "") for line in text.splitlines()]
    words = ("make ", "python ", "pip ", "printf ", "pre-commit ", "source ")
    return sorted({re.sub(r"\s+# .*", "", line) for line in lines if line.startswith(words)})


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda page: page.name)
def test_python_blocks_run_one_after_the_other(page, capsys):
    names: dict[str, object] = {}
    for line, text in blocks(page, "python"):
        for long, short in SMALLER.items():
            text = text.replace(long, short)
        exec(compile("\n" * line + text, page, "exec"), names)


def test_what_is_made_smaller_stands_on_a_page():
    texts = "".join(text for page in PAGES for _, text in blocks(page, "python"))
    assert [long for long in SMALLER if long not in texts] == []


class ArgumentsTakenError(Exception):
    """Ends a command when it has read its arguments."""


def parse(module: str, arguments: list[str], monkeypatch) -> None:
    """Have a command read its arguments; an `error: ...` of its own fails the test."""
    if module == "train":
        if arguments[0] == "--resume":
            train_command._resume_arguments(arguments)
        else:
            rest, _ = train_command.split_seeds(arguments)
            read_config(ROOT / rest[0], rest[1:])
        return
    original = argparse.ArgumentParser.parse_known_args

    def read(self, args=None, namespace=None):
        _, left = original(self, args, namespace)
        if module == "train.profile":  # what is left are keys of the config
            left = left and read_config(ROOT / arguments[0], left) and []
        assert left == []
        raise ArgumentsTakenError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", read)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(ArgumentsTakenError):
        runpy.run_module(module, run_name="__main__")


@pytest.mark.slow
# A module that is imported already is run once more as the program.
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("command", commands())
def test_shell_commands_are_taken(command, monkeypatch, tmp_path):
    words = shlex.split(command)
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:]) <= set(targets)
    elif words[0] == "printf":
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
        assert len(notation.loads((tmp_path / words[-1]).read_text())) == 1
    elif words[:2] == ["python", "-m"]:
        parse(words[2], words[3:], monkeypatch)
    elif words[:2] == ["pip", "install"] and words[2].startswith("."):
        extras = re.findall(r"[\w]+", words[2])
        optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(extras) <= set(optional)
    else:
        assert command in SETTING_UP


def test_every_kind_of_command_is_among_them():
    modules = {shlex.split(command)[2] for command in commands() if command.startswith("python -m")}
    assert {"train", "train.evaluate", "train.tournament", "train.regret", "train.compare", "agents"} <= modules


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@every_page
def test_files_that_are_named_exist(page):
    named = re.findall(r"`((?:isis_env|agents|train|tests|docs|configs|examples)/[\w/.]*)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def table_keys(page: str, heading: str) -> list[str]:
    """What stands in backquotes in the first column of the table after a heading or line."""
    lines = iter((ROOT / "docs" / page).read_text().partition(heading)[2].splitlines())
    rows = [line for line in lines if line.startswith("|")]
    return [key for row in rows for key in re.findall(r"`([^`]*)`", row.split("|")[1])]


def test_the_table_of_ppo_keys_is_complete():
    names = {field.name for field in dataclasses.fields(PPOSettings)}
    assert names == set(table_keys("training.md", "The keys of PPO")) & names
    assert names >= {"n_envs", "final_ent_coef"}


def test_the_table_of_arguments_is_complete():
    keys = table_keys("environment.md", "## Arguments")
    assert keys[: len(inspect.signature(isis_osiris_v0.env).parameters)] == list(
        inspect.signature(isis_osiris_v0.env).parameters
    )


def test_the_table_of_agents_is_complete():
    names = {spec.partition(":")[0] for spec in table_keys("agents.md", "# Agents")}
    assert set(registered()) <= names


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE) == phony.split()


def test_the_front_page_is_one():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 220
