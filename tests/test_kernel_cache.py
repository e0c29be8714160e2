"""The kernel cache on bad days: damaged files, a full or vanished disk, an interrupt. None of it ends a program."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import isis_env

ROOT = Path(isis_env.__file__).parents[1]

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from isis_env.kernels import jit
from isis_env.kernels.threads import run_shared, shared_kernel

{before}

@jit.kernel
def double(number):
    return 2 * number

@jit.gil_kernel
def triple(number):
    return 3 * number

@shared_kernel
def add(first, last, numbers):
    for row in range(first, last):
        numbers[row] += double(row)

folder = jit.cache_folder(Path(__file__).parent)
{middle}
numbers = np.zeros(10, np.int64)
run_shared(add, 10, 2, numbers, min_rows=1)
print(int(numbers.sum()), triple(2), folder)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled"),
]


class Program:
    """A program with kernels of every sort, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "program.py"
        self.write()

    def write(self, before: str = "", middle: str = "") -> None:
        self.file.write_text(PROGRAM.format(before=before, middle=middle))

    def run(self) -> list[str]:
        """Run it to its end with the right results; the lines that it has written to standard error."""
        run = subprocess.run(**self.arguments(), capture_output=True, timeout=120)
        assert run.returncode == 0, run.stderr
        total, six, folder = run.stdout.split(maxsplit=2)
        assert (total, six) == ("90", "6")
        self.cache = Path(folder.strip())
        return run.stderr.splitlines()

    def arguments(self) -> dict:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment.pop("NUMBA_CACHE_DIR", None)
        return {"args": [sys.executable, str(self.file)], "env": environment, "text": True}

    def compiled(self) -> list[Path]:
        return sorted(self.cache.iterdir())


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


DAMAGE = {
    "empty": lambda content: b"",
    "cut short": lambda content: content[:10],
    "cut in half": lambda content: content[: len(content) // 2],
    "garbage": lambda content: bytes(range(256)) * 20,
    "one bit of the code": lambda content: content[:-200] + bytes([content[-200] ^ 1]) + content[-199:],
    "something appended": lambda content: content + b"\0",
}


def test_damaged_files_are_removed_and_compiled_again(program):
    program.run()
    whole = {path: path.read_bytes() for path in program.compiled()}
    assert len(whole) == 4
    assert program.run() == [], "a warm start says nothing"
    for name, damage in DAMAGE.items():
        for path, content in whole.items():
            path.write_bytes(damage(content))
        said = program.run()
        assert len(said) == 2, (name, said)
        assert sum("was damaged and" in line for line in said) == 1, (name, said)
        assert sum("compiling kernels" in line for line in said) == 1, (name, said)
        assert program.compiled() == list(whole), name
    assert program.run() == [], "what was compiled again is whole"


def test_one_damaged_file_costs_no_other(program):
    program.run()
    damaged = next(path for path in program.compiled() if "triple" in path.name)
    others = {path: path.stat().st_mtime_ns for path in program.compiled() if path != damaged}
    damaged.write_bytes(b"")
    assert any(damaged.name in line for line in program.run())
    assert {path: path.stat().st_mtime_ns for path in others} == others


def test_a_folder_in_place_of_a_file(program):
    program.run()
    for path in program.compiled():
        path.unlink()
        path.mkdir()
    said = program.run()
    assert sum("cannot read compiled kernels" in line for line in said) == 1
    assert sum("are not kept" in line for line in said) == 1
    assert len(said) == 3


@pytest.mark.skipif(os.name != "posix", reason="needs limits of a process")
def test_a_full_disk_is_said_once(program):
    program.write(before="import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))")
    said = program.run()
    assert sum("are not kept" in line for line in said) == 1
    assert len(said) == 2
    assert program.compiled() == [], "half a file was left"


def test_a_folder_that_vanishes_is_made_again(program):
    program.write(middle="import shutil\nshutil.rmtree(folder)")
    assert len(program.run()) == 1
    assert program.compiled()


def test_a_folder_that_cannot_be_made_again_is_said_once(program):
    program.write(middle="import shutil\nshutil.rmtree(folder)\nfolder.write_text('')")
    said = program.run()
    assert any("are not kept" in line for line in said)
    assert len([line for line in said if "are not kept" in line]) == 1
    assert not any("Traceback" in line for line in said)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("moment", [0.0, 0.4])
def test_an_interrupt_while_compiling_spoils_nothing(program, moment):
    process = subprocess.Popen(**program.arguments(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = process.stderr.readline()
    assert "compiling" in first
    try:
        process.wait(moment or 0.01)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert len(program.run()) <= 1
    assert all(path.suffix == ".nbc" for path in program.compiled()), "half a file was left"
    assert program.run() == []
