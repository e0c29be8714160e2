"""Rows of a batch shared among threads.

Numba's own threading layers break after a fork or contend with torch's, and a thread pool hands work over in the time
that a thousand games take to step. So this is a pool of its own, for kernels: helper threads wait for work in a loop of
machine code that holds no GIL, and sleep when nothing has come for a while. Handing over takes about a microsecond.

Every thread has a share of the rows, the same from call to call, so that its core caches them. It takes its share
in chunks, and then chunks of the others' shares: so nobody waits for a helper that is late, or for a slow core.

A kernel that can be shared works on rows `first` to `last` of its arguments:

    @shared_kernel
    def double(first, last, numbers):
        for row in range(first, last):
            numbers[row] *= 2

    run_shared(double, len(numbers), threads, numbers)
"""

import atexit
import os
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from isis_env.kernels.jit import kernel, numba_config

# Fewer rows than this are not worth handing over.
MIN_ROWS = 256

# Chunks per share: enough that a slow core holds nobody up, few enough that taking them costs nothing.
_CHUNKS_EACH = 4

_MAX_THREADS = 64

# How often a thread looks for what it waits for before it gives up, some 50 microseconds.
_PATIENCE = 100_000

# What threads tell each other, in one array of int64: whether a job is open, who takes part, what it is, how many rows
# of every share are taken, and the arguments as bytes. What one thread looks at while another writes lies words apart,
# or cores would fetch the same cache lines from each other all the time (they fetch them in pairs).
_APART = 16
_OPEN, _ACTIVE, _FAILED = 0, _APART, 2 * _APART
_ROWS, _CHUNK, _THREADS, _ENTRY = range(3 * _APART, 3 * _APART + 4)
_TAKEN = 4 * _APART
_ARGUMENTS = _TAKEN + _APART * _MAX_THREADS
_WORDS = _ARGUMENTS + 512


class SharedKernel(NamedTuple):
    """What `shared_kernel` makes of a function.

    Attributes:
        alone: the kernel (first, last, *arguments).
        with_crew: a kernel (crew, rows, chunk, threads, *arguments) that has all rows done, for `_Crew.run`.
    """

    alone: Callable[..., None]
    with_crew: Callable[..., None]


def shared_kernel(function: Callable[..., None]) -> SharedKernel:
    """Compile `function(first, last, *arguments)` as a kernel that several threads can run on their share of the rows.

    It must not raise: a thread without the GIL has no way to say more than that it failed.
    """
    rows_kernel = kernel(function)
    entry = _entry_of(rows_kernel)

    def variant(template: Callable[..., None]) -> Callable[..., None]:
        # Numba files compiled code under a function's name and place: this one is told to stand where `function` does.
        at = function.__code__
        code = template.__code__.replace(co_filename=at.co_filename, co_firstlineno=at.co_firstlineno)
        made = FunctionType(code, {**globals(), "_rows_kernel": rows_kernel, "_entry": entry}, function.__name__)
        made.__qualname__ = f"{function.__qualname__}{template.__name__}"
        made.__module__ = function.__module__
        return kernel(made)

    return SharedKernel(rows_kernel if numba_config.DISABLE_JIT else variant(_alone), variant(_with_crew))


