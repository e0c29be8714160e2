"""Rows of a batch shared among threads: kernels hold no GIL, so plain threads run in parallel."""

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

# Below this many rows a slice is not worth a thread: handing it over costs as much as stepping some hundred rows, and
# two threads are slower than one on 1,024 rows.
MIN_ROWS_PER_THREAD = 2048

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def run_in_slices(
    rows_kernel: Callable[..., None],
    rows: int,
    threads: int,
    *arguments: Any,
    min_rows: int = MIN_ROWS_PER_THREAD,
) -> None:
    """Call `rows_kernel(first, last, *arguments)` so that its slices cover `rows` rows, on up to `threads` threads.

    A thread gets `min_rows` rows or more. Unlike numba's own threading layers, plain threads neither break after a fork
    nor contend with torch's.
    """
    workers = min(threads, max(1, rows // min_rows))
    if workers == 1:
        rows_kernel(0, rows, *arguments)
        return
    edges = np.linspace(0, rows, workers + 1).astype(int)
    key = (os.getpid(), workers)  # a forked child has no threads of its parent's pool
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(workers - 1, thread_name_prefix="isis_env")
    pool = _pools[key]
    others = [pool.submit(rows_kernel, first, last, *arguments) for first, last in itertools.pairwise(edges[1:])]
    rows_kernel(edges[0], edges[1], *arguments)
    for other in others:
        other.result()


def available_cores() -> int:
    """Cores that this process may use, where the system tells, else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
