"""The kernel cache: warm starts are right, and a changed source is never served stale."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import isis_env

pytestmark = pytest.mark.slow

PACKAGE = Path(isis_env.__file__).parent

PLAY = """
import numpy as np
from isis_env import notation
from isis_env.kernels import jit
from isis_env.batch import Batch
from isis_env.config import GameConfig
batch = Batch(GameConfig("mini3"), 3)
turn = batch.reset(5)
while not turn.done.any():
    turn = batch.step(turn.action_masks.argmax(axis=1))
print(jit.cache_folder())
print(batch.final_states["score"][:, :2].ravel().tolist())
"""


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "isis_env", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def play(folder: Path, program: str = PLAY, **environment: str) -> tuple[Path, str]:
    """Play with the copy of the package in `folder`: where its kernels are cached, and the scores."""
    env = {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "user"), **environment}
    env.pop("NUMBA_CACHE_DIR", None)
    run = subprocess.run([sys.executable, "-c", program], env=env, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    cache, scores = run.stdout.splitlines()
    return Path(cache), scores, run.stderr


def test_a_second_process_uses_the_cache_and_a_changed_kernel_source_does_not(copy):
    cache, scores, said = play(copy)
    assert cache.parent == copy / "isis_env" / "__pycache__"
    assert said == f"isis_env: compiling kernels for this machine, once; they are kept in {cache}\n"
    files = {file: file.stat().st_mtime_ns for file in cache.rglob("*.nbc")}
    assert files
    assert play(copy) == (cache, scores, ""), "nothing is said of a warm start"
    assert files == {file: file.stat().st_mtime_ns for file in cache.rglob("*.nbc")}, "nothing was compiled again"

    game = copy / "isis_env" / "game.py"
    text = game.read_text()
    assert "stones * s.face[cell]" in text
    game.write_text(text.replace("stones * s.face[cell]", "5 * stones * s.face[cell]"))
    changed_cache, changed_scores, _ = play(copy)
    assert changed_cache != cache
    assert changed_scores != scores, "batch.py did not change, but what it inlines did"


def test_what_was_compiled_of_other_sources_goes_after_a_month(copy):
    caches = copy / "isis_env" / "__pycache__"
    old, young, of_others = (
        caches / f"isis_env-{name}" for name in ("0123456789abcdef", "fedcba9876543210", "results")
    )
    for folder, days in ((old, 31), (young, 29), (of_others, 31)):
        folder.mkdir(parents=True)
        (folder / "kernel.nbc").write_text("")
        then = time.time() - days * 24 * 3600
        os.utime(folder, (then, then))
    play(copy, "import isis_env; print(); print()")
    assert [folder.exists() for folder in (old, young, of_others)] == [False, True, True]


def test_a_package_that_cannot_be_written_caches_in_the_users_folder(copy):
    (copy / "isis_env" / "__pycache__").write_text("")  # a file where the folder would be
    cache, _, _ = play(copy, PYTHONDONTWRITEBYTECODE="1")
    assert cache.parent == copy / "user" / "isis_env"
    assert list(cache.rglob("*.nbc"))
