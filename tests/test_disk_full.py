"""A disk that is full loses nothing: what is written is whole or absent, and the run goes on once there is room.

A limit on the size of files stands for the disk: what would grow beyond it is refused in the middle of a write.
"""

import contextlib
import csv
import shutil

import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

from agents.learned.checkpoint import list_checkpoints, load_checkpoint
from train.__main__ import main
from train.runs.metrics import TIME_COLUMNS, Metrics, read_metrics

pytestmark = pytest.mark.slow

resource = pytest.importorskip("resource")

CONFIG = """
name: run
steps: 1500
threads: 1
checkpoint_every: 500
game: {board: mini3}
ppo: {n_envs: 32, n_steps: 8, batch_size: 128}
evaluation: {games: 20, every: 0}
"""


@contextlib.contextmanager
def file_limit(size):
    """No file of this process grows beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with room enough."""
    tmp = tmp_path_factory.mktemp("whole")
    (tmp / "run.yaml").write_text(CONFIG)
    assert main([str(tmp / "run.yaml"), "--runs_folder", str(tmp)]) == 0
    return tmp / "run"


def timeless(folder):
    return [{k: v for k, v in row.items() if k not in TIME_COLUMNS} for row in read_metrics(folder / "metrics.csv")]


def without_end(whole, tmp_path):
    """A copy of the run as it was at its first checkpoint."""
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    for path in list_checkpoints(folder)[1:]:
        shutil.rmtree(path)
    for name in ("evaluation.json", "report.md", "curves.png"):
        (folder / name).unlink()
    return folder


def ends_as(folder, whole):
    assert timeless(folder) == timeless(whole)
    ours, theirs = list_checkpoints(folder)[-1], list_checkpoints(whole)[-1]
    for name in ("network.safetensors", "training.safetensors", "training.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    assert (folder / "evaluation.json").read_bytes() == (whole / "evaluation.json").read_bytes()
    assert not list(folder.rglob("*.unfinished"))


def test_checkpoints_that_cannot_be_written_keep_the_last_one(whole, tmp_path, capsys):
    folder = without_end(whole, tmp_path)
    first = list_checkpoints(folder)[0]
    with file_limit(20_000):  # enough for all but checkpoints
        assert main(["--resume", str(folder)]) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert f"the last good checkpoint is {first}" in error
    assert f"python -m train --resume {folder}" in error
    assert load_checkpoint(folder).path == first
    assert main(["--resume", str(folder)]) == 0
    ends_as(folder, whole)


def test_metrics_that_cannot_be_written_are_whole_or_absent(whole, tmp_path, capsys):
    folder = without_end(whole, tmp_path)
    size = len((folder / "metrics.csv").read_text().partition("\n768,")[0])
    with file_limit(size + 20):
        assert main(["--resume", str(folder)]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert (folder / "metrics.csv").read_bytes().endswith(b"\n")
    assert main(["--resume", str(folder)]) == 0
    ends_as(folder, whole)


def test_an_evaluation_that_cannot_be_written_is_made_again(whole, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    for name in ("evaluation.json", "report.md", "curves.png"):
        (folder / name).unlink()
    (folder / "evaluation.json.unfinished").mkdir()  # in the way of what is to be written
    assert main(["--resume", str(folder)]) == 1
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith(f"error: {folder}/evaluation.json")
    assert f"the policy is kept in {list_checkpoints(folder)[-1]}" in error
    assert not (folder / "evaluation.json").exists()
    (folder / "evaluation.json.unfinished").rmdir()
    assert main(["--resume", str(folder)]) == 0
    ends_as(folder, whole)


def test_a_report_that_is_missing_is_written_by_resuming(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    (folder / "report.md").unlink()
    assert main(["--resume", str(folder)]) == 0
    assert "![learning curves](curves.png)" in (folder / "report.md").read_text()


def events(folder):
    """(step, tag, value) of all that TensorBoard would show."""
    from tensorboard.compat.proto.event_pb2 import Event

    found = []
    for file in sorted((folder / "tensorboard").iterdir()):
        for record in RawEventFileLoader(str(file)).Load():
            event = Event.FromString(record)
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
    return found


def test_rows_that_could_not_be_written_follow_once_there_is_room(tmp_path):
    metrics = Metrics(tmp_path, ["entropy"])
    metrics.write({"step": 1, "entropy": 0.5})
    size = max(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    with file_limit(size + 10):
        for step in (2, 3):
            with pytest.raises(OSError, match="File too large"):
                metrics.write({"step": step, "entropy": 0.5 / step})
    assert events(tmp_path) == [(1, "learner/entropy", 0.5)]
    metrics.write({"step": 4, "entropy": 0.125})
    assert [row["step"] for row in csv.DictReader((tmp_path / "metrics.csv").open())] == ["1", "2", "3", "4"]
    assert [step for step, _, _ in events(tmp_path)] == [1, 2, 3, 4]
