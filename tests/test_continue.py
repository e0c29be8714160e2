"""Training longer: a run continued with more steps, and a new run from the weights of another."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from agents.learned.checkpoint import list_checkpoints, load_checkpoint
from train.__main__ import main
from train.config_file import read_config
from train.ppo.setup import begin, initial_weights
from train.runs.metrics import TIME_COLUMNS, read_metrics

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent

CONFIG = """
name: run
steps: 2000
threads: 1
checkpoint_every: 500
keep_last: 2
game: {board: mini3}
network: {channels: 16, rounds: 1}
ppo: {n_envs: 32, n_steps: 8, batch_size: 128, final_ent_coef: 0.001}
self_play: {snapshot_every: 500, pool: 2}
evaluation: {games: 20, every: 500, games_on_the_way: 10}
"""


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A finished run of 2,000 steps, which took 2,048."""
    tmp = tmp_path_factory.mktemp("short")
    (tmp / "run.yaml").write_text(CONFIG)
    assert main([str(tmp / "run.yaml"), "--runs_folder", str(tmp)]) == 0
    return tmp / "run"


@pytest.fixture(scope="module")
def continued(short, tmp_path_factory):
    """The same run continued to 4,000 steps."""
    folder = tmp_path_factory.mktemp("continued") / "run"
    shutil.copytree(short, folder)
    assert main(["--resume", str(folder), "--steps", "4e3"]) == 0
    return folder


def timeless(folder):
    return [{k: v for k, v in row.items() if k not in TIME_COLUMNS} for row in read_metrics(folder / "metrics.csv")]


def state_of(folder):
    last = list_checkpoints(folder)[-1]
    names = ("network.safetensors", "training.safetensors", "training.json")
    return last.name, [(last / name).read_bytes() for name in names]


def test_a_continued_run_goes_on_where_it_was_and_its_schedule_is_that_of_the_new_total(short, continued):
    rows = timeless(continued)
    assert rows[:8] == timeless(short)
    assert [row["step"] for row in rows] == [256 * (k + 1) for k in range(16)]
    config = read_config(continued / "config.yaml", [])
    assert (config.steps, config.earlier_steps) == (4000, [[2048, 2000]])
    first, last = config.ppo.learning_rate, config.ppo.final_learning_rate
    for update, row in enumerate(rows):
        remaining = 1 - 256 * update / (2000 if update < 8 else 4000)
        assert row["learning_rate"] == pytest.approx(last + remaining * (first - last), rel=1e-4)
    assert (continued / "evaluation-step-0000002048.json").read_bytes() == (short / "evaluation.json").read_bytes()
    assert "Up to step 2,048 the schedules were those of a run of 2,000 steps." in (continued / "report.md").read_text()


