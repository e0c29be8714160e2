"""Rows of a batch shared among threads.

Kernels hold no GIL, so a thread pool spreads them over the cores. The rows are cut into chunks, and each thread takes
the next chunk until none is left; the caller is one of these threads. So nobody waits for a thread that is late, and a
call never depends on the pool: where no thread is free, or none can be had, the caller does all the work.

Handing work over takes tens of microseconds. Fewer than `MIN_ROWS` rows per thread are therefore left to the caller.

A kernel that can be shared works on rows `first` to `last - 1` of its arguments:

    @shared_kernel
    def double(first, last, numbers):
        for row in range(first, last):
            numbers[row] *= 2

    run_shared(double, len(numbers), threads, numbers)
"""

import functools
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from numba.core import cgutils, types
from numba.extending import intrinsic

from isis_env.config import check_positive
from isis_env.kernels.jit import kernel, numba_config

F = TypeVar("F", bound=Callable[..., None])

# Rows per thread below which handing over costs more than it saves, for kernels that step or describe a game.
MIN_ROWS = 4096

# Chunks per thread: more let a fast thread help a slow one, fewer cost less to hand out.
_CHUNKS_EACH = 2


def shared_kernel(function: F) -> F:
    """Compile `function(first, last, *arguments)` as a kernel whose rows `run_shared` can share among threads.

    Arguments are arrays, numbers, and tuples of them. The kernel borrows its arrays: it must not return them or keep
    them anywhere.
    """
    rows_kernel = kernel(function)
    if numba_config.DISABLE_JIT:
        return rows_kernel

    def borrowing(first, last, *arguments):
        rows_kernel(first, last, *_borrowed(arguments))

    return cast(F, kernel(borrowing, name_of=function))


def run_shared(shared: Callable[..., None], rows: int, threads: int, *arguments: Any, min_rows: int = MIN_ROWS) -> None:
    """Have a shared kernel work on `rows` rows of its arguments, on up to `threads` threads.

    All of the work is done when this returns. An error that the kernel raises in any thread is raised here; rows that
    nobody has begun are then left out.

    Args:
        min_rows: rows that are worth a thread; a thread takes at least so many at a time.
    """
    threads = min(threads, rows // min_rows)
    if threads < 2 or numba_config.DISABLE_JIT:
        shared(0, rows, *arguments)
        return
    size = max(min_rows, -(-rows // (threads * _CHUNKS_EACH)))
    firsts = deque(range(0, rows, size))

    def work(take: Callable[[], int]) -> None:
        while True:
            try:
                first = take()
            except IndexError:
                return
            try:
                shared(first, min(first + size, rows), *arguments)
            except BaseException:
                firsts.clear()
                raise

    pool = _pool()
    helpers = []
    try:
        for _ in range(threads - 1):
            helpers.append(pool.submit(work, firsts.pop))
    except RuntimeError:  # the system allows no more threads, or Python is about to exit
        pool.shutdown(cancel_futures=True)
        _pool.cache_clear()
    try:
        work(firsts.popleft)
    finally:
        # Cancel helpers that have not started: no chunks are left, and waiting for them could deadlock nested calls.
        running = [helper for helper in helpers if not helper.cancel()]
        errors = [helper.exception() for helper in running]
    for error in errors:
        if error is not None:
            raise error


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """The pool of this process: it starts a thread when none is idle, and idle ones sleep."""
    return ThreadPoolExecutor(max_threads(), thread_name_prefix="isis_env")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has none of its parent's threads


def available_cores() -> int:
    """Cores that this process may use, where the system tells, else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def max_threads() -> int:
    """The most threads that may be asked for: 64, or one per core of a larger machine."""
    return max(64, os.cpu_count() or 1)


def check_threads(threads: object, name: str = "threads") -> int:
    """`threads` as an int from 1 to `max_threads()`, or a ValueError that names it as `name`."""
    checked = check_positive(name, threads)
    if checked > max_threads():
        raise ValueError(f"{name}={checked}: must be at most {max_threads()} on this machine")
    return checked


@intrinsic
def _borrowed(typingctx, arguments):
    """The tuple `arguments`, with reference counting of its arrays turned off.

    Slicing an array updates a counter that all threads share, and they would spend most of their time contending for
    its cache line. This is safe because the caller of the kernel holds a reference until the kernel has returned.
    """

    def codegen(context, builder, signature, args):
        def borrow(kind, value):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, value)
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                return array._getvalue()
            if isinstance(kind, types.BaseTuple):
                for index, part in enumerate(kind):
                    found = borrow(part, builder.extract_value(value, index))
                    value = builder.insert_value(value, found, index)
            return value

        return borrow(signature.args[0], args[0])

    return arguments(arguments), codegen
