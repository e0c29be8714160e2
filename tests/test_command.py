"""What every command does with errors, signals and output that cannot be written: one line and an exit status.

The file is long because all its tests start real processes by the same helpers.
"""

import argparse
import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from isis_env import GameConfig
from isis_env.command_line import Stopped, run_command, whole_number
from isis_env.policy import make_agent
from train.evaluate import evaluate, play_blocks, t_interval

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


def start(*argv, before=None, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), "MPLBACKEND": "agg"}
    environment |= options.pop("env", {})
    return subprocess.Popen(
        [sys.executable, *argv],
        cwd=ROOT,
        env=environment,
        text=True,
        preexec_fn=before,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def ended(process, seconds=60):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


# Numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1000", 1000),
        ("1e6", 10**6),
        ("2.5E3", 2500),
        ("12.0", 12),
        ("0", 0),
        ("-3", -3),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_whole_numbers_as_people_write_them(text, number):
    assert whole_number(text) == number
    assert type(whole_number(text)) is int


@pytest.mark.parametrize(
    "text",
    [
        "",
        "many",
        "1.5",
        "15e-1",
        "1e",
        "0x10",
        "1_000",
        " 5",
        "nan",
        "inf",
        "1e400",
        "9" * 5000,
        "١٢",
        "１２",
        "1" * 10**6,
    ],
    ids=lambda text: text[:8] or "empty",
)
def test_what_is_no_whole_number_is_refused_briefly(text):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        whole_number(text)
    assert len(str(caught.value)) < 150


# Errors


class OurError(RuntimeError):
    __module__ = "train.somewhere"
    exit_status = 1


def raising(error):
    def main():
        raise error

    return main


def test_a_command_that_ends_well():
    assert run_command(lambda: None) == 0
    assert run_command(lambda: 3) == 3


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (OurError("what\nhappened"), 1, "error: what happened"),
        (OSError(28, "No space left on device", "some/file"), 1, "error: some/file: No space left on device"),
        (MemoryError("Unable to allocate 1 TiB"), 1, "error: not enough memory (Unable to allocate 1 TiB)"),
        (KeyboardInterrupt(), 130, "stopped"),
        (Stopped(signal.SIGTERM), 143, "stopped"),
        (Stopped(signal.SIGHUP, "saved at step 12"), 129, "saved at step 12"),
        (BrokenPipeError(), 141, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_is_expected_is_one_line(error, status, line, capfd):
    before = signal.getsignal(signal.SIGTERM)
    assert run_command(raising(error)) == status
    assert capfd.readouterr().err.splitlines() == ([line] if line else [])
    assert signal.getsignal(signal.SIGTERM) is before


def test_our_complaints_are_told_from_bugs(capsys):
    assert run_command(lambda: GameConfig(players=9)) == 2  # a `raise` statement of ours
    assert capsys.readouterr().err.startswith("error: players=9")
    # An operation in our code, in a library, in this test, and errors of other kinds
    for bug in (lambda: t_interval(["x", "y"]), lambda: json.loads("{"), lambda: int("x"), raising(KeyError("k"))):
        with pytest.raises((ValueError, KeyError)):
            run_command(bug)


# Signals

SLOW = "python:test_command:Slow"


class Slow:
    """Takes long for every decision, and says when it begins."""

    recall = "full"

    def act(self, decisions):
        print("asked", file=sys.stderr, flush=True)
        time.sleep(0.05)
        return decisions.action_masks.argmax(axis=1)


COMMANDS = {
    "evaluate": ["train.evaluate", SLOW, "greedy", "--games", "4000", "--out"],
    "tournament": ["train.tournament", SLOW, "greedy", "--games", "4000", "--jobs", "1", "--out"],
    "regret": ["train.regret", SLOW, "--positions", "4000", "--out"],
}


@pytest.mark.parametrize(
    ("command", "number"),
    [("evaluate", signal.SIGHUP), ("tournament", signal.SIGTERM), ("regret", signal.SIGINT)],
)
def test_a_signal_ends_a_command_with_one_line(command, number, tmp_path):
    process = start("-m", *COMMANDS[command], str(tmp_path / "out"))
    for line in process.stderr:
        if line == "asked\n":
            break
    process.send_signal(number)
    status, out, err = ended(process)
    told = [line for line in err.splitlines() if line != "asked"]
    assert (status, out) == (128 + number, "")
    assert len(told) == 1, err
    assert told[0].startswith("stopped")
    if command != "tournament":
        assert not (tmp_path / "out").exists()


def test_a_signal_that_is_to_be_ignored_is():
    """As under `nohup`."""
    code = (
        "import os, signal, isis_env.command_line as c; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "print(c.run_command(lambda: os.kill(os.getpid(), signal.SIGHUP)))\n"
        "print(c.run_command(lambda: os.kill(os.getpid(), signal.SIGTERM)))\n"
    )
    assert ended(start("-c", code))[:2] == (0, "0\n143\n")


@pytest.mark.parametrize(
    ("command", "seconds"), [(["agents"], 0.2), (["agents"], 0.8), (["train.evaluate", "greedy", "random"], 0.8)]
)
def test_ctrl_c_while_modules_load_gives_no_traceback(command, seconds, tmp_path):
    process = start("-m", *command, *(["--out", str(tmp_path / "out")] if len(command) > 1 else []))
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    status, _, err = ended(process)
    assert status in (0, 130, -signal.SIGINT)  # -SIGINT is what a shell calls 130
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 2  # kernels are compiled; stopped


@pytest.mark.parametrize(
    "command",
    [
        ["train.evaluate", "greedy", "random", "--games", "20", "--out", "OUT"],
        ["agents", "exact", "--position", "POSITION"],
    ],
    ids=lambda argv: argv[0],
)
def test_ctrl_c_while_kernels_compile_gives_no_traceback(command, tmp_path):
    (tmp_path / "position").write_text("[isis-osiris 1] board=standard players=2 variant=personal start=1")
    names = {"OUT": str(tmp_path / "out"), "POSITION": str(tmp_path / "position")}
    process = start(
        "-m", *(names.get(word, word) for word in command), env={"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    )
    assert "compiling kernels" in process.stderr.readline()
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    status, out, err = ended(process)
    assert (status, out) == (130, "")
    assert len(err.splitlines()) == 1, err
    assert err.startswith("stopped")


def test_what_a_signal_leaves_half_built_says_nothing():
    code = (
        "import os, signal\n"
        "import isis_env.command_line as c\n"
        "class Half:\n"
        "    def __init__(self):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        self.handle = 1\n"
        "    def __del__(self):\n"
        "        del self.handle\n"
        "print(c.run_command(Half))\n"
    )
    assert ended(start("-c", code)) == (0, "143\n", "stopped\n")


def test_ctrl_c_in_a_tournament_on_several_processes_ends_them_all(tmp_path):
    jobs = min(2, len(os.sched_getaffinity(0)))
    argv = ["train.tournament", SLOW, "greedy", "--games", "4000", "--jobs", str(jobs), "--out", str(tmp_path / "out")]
    process = start("-m", *argv, start_new_session=True)
    while process.stderr.readline() != "asked\n":  # by this process; the workers begin a few seconds later
        pass
    while process.stderr.readline() != "asked\n":
        pass
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    status, _, err = ended(process)  # the workers hold the pipe, so that they have ended, too
    told = [line for line in err.splitlines() if line != "asked"]
    assert status == 130
    assert told == ["stopped; the same command goes on"]


def test_a_killed_worker_is_an_error_and_nothing_is_lost(tmp_path):
    psutil = pytest.importorskip("psutil")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core has no worker processes")
    argv = ["train.tournament", "greedy", "random", "uniform", "--board", "mini3", "--games", "20000", "--chunk", "50"]
    process = start("-m", *argv, "--jobs", "2", "--out", str(tmp_path))
    games = tmp_path / "games.jsonl"
    while not games.exists() or games.read_bytes().count(b"\n") < 5:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    workers = [child for child in psutil.Process(process.pid).children() if "popen_loky" in " ".join(child.cmdline())]
    workers[0].kill()
    status, _, err = ended(process)
    assert status == 1
    assert err.splitlines()[-1].startswith("error: a process that played was killed")
    assert "the same command goes on" in err
    assert "Traceback" not in err
    assert games.read_bytes().endswith(b"}\n")


# Output


def test_a_reader_that_has_left_is_no_error():
    process = start("-c", "import sys, train.command as c; sys.exit(c.run_command(lambda: print('x\\n' * 10**6)))")
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_to_a_full_disk_is_one_line():
    with Path("/dev/full").open("w") as full:
        process = start("-m", "agents", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.splitlines() == ["error: No space left on device"]


@pytest.fixture(scope="module")
def _compiled():
    """Kernels are cached, for nothing can be written in the tests below."""
    evaluate([make_agent("greedy"), make_agent("random")], ["greedy", "random"], GameConfig("mini3"), 20)


def limit_files(size):
    """Files of this process cannot grow beyond `size` bytes, as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.usefixtures("_compiled")
def test_a_result_on_a_full_disk_is_whole_or_absent(tmp_path):
    file = tmp_path / "result.json"
    argv = ["train.evaluate", "greedy", "random", "--games", "20", "--board", "mini3", "--out", str(file)]
    status, out, err = ended(start("-m", *argv, before=limit_files(100)))
    assert (status, len(err.splitlines())) == (1, 1), err
    assert err.startswith(f"error: {file}: ")
    assert "nothing was written" in err
    assert "greedy" in out, "the table is shown all the same"
    assert list(tmp_path.iterdir()) == []
    file.write_text("before")
    status, _, err = ended(start("-m", *argv, before=limit_files(100)))
    assert status == 1
    assert "it is as it was" in err
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.usefixtures("_compiled")
def test_a_tournament_on_a_full_disk_keeps_whole_lines_and_goes_on(tmp_path):
    argv = [
        "train.tournament",
        "greedy",
        "random",
        "--games",
        "100",
        "--board",
        "mini3",
        "--jobs",
        "1",
        "--chunk",
        "10",
    ]
    argv += ["--out", str(tmp_path)]
    status, _, err = ended(start("-m", *argv, before=limit_files(5000)))
    assert (status, len(err.splitlines())) == (1, 1), err
    lines = (tmp_path / "games.jsonl").read_bytes()
    assert lines.endswith(b"}\n")
    games = 10 * lines.count(b"\n")
    assert 0 < games < 100
    assert f"{tmp_path / 'games.jsonl'}: " in err
    assert f"the {games} games played so far are kept" in err
    assert ended(start("-m", *argv))[0] == 0
    assert (tmp_path / "games.jsonl").read_bytes().startswith(lines)
    assert not list(tmp_path.glob("*.unfinished"))


# Progress


def test_progress_without_a_terminal_is_a_line_now_and_then():
    code = (
        "import time, train.command as c; c.LINE_SECONDS = 0.2\n"
        "with c.progress_bar(total=30, unit='game', desc='asked', leave=False) as bar:\n"
        "    for _ in range(60): time.sleep(0.015); bar.update(0.5)\n"
        "with c.progress_bar(total=3, disable=True) as bar: bar.update(3)\n"
    )
    status, out, err = ended(start("-c", code))
    assert (status, out) == (0, "")
    assert "\r" not in err
    assert 2 <= len(err.splitlines()) <= 6
    for line in err.splitlines():
        assert line.startswith("asked: ")
        assert " of 30 games, " in line
        assert line.endswith(" left")


def test_progress_on_a_terminal_shows_rate_and_time_left():
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (24, 100))
    code = (
        "import time, train.command as c\n"
        "with c.progress_bar(total=30, unit='game', mininterval=0, leave=False) as bar:\n"
        "    for _ in range(30): time.sleep(0.01); bar.update(0.5)\n"
    )
    process = start("-c", code, stderr=theirs)
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 30)[0]:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        shown += part
    process.communicate()
    assert process.returncode == 0
    assert b"15/30 [" in shown
    assert b"game/s" in shown
    assert b"15.0" not in shown


def test_a_slow_agent_moves_the_bar_while_it_is_asked():
    """Long before its first answer for all games is complete."""
    config, asked, told = GameConfig("mini3"), [], []

    class Sleepy:
        recall = "full"

        def act(self, decisions):
            asked.append(len(decisions))
            time.sleep(0.3)
            if len(asked) == 3:
                raise InterruptedError
            return decisions.action_masks.argmax(axis=1)

    seeds = np.arange(200, dtype=np.uint64)
    with pytest.raises(InterruptedError):
        play_blocks([Sleepy(), make_agent("greedy")], config, seeds, told.append)
    assert 0 < sum(told) < 200
    assert max(asked) < 200


@pytest.mark.parametrize("bad", [False, True])
def test_progress_adds_up_to_all_games(bad):
    class Clumsy:
        recall = "full"

        def act(self, decisions):
            fifth = decisions.states["placed"] >= 5
            return np.where(fifth, 99, decisions.action_masks.argmax(axis=1))

    told = []
    players = [Clumsy() if bad else make_agent("random"), make_agent("greedy")]
    play_blocks(players, GameConfig(players=3), np.arange(10, dtype=np.uint64), told.append)
    assert sum(told) == pytest.approx(30)
    assert min(told) >= 0
