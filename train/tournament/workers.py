"""The chunks of a tournament on several processes, each kept to one core.

The processes are loky's: it notices when one is killed, and kills the others when the tournament is stopped.
"""

import contextlib
import itertools
import multiprocessing.util
import os
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from typing import Any

import torch
from loky import ProcessPoolExecutor
from loky.backend import get_context

import agents  # noqa: F401  (registers its specs)
from isis_env.agent import Agent
from isis_env.command_line import SIGNALS
from isis_env.config import GameConfig
from train.tournament.play import Chunk, PlayedChunk, make_players, play_chunk


class WorkerError(RuntimeError):
    """A process of the tournament is gone; what was stored is kept."""

    exit_status = 1


# Seconds between two reports of a worker, or two looks for them.
REPORT_SECONDS = 0.25


def play_all(
    chunks: Sequence[Chunk],
    specs: Sequence[str],
    config: GameConfig,
    jobs: int,
    secret: str | None,
    report: Callable[[float], object],
) -> Generator[PlayedChunk, None, None]:
    """Play chunks on `jobs` processes of one core each; where that is 1, in this process.

    Args:
        secret: what the deals follow from besides the seeds, or None.
        report: called with the number of games played since the last call, of which parts count, too.

    Yields:
        Every chunk as soon as it is finished.

    Raises:
        WorkerError: a process was killed, or could not start.
    """
    if not chunks:
        return
    jobs = min(jobs, len(chunks))
    cores = _some_cores(jobs)
    if jobs == 1:
        with _on_core(cores[0]):
            players = make_players(specs, config)
            for chunk in chunks:
                yield play_chunk(chunk, config, players, secret, report)
        return
    context = get_context("loky")
    free_cores, messages = context.SimpleQueue(), context.SimpleQueue()
    for core in cores:
        free_cores.put(core)
    finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
    pool = ProcessPoolExecutor(
        jobs,
        context=context,
        initializer=_start_worker,
        initargs=(os.getpid(), free_cores, messages, specs, config, secret),
    )
    _start_resource_tracker()
    try:
        with _signals_blocked():  # the workers inherit it, and start with the first chunk
            for index, chunk in enumerate(chunks):
                pool.submit(_play_in_worker, index, chunk).add_done_callback(
                    lambda future, index=index: finished.put((index, future))
                )
        under_way: dict[int, float] = {}  # games played of the chunks that are not finished
        done: set[int] = set()
        while len(done) < len(chunks):
            while not messages.empty():
                index, games = messages.get()
                if index not in done:
                    report(games - under_way.get(index, 0.0))
                    under_way[index] = games
            try:
                index, future = finished.get(timeout=REPORT_SECONDS)
            except queue.Empty:
                continue
            played = future.result()
            done.add(index)
            report(len(played.games) - under_way.pop(index, 0.0))
            yield played
    except BaseException as error:  # or Ctrl-C; what is under way is not worth waiting for
        pool.shutdown(kill_workers=True)
        if isinstance(error, BrokenProcessPool):
            raise WorkerError(
                "a process that played was killed, or could not start; the same command goes on"
            ) from None
        raise
    pool.shutdown()


def _start_resource_tracker() -> None:
    """Start loky's process that removes what killed workers leave behind; it need not tell the user of it.

    It is started here because it would unblock signals if it were started between two workers.
    """
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore::UserWarning:loky.backend.resource_tracker"
    try:
        resource_tracker.ensure_running()
    finally:
        del os.environ["PYTHONWARNINGS"]
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


_worker: tuple[GameConfig, dict[str, Agent], str | None, Any]


def _start_worker(
    parent: int, free_cores: Any, messages: Any, specs: Sequence[str], config: GameConfig, secret: str | None
) -> None:
    global _worker
    threading.Thread(target=_end_with_parent, args=[parent], daemon=True).start()
    core = free_cores.get()
    # loky replaces a worker that has come to hold much memory; the next one takes its core.
    multiprocessing.util.Finalize(None, free_cores.put, (core,), exitpriority=0)
    _use_core(core)
    _worker = config, make_players(specs, config), secret, messages


def _end_with_parent(parent: int) -> None:
    """A worker whose parent was killed would wait for work forever."""
    while os.getppid() == parent:
        time.sleep(REPORT_SECONDS)
    os._exit(1)


def _play_in_worker(index: int, chunk: Chunk) -> PlayedChunk:
    config, players, secret, messages = _worker
    played, last_report = 0.0, time.monotonic()

    def report(games: float) -> None:
        nonlocal played, last_report
        played += games
        if time.monotonic() - last_report > REPORT_SECONDS:
            last_report = time.monotonic()
            messages.put((index, played))

    return play_chunk(chunk, config, players, secret, report)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Processes that are started in here never receive the signals that ask to stop: this process sees to them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _some_cores(jobs: int) -> list[int | None]:
    """A core for every job, in random order lest all tournaments use the first; None where the system has no choice."""
    if not hasattr(os, "sched_setaffinity"):
        return [None] * jobs
    cores = list(os.sched_getaffinity(0))
    random.shuffle(cores)
    return list(itertools.islice(itertools.cycle(cores), jobs))


def _use_core(core: int | None) -> None:
    """Keep this process to one core and its libraries to one thread, so that times are per core."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)


@contextlib.contextmanager
def _on_core(core: int | None) -> Iterator[None]:
    """`_use_core` for a while."""
    cores = None if core is None else os.sched_getaffinity(0)
    threads = torch.get_num_threads()
    _use_core(core)
    try:
        yield
    finally:
        if cores is not None:
            os.sched_setaffinity(0, cores)
        torch.set_num_threads(threads)
