"""Run folders and outputs that somebody damaged: one line that names the file, before any work is done."""

import os
import shutil

import pytest

from train.__main__ import main as train
from train.compare import main as compare
from train.evaluate import main as evaluate
from train.regret import main as regret
from train.tournament.__main__ import main as tournament

pytestmark = pytest.mark.slow

CONFIG = """
name: run
steps: 192
threads: 1
checkpoint_every: 64
game: {board: mini3}
network: {channels: 4}
ppo: {n_envs: 16, n_steps: 4, batch_size: 32}
evaluation: {games: 4, every: 0, opponents: [random]}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    tmp = tmp_path_factory.mktemp("trained")
    (tmp / "run.yaml").write_text(CONFIG)
    assert train([str(tmp / "run.yaml"), "--runs_folder", str(tmp / "runs")]) == 0
    return tmp / "runs" / "run"


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def refused(capsys, status, *parts):
    assert status == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    for part in parts:
        assert part in line


def no_threads(run):
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("threads: 1\n", "threads: 0\n"))


DAMAGE = {
    "no threads": (no_threads, ["config.yaml", "threads=0", "at least 1"]),
    "empty config": (lambda run: (run / "config.yaml").write_text(""), ["config.yaml"]),
    "rows without a time": (lambda run: (run / "metrics.csv").write_text("step,seconds\n64,\n"), ["metrics.csv"]),
    "rows that are not finite": (
        lambda run: (run / "metrics.csv").write_text("step,seconds,steps_per_second\n64,nan,inf\n"),
        ["metrics.csv", "seconds=nan must be finite"],
    ),
    "a checkpoint under another name": (
        lambda run: (run / "checkpoints" / "step-0000000192").rename(run / "checkpoints" / "step-0000000255"),
        ["step-0000000255", "step 192"],
    ),
    "checkpoints that are a file": (
        lambda run: (shutil.rmtree(run / "checkpoints"), (run / "checkpoints").write_text("")),
        ["checkpoints", "must be a folder"],
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_not_gone_on_with(run, capsys, damage):
    do, parts = DAMAGE[damage]
    do(run)
    refused(capsys, train(["--resume", str(run), "--steps", "256"]), *parts)


def test_a_run_without_times_is_not_compared(run, capsys, tmp_path):
    (run / "metrics.csv").write_text("step\n64\n")
    refused(capsys, compare([str(run), "--out", str(tmp_path / "out")]), "metrics.csv")
    assert not (tmp_path / "out").exists()


SMALL = ["--board", "mini3"]


@pytest.mark.parametrize("command", [evaluate, regret], ids=["evaluate", "regret"])
@pytest.mark.parametrize("out", ["x" * 250, "pipe", "loop", "folder"])
def test_an_output_that_cannot_be_is_refused_before_any_game(tmp_path, capsys, monkeypatch, command, out):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    agents = ["random", "greedy", "--games", "4"] if command is evaluate else ["greedy", "--positions", "4"]
    refused(capsys, command([*agents, *SMALL, "--out", out]), f"--out {out}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "loop", "pipe"]


@pytest.mark.parametrize("command", [evaluate, regret], ids=["evaluate", "regret"])
def test_the_default_output_is_looked_at_before_any_game(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").write_text("")
    agents = ["random", "greedy", "--games", "4"] if command is evaluate else ["greedy", "--positions", "4"]
    refused(capsys, command([*agents, *SMALL]), "results")


@pytest.mark.parametrize(("key", "value"), [("secret", '"\\ud800"'), ("games", "-9")])
def test_settings_of_a_tournament_that_cannot_be(tmp_path, capsys, key, value):
    settings = {"games": "4", "secret": "null", key: value}
    (tmp_path / "tournament.json").write_text(
        '{"board": "mini3", "players": 2, "common_reserve": false, "seed": 1000000000, "agents": [], '
        f'"games": {settings["games"]}, "secret": {settings["secret"]}}}'
    )
    command = ["random", "greedy", *SMALL, "--games", "4", "--jobs", "1", "--out", str(tmp_path)]
    refused(capsys, tournament(command), "tournament.json", key)


def test_a_secret_is_not_told_to_who_does_not_know_it(tmp_path, capsys):
    command = ["random", "greedy", *SMALL, "--games", "4", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert tournament([*command, "--secret", "hush"]) == 0
    capsys.readouterr()
    assert tournament([*command, "--secret", "guess"]) == 2
    assert "hush" not in capsys.readouterr().err
