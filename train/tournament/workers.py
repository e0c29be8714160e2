"""The chunks of a tournament on several processes, each kept to one core."""

import contextlib
import itertools
import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch

import agents  # noqa: F401  (registers its specs)
from isis_env.agent import Agent
from isis_env.config import GameConfig
from train.tournament.play import Chunk, PlayedChunk, make_players, play_chunk


def play_all(
    chunks: Sequence[Chunk], specs: Sequence[str], config: GameConfig, jobs: int
) -> Generator[PlayedChunk, None, None]:
    """The chunks as they get finished, on `jobs` processes of one core each; on one in this process."""
    if not chunks:
        return
    jobs = min(jobs, len(chunks))
    cores = _some_cores(jobs)
    if jobs == 1:
        with _on_core(cores[0]):
            players = make_players(specs, config)
            for chunk in chunks:
                yield play_chunk(chunk, config, players)
        return
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    for core in cores:
        queue.put(core)
    pool = ProcessPoolExecutor(jobs, context, _start_worker, (queue, specs, config))
    others = set(multiprocessing.active_children())
    try:
        for future in as_completed([pool.submit(_play_in_worker, chunk) for chunk in chunks]):
            yield future.result()
    except BaseException:  # an error or Ctrl-C; what is under way is not worth waiting for
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_worker: tuple[GameConfig, dict[str, Agent]]


def _start_worker(cores: "multiprocessing.SimpleQueue[int | None]", specs: Sequence[str], config: GameConfig) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent sees to it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _use_core(cores.get())
    _worker = config, make_players(specs, config)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _play_in_worker(chunk: Chunk) -> PlayedChunk:
    return play_chunk(chunk, *_worker)


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