def test_the_same_continuation_again_ends_with_the_same_bits(short, continued, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(short, folder)
    assert main(["--resume", str(folder), "--steps", "4000"]) == 0
    assert state_of(folder) == state_of(continued)
    assert timeless(folder) == timeless(continued)


def test_a_continued_run_equals_one_trained_from_the_start_with_its_config(continued, tmp_path):
    assert main([str(continued / "config.yaml"), "--runs_folder", str(tmp_path)]) == 0
    assert state_of(tmp_path / "run") == state_of(continued)
    assert timeless(tmp_path / "run") == timeless(continued)


def test_an_interrupted_continuation_resumes_to_the_same_end(short, continued, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(short, folder)
    command = [sys.executable, "-m", "train", "--resume", str(folder), "--steps", "4000"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and read_metrics(folder / "metrics.csv")[-1]["step"] < 2500:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    if process.returncode:  # it may have been too fast for us
        assert process.returncode == 143, errors
    assert main(["--resume", str(folder)]) == 0
    assert state_of(folder) == state_of(continued)
    assert timeless(folder) == timeless(continued)


def test_an_interrupted_run_may_end_earlier_or_later(short, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(short, folder)
    for path in list_checkpoints(folder)[1:]:
        shutil.rmtree(path)
    begun = int(list_checkpoints(folder)[0].name[5:])
    assert main(["--resume", str(folder), "--steps", str(begun + 1)]) == 0
    assert read_config(folder / "config.yaml", []).earlier_steps == [[begun, 2000]]
    assert timeless(folder)[-1]["step"] == begun + 256


def test_a_finished_run_says_so_and_is_left_alone(short, capsys):
    before = {file: file.stat().st_mtime_ns for file in short.rglob("*") if file.name != ".lock"}
    assert main(["--resume", str(short)]) == 0
    assert f"python -m train --resume {short} --steps N" in capsys.readouterr().out
    assert {file: file.stat().st_mtime_ns for file in short.rglob("*") if file.name != ".lock"} == before


@pytest.mark.parametrize("steps", ["1000", "2048"])
def test_no_fewer_steps_than_were_taken(short, capsys, steps):
    config = (short / "config.yaml").read_text()
    assert main(["--resume", str(short), "--steps", steps]) == 2
    assert f"--steps {steps} must be above 2048" in capsys.readouterr().err
    assert (short / "config.yaml").read_text() == config


def from_weights(tmp_path, init, *overrides):
    (tmp_path / "new.yaml").write_text(CONFIG)
    named = ["--name", "new", "--runs_folder", str(tmp_path / "runs"), "--init", str(init)]
    return main([str(tmp_path / "new.yaml"), *named, *overrides])


def test_a_run_from_a_checkpoint_starts_with_its_weights_to_the_last_bit(short, tmp_path):
    theirs = load_checkpoint(short)
    (tmp_path / "new.yaml").write_text(CONFIG)
    setup = begin(read_config(tmp_path / "new.yaml", ["--init", str(short), "--seed", "7"]))
    for name, weights in theirs.network.state_dict().items():
        assert torch.equal(setup.network.state_dict()[name], weights), name
        assert torch.equal(setup.model.policy.network.state_dict()[name], weights), name


def test_a_run_from_a_checkpoint_says_from_which(short, tmp_path):
    assert from_weights(tmp_path, short, "--steps", "256") == 0
    config = read_config(tmp_path / "runs" / "new" / "config.yaml", [])
    assert Path(config.init) == list_checkpoints(short)[-1]
    assert config.init_sha256 == load_checkpoint(short).metadata["sha256"]["network.safetensors"]
    assert load_checkpoint(tmp_path / "runs" / "new").metadata["config"]["init_sha256"] == config.init_sha256


def test_a_run_from_a_checkpoint_is_reproducible_and_learns_on(short, tmp_path):
    for _ in range(2):
        assert from_weights(tmp_path, short, "--steps", "600") == 0
    first, second = tmp_path / "runs" / "new", tmp_path / "runs" / "new-2"
    assert state_of(first) == state_of(second)
    assert timeless(first) == timeless(second)
    assert state_of(first) != state_of(short)
    shutil.rmtree(first / "checkpoints")  # as if it had been killed before the first of them
    (first / "evaluation.json").unlink()
    assert main(["--resume", str(first)]) == 0
    assert state_of(first) == state_of(second)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["--network.channels", "24"], "network.channels=24 must be 16, as in the checkpoint of init="),
        (["--network.rounds", "2"], "network.rounds=2 must be 1, as in the checkpoint of init="),
        (["--game.board", "mini4"], "game.board='mini4' must be 'mini3', as in the checkpoint of init="),
        (["--init_sha256", "abc"], "init_sha256='abc' must be "),
        (["--init", "nowhere"], "init='nowhere': nowhere: does not exist"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_weights_that_do_not_fit_are_an_error_before_anything_is_made(short, tmp_path, capsys, overrides, message):
    assert from_weights(tmp_path, short, *overrides) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_damaged_weights_are_an_error_before_anything_is_made(short, tmp_path, capsys):
    damaged = tmp_path / "damaged"
    shutil.copytree(list_checkpoints(short)[-1], damaged)
    whole = (damaged / "network.safetensors").read_bytes()
    (damaged / "network.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert from_weights(tmp_path, damaged) == 2
    assert "truncated or changed" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_config_without_init_names_no_weights(short):
    assert initial_weights(read_config(short / "config.yaml", [])) is None
    assert json.loads((list_checkpoints(short)[-1] / "checkpoint.json").read_text())["config"]["init"] == ""
