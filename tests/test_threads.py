"""Kernels shared among threads: every row once, whoever does it, and nothing left behind."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from isis_env.kernels.threads import MIN_ROWS, _pool, run_shared, shared_kernel


@shared_kernel
def count(first, last, rows, slow, counts):
    """Add one to the count of every row; row `slow` takes some time about it."""
    for index in range(first, last):
        if rows[index] == slow:
            for _ in range(1000):
                counts[index] += 1
            counts[index] -= 1000
        part = counts[index : index + 1]
        part += 1


@shared_kernel
def fail(first, last, rows, bad):
    for index in range(first, last):
        if rows[index] == bad:
            raise ValueError("no such row")


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 255, 256, 1001])
def test_every_row_is_done_once(rows, threads):
    counts = np.zeros(rows, np.int64)
    for repeat in range(1, 51):
        run_shared(count, rows, threads, np.arange(rows), 0, counts, min_rows=1)
        assert (counts == repeat).all()


def test_arrays_may_be_thrown_away_after_every_call():
    """Helpers that were still at work would write to memory that is somebody else's by now."""
    for rows in np.random.default_rng(0).integers(2, 3000, 2000):
        counts = np.zeros(rows, np.int64)
        run_shared(count, rows, 3, np.arange(rows), -1, counts, min_rows=1)
        assert counts.sum() == rows


def test_where_no_thread_can_be_had_the_caller_does_all(monkeypatch):
    _pool.cache_clear()

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    counts = np.zeros(999, np.int64)
    run_shared(count, 999, 3, np.arange(999), 0, counts, min_rows=1)
    assert (counts == 1).all()
    monkeypatch.undo()
    run_shared(count, 999, 3, np.arange(999), 0, counts, min_rows=1)
    assert (counts == 2).all(), "the next call, when threads can be had again"


def test_calls_from_several_threads_of_the_program():
    answers = []

    def work():
        counts = np.zeros(999, np.int64)
        for _ in range(500):
            run_shared(count, 999, 3, np.arange(999), 0, counts, min_rows=1)
        answers.append((counts == 500).all())

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert answers == [True] * 4


def test_a_call_inside_a_call_ends():
    """Every thread of the pool is taken by the outer call, so the inner ones must do without."""
    counts = np.zeros((8, 100), np.int64)

    def outer(first, last):
        for row in range(first, last):
            run_shared(count, 100, 3, np.arange(100), 0, counts[row], min_rows=1)

    for repeat in range(1, 51):
        run_shared(outer, 8, 3, min_rows=1)
        assert (counts == repeat).all()


def test_idle_threads_take_no_time():
    counts = np.zeros(999, np.int64)
    run_shared(count, 999, 3, np.arange(999), 0, counts, min_rows=1)
    begin = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - begin < 0.25, "three threads that wait in a loop would take 0.5 s or more"


def test_fewer_rows_than_are_worth_it_stay_with_the_caller():
    callers = set()

    def note(first, last):
        callers.add((first, last, threading.get_ident()))

    run_shared(note, 2 * MIN_ROWS - 1, 2)
    assert callers == {(0, 2 * MIN_ROWS - 1, threading.get_ident())}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_that_fails_is_an_error_and_the_next_call_works(threads):
    for bad in (0, 999):
        with pytest.raises(ValueError, match="no such row"):
            run_shared(fail, 1000, threads, np.arange(1000), bad, min_rows=1)
    run_shared(fail, 1000, threads, np.arange(1000), -1, min_rows=1)


SCRIPT = """
import os, sys
import numpy as np
sys.path.insert(0, {tests!r})
from test_threads import count, run_shared

def work():
    counts = np.zeros(1000, np.int64)
    for _ in range(20):
        run_shared(count, 1000, 4, np.arange(1000), 0, counts, min_rows=1)
    assert (counts == 20).all()

{pin}
work()
child = os.fork()
work()
if child:
    assert os.waitpid(child, 0)[1] == 0
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs fork and affinity")
@pytest.mark.parametrize("pin", ["", "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"], ids=["free", "pinned"])
def test_a_process_with_helpers_forks_and_exits(pin):
    """With more threads than cores too; and from the kernel cache, in whichever of the two cases comes second."""
    script = SCRIPT.format(tests=os.path.dirname(__file__), pin=pin)  # noqa: PTH120
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["done", "done"]