def run_shared(shared: SharedKernel, rows: int, threads: int, *arguments: Any, min_rows: int = MIN_ROWS) -> None:
    """Have a kernel work on `rows` rows of its arguments, on up to `threads` threads.

    Each takes `min_rows` rows or more at a time.
    """
    threads = min(threads, rows // min_rows, _MAX_THREADS)
    crew = _crew_of(os.getpid()) if threads > 1 and not numba_config.DISABLE_JIT else None
    if crew is None or not crew.free.acquire(blocking=False):  # not free: at work for another thread of the program
        shared.alone(0, rows, *arguments)
        return
    try:
        chunk = max(min_rows, -(-rows // (threads * _CHUNKS_EACH)))
        crew.run(shared.with_crew, rows, chunk, threads, arguments)
    finally:
        crew.free.release()


def available_cores() -> int:
    """Cores that this process may use, where the system tells, else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Crew:
    """The helper threads of one process.

    Attributes:
        free: held by the thread whose job is being done.
    """

    def __init__(self) -> None:
        self.free = threading.Lock()
        self._process = os.getpid()
        self._board = np.zeros(_WORDS, np.int64)
        self._threads: list[threading.Thread] = []
        self._wake = threading.Condition()
        self._asleep = 0
        self._closing = False
        atexit.register(self._close)

    def run(self, with_crew: Callable[..., None], rows: int, chunk: int, threads: int, arguments: tuple) -> None:
        """Do a job on up to so many threads, the caller's among them; all of it is done when this returns."""
        for place in range(1 + len(self._threads), threads):
            thread = threading.Thread(target=self._help, args=(place,), name=f"isis_env-{place}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system allows no more: those that are there do all the work
                break
            self._threads.append(thread)
        if self._asleep:
            with self._wake:
                self._wake.notify_all()
        with_crew(self._board, rows, chunk, threads, *arguments)
        if self._board[_FAILED]:
            raise RuntimeError(f"{with_crew.__name__} failed in a thread; out of memory?")

    def _help(self, place: int) -> None:
        while not self._closing:
            if not _serve(self._board, place, _PATIENCE):
                with self._wake:
                    self._asleep += 1
                    if not self._closing:
                        self._wake.wait()
                    self._asleep -= 1

    def _close(self) -> None:
        if os.getpid() != self._process:
            return  # in a forked child, which has none of these threads
        self._closing = True
        with self._wake:
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()


_crews: dict[int, _Crew] = {}


def _crew_of(process: int) -> _Crew:
    """That of this process: a forked child has no threads of its parent's."""
    return _crews.get(process) or _crews.setdefault(process, _Crew())


def _alone(first, last, *arguments):
    """`shared_kernel` makes a kernel of this for each of its own."""
    _rows_kernel(first, last, *_borrowed(arguments))  # noqa: F821 (given by `shared_kernel`)


def _with_crew(crew, rows, chunk, threads, *arguments):
    """Offer a job, take part in it, and close it. `shared_kernel` makes a kernel of this for each of its own.

    Helpers use what numba has made of the arguments, which ends with this call: so it waits for them.
    """
    _write_arguments(crew, _borrowed(arguments))
    crew[_ENTRY] = _entry(arguments)  # noqa: F821 (given by `shared_kernel`)
    crew[_ROWS], crew[_CHUNK], crew[_THREADS], crew[_FAILED] = rows, chunk, threads, 0
    for share in range(threads):
        crew[_TAKEN + _APART * share] = 0
    _store(crew, _OPEN, 1)
    _work(crew, 0)
    _store(crew, _OPEN, 0)
    looks = 0
    while _load(crew, _ACTIVE) != 0:
        looks += 1
        if looks > _PATIENCE:
            _yield()  # a helper is slow, maybe because it waits for this core


@kernel
def _work(crew, place):
    """Do chunks of the open job until none is left, those of the own share first; whether there were any."""
    rows, chunk, threads = crew[_ROWS], crew[_CHUNK], crew[_THREADS]
    some = False
    for turn in range(threads):
        share = (place + turn) % threads
        begin, end = rows * share // threads, rows * (share + 1) // threads
        first = begin + _add(crew, _TAKEN + _APART * share, chunk)
        while first < end:
            some = True
            if _call(crew, first, min(first + chunk, end)) != 0:
                crew[_FAILED] = 1
            first = begin + _add(crew, _TAKEN + _APART * share, chunk)
    return some


@kernel
def _serve(crew, place, patience):
    """Take part in jobs until none has come for a while; whether there were any.

    A job may be closed at any moment. So a helper says that it is active before it looks whether the job is still open,
    and whoever closes it waits until nobody is.
    """
    some = False
    looks = 0
    while looks < patience:
        looks += 1
        if _load(crew, _OPEN) != 0 and place < crew[_THREADS]:
            _add(crew, _ACTIVE, 1)
            if _load(crew, _OPEN) != 0 and _work(crew, place):
                some = True
                looks = 0
            _add(crew, _ACTIVE, -1)
    return some


# Machine code that numba has no words for: atomic access to a crew's array, and calls by address.


@intrinsic
def _load(typingctx, array, index):
    """`array[index]` (int64), in one order for all threads."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_pointer(context, builder, signature, args), "seq_cst", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def _store(typingctx, array, index, value):
    """`array[index] = value` (int64), in one order for all threads."""

    def codegen(context, builder, signature, args):
        builder.store_atomic(args[2], _pointer(context, builder, signature, args), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def _add(typingctx, array, index, value):
    """`array[index] += value` (int64) in one step; what was there before."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", _pointer(context, builder, signature, args), args[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), codegen


@intrinsic
def _borrowed(typingctx, arguments):
    """The tuple `arguments`, its arrays such that nobody counts references to them.

    Every slice of an array counts one more for a while, in one place for all threads: they would spend most of their
    time in fetching it from each other.
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


@intrinsic
def _write_arguments(typingctx, crew, arguments):
    """Put the tuple `arguments`, as numba holds it, where `_entry` finds it."""

    def codegen(context, builder, signature, args):
        room = 8 * (_WORDS - _ARGUMENTS)
        size = context.get_abi_sizeof(args[1].type)
        assert size <= room, f"arguments of {size} bytes, must be at most {room}"
        place = _pointer(context, builder, signature, [args[0], context.get_constant(types.intp, _ARGUMENTS)])
        builder.store(args[1], builder.bitcast(place, args[1].type.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(crew, arguments), codegen


_ENTRY_TYPE = ir.FunctionType(ir.IntType(32), [ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(64)])


def _entry_of(rows_kernel: Any) -> Any:
    """A function of kernels: from a job's arguments to the address of code that calls `rows_kernel`.

    The code takes (arguments, first, last) and returns a status, 0 where all is well.
    """

    @intrinsic
    def entry(typingctx, arguments):
        kernel_types = (types.int64, types.int64, *arguments)

        def codegen(context, builder, signature, args):
            compiled = rows_kernel.get_compile_result(types.void(*kernel_types))
            context.active_code_library.add_linking_library(compiled.library)
            callee = context.declare_function(builder.module, compiled.fndesc)
            function = ir.Function(builder.module, _ENTRY_TYPE, f"{compiled.fndesc.mangled_name}_entry")
            function.linkage = "internal"
            inner = ir.IRBuilder(function.append_basic_block())
            packed = inner.bitcast(function.args[0], context.get_value_type(arguments).as_pointer())
            passed = [*function.args[1:], *cgutils.unpack_tuple(inner, inner.load(packed, align=8))]
            status, _ = context.call_conv.call_function(inner, callee, types.void, kernel_types, passed)
            inner.ret(status.code)
            return builder.ptrtoint(function, ir.IntType(64))

        return types.int64(arguments), codegen

    return entry


@intrinsic
def _call(typingctx, crew, first, last):
    """Call the job's entry on some rows; its status."""

    def codegen(context, builder, signature, args):
        def word(index):
            return _pointer(context, builder, signature, [args[0], context.get_constant(types.intp, index)])

        entry = builder.inttoptr(builder.load(word(_ENTRY)), _ENTRY_TYPE.as_pointer())
        arguments = builder.bitcast(word(_ARGUMENTS), ir.IntType(8).as_pointer())
        return builder.call(entry, [arguments, args[1], args[2]])

    return types.int32(crew, types.int64, types.int64), codegen


@intrinsic
def _yield(typingctx):
    """Let others have this core, where the system knows how."""

    def codegen(context, builder, signature, args):
        if os.name == "posix":
            function = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, function, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


def _pointer(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
    """To entry `args[1]` of the array `args[0]`."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])
