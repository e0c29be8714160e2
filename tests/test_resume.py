"""Never lose a run: killed at any moment and resumed, it ends as if it had been left alone."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from agents.learned.checkpoint import list_checkpoints, load_checkpoint
from train.__main__ import main
from train.config import TrainConfig
from train.runs.folder import LOCK_FILE, superfluous
from train.runs.metrics import TIME_COLUMNS, read_metrics

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
KILLS = int(os.environ.get("ISIS_KILLS", "3"))  # more of them for a long check by hand

CONFIG = """
name: run
steps: 30000
threads: 1
checkpoint_every: 1000
game: {board: mini3}
ppo: {n_envs: 64, n_steps: 8, batch_size: 256, final_ent_coef: 0.001}
self_play: {snapshot_every: 1000, pool: 3, draw: pfsp, baselines: {greedy: 0.2}}
evaluation: {games: 20, every: 2000, games_on_the_way: 10}
"""


def start(*arguments: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "train", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def timeless(folder: Path) -> list[dict]:
    return [{k: v for k, v in row.items() if k not in TIME_COLUMNS} for row in read_metrics(folder / "metrics.csv")]


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    tmp = tmp_path_factory.mktemp("alone")
    (tmp / "run.yaml").write_text(CONFIG)
    assert main([str(tmp / "run.yaml"), "--runs_folder", str(tmp)]) == 0
    return tmp / "run"


def test_killed_at_random_moments_and_resumed_a_run_ends_the_same(left_alone, tmp_path):
    (tmp_path / "run.yaml").write_text(CONFIG)
    rng = random.Random(0)
    folder = tmp_path / "run"
    final = read_metrics(left_alone / "metrics.csv")[-1]["step"]
    process = start(tmp_path / "run.yaml", "--runs_folder", tmp_path)
    for kill in range(KILLS):
        aim = final * (kill + rng.random()) / (KILLS + 1)
        while process.poll() is None:
            rows = read_metrics(folder / "metrics.csv")
            if rows and rows[-1]["step"] >= aim:
                break
            time.sleep(0.01)
        time.sleep(rng.random() * 0.1)
        process.kill()
        process.wait()
        process = start("--resume", folder)
    output, _ = process.communicate()
    assert process.returncode == 0, output

    assert timeless(folder) == timeless(left_alone), "no hole, no double row, the same numbers"
    ours, theirs = list_checkpoints(folder)[-1], list_checkpoints(left_alone)[-1]
    for name in ("network.safetensors", "training.safetensors", "training.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_asked_to_stop_a_run_saves_and_says_how_to_go_on(left_alone, tmp_path, how):
    (tmp_path / "run.yaml").write_text(CONFIG)
    folder = tmp_path / "run"
    process = start(tmp_path / "run.yaml", "--runs_folder", tmp_path, "--checkpoint_every", 10**9)
    while not read_metrics(folder / "metrics.csv"):
        time.sleep(0.01)
    process.send_signal(how)
    output, _ = process.communicate()
    assert process.returncode == 128 + how, output
    assert f"go on with: python -m train --resume {folder}" in output
    rows = read_metrics(folder / "metrics.csv")
    assert load_checkpoint(folder).metadata["step"] == rows[-1]["step"], "nothing is lost"
    assert timeless(folder) == timeless(left_alone)[: len(rows)]


def test_a_torn_row_and_rows_after_the_checkpoint_are_dropped(left_alone, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(left_alone, folder)
    shutil.rmtree(list_checkpoints(folder)[-1])
    with (folder / "metrics.csv").open("a") as stream:
        stream.write("31000,1,2")
    assert main(["--resume", str(folder)]) == 0
    assert timeless(folder) == timeless(left_alone)


def test_a_save_that_fails_leaves_the_previous_checkpoint_and_is_tried_again(left_alone, tmp_path):
    """A file in the place of the next checkpoint's unfinished folder makes every attempt to write it fail."""
    folder = tmp_path / "run"
    shutil.copytree(left_alone, folder)
    last = list_checkpoints(folder)[-1]
    shutil.rmtree(last)
    before = list_checkpoints(folder)[-1]
    blocked = last.with_name(last.name + ".unfinished")
    blocked.write_text("in the way")
    assert main(["--resume", str(folder)]) == 1
    assert load_checkpoint(folder).path == before
    blocked.unlink()
    assert main(["--resume", str(folder)]) == 0
    assert timeless(folder) == timeless(left_alone)


@pytest.mark.parametrize("name", ["network.safetensors", "training.safetensors", "training.json", "checkpoint.json"])
def test_a_broken_checkpoint_is_an_error_of_one_line(left_alone, tmp_path, name, capsys):
    folder = tmp_path / "run"
    shutil.copytree(left_alone, folder)
    (folder / "evaluation.json").unlink()  # or the run would be finished
    file = list_checkpoints(folder)[-1] / name
    whole = file.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        if name == "checkpoint.json" and len(broken) == len(whole):
            continue  # a flipped bit in the metadata may still be JSON
        file.write_bytes(broken)
        capsys.readouterr()
        assert main(["--resume", str(folder)]) == 2
        error = capsys.readouterr().err
        assert name in error
        assert error.count("\n") == 1


def test_resuming_what_is_no_run_is_an_error_of_one_line(tmp_path, capsys):
    assert main(["--resume", str(tmp_path)]) == 2
    assert main(["--resume"]) == 2
    assert main(["--resume", str(tmp_path), "--steps", "3"]) == 2
    assert main(["--resume", str(tmp_path), "--steps", "0"]) == 2
    assert main(["--resume", str(tmp_path), "--seed", "3"]) == 2
    assert capsys.readouterr().err.count("\n") == 5


def test_checkpoints_are_thinned_by_the_rule_of_the_config():
    config = TrainConfig(keep_last=2, keep_every=1000)
    paths = [Path(f"step-{step:010d}") for step in (300, 600, 900, 1200, 1500, 1800, 2100, 2400, 2700, 3000)]
    gone = {int(path.name[5:]) for path in superfluous(paths, config)}
    assert {300, 600, 900, 1200, 1500, 1800, 2100, 2400, 2700, 3000} - gone == {1200, 2100, 2700, 3000}


def test_a_run_is_not_resumed_under_another_config(left_alone, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(left_alone, folder)
    config = (folder / "config.yaml").read_text()
    assert "batch_size: 256" in config
    (folder / "config.yaml").write_text(config.replace("batch_size: 256", "batch_size: 128"))
    (folder / "evaluation.json").unlink()
    assert main(["--resume", str(folder)]) == 2
    assert "ppo was" in capsys.readouterr().err
    (folder / "config.yaml").write_text(config.replace("games: 20", "games: 10"))
    assert main(["--resume", str(folder)]) == 0, "what is measured at the end may change"


def test_two_processes_do_not_train_one_run(left_alone, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(left_alone, folder)
    with FileLock(folder / LOCK_FILE):
        assert main(["--resume", str(folder)]) == 2
    assert "another process is training this run" in capsys.readouterr().err
