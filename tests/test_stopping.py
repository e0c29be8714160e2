"""A closed terminal does not lose a run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.learned.checkpoint import load_checkpoint
from train.runs.metrics import read_metrics

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent

CONFIG = """
name: run
steps: 1e9
threads: 1
checkpoint_every: 1e9
game: {board: mini3}
ppo: {n_envs: 32, n_steps: 8, batch_size: 128}
"""


def saved_to_the_end(folder):
    return load_checkpoint(folder).metadata["step"] == read_metrics(folder / "metrics.csv")[-1]["step"]


def wait_for_metrics(process, folder):
    while process.poll() is None and not read_metrics(folder / "metrics.csv"):
        time.sleep(0.01)


def test_a_terminal_that_is_closed_saves_the_run(tmp_path):
    fcntl, pty, termios = map(pytest.importorskip, ("fcntl", "pty", "termios"))
    (tmp_path / "run.yaml").write_text(CONFIG)
    ours, theirs = pty.openpty()

    def take_terminal():
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    command = [sys.executable, "-m", "train", str(tmp_path / "run.yaml"), "--runs_folder", str(tmp_path)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=take_terminal
    )
    os.close(theirs)
    wait_for_metrics(process, tmp_path / "run")
    os.close(ours)
    assert process.wait() == 128 + signal.SIGHUP
    assert saved_to_the_end(tmp_path / "run")


def test_under_nohup_a_closed_terminal_changes_nothing(tmp_path):
    (tmp_path / "run.yaml").write_text(CONFIG)
    command = [sys.executable, "-m", "train", str(tmp_path / "run.yaml"), "--runs_folder", str(tmp_path)]
    process = subprocess.Popen(["nohup", *command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tmp_path / "run"
    wait_for_metrics(process, folder)
    process.send_signal(signal.SIGHUP)
    seen = read_metrics(folder / "metrics.csv")[-1]["step"]
    while process.poll() is None and read_metrics(folder / "metrics.csv")[-1]["step"] <= seen + 512:
        time.sleep(0.01)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert saved_to_the_end(folder)


def test_runs_under_several_seeds_are_all_saved_when_the_command_is_stopped(tmp_path):
    (tmp_path / "run.yaml").write_text(CONFIG)
    command = [sys.executable, "-m", "train", str(tmp_path / "run.yaml"), "--runs_folder", str(tmp_path)]
    process = subprocess.Popen([*command, "--seeds", "0,1"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    first = tmp_path / "run" / "seed-0"
    wait_for_metrics(process, first)
    process.terminate()
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert saved_to_the_end(first)
    assert "go on with: python -m train --resume" in (tmp_path / "run" / "seed-0.log").read_text()
