"""The engine room: how the rules are compiled, and what is written below Python.

In the room:

- `jit`: the decorators `kernel`, `inlined` and `gil_kernel`, which compile a function with numba, and the cache of what
  they compile. A stale entry is never used, and a damaged one is compiled again.
- `vectors`: the cells of a board in vector instructions, sets of cells as bits.
- `threads`: `shared_kernel` and `run_shared`, which spread the rows of a batch over a thread pool.

Why it is here. Nanoseconds for one step of one game, standard board and 2 players, observation and mask included, when
the parts were measured apart (two figures: quiet and busy machine):

    code                                        1,024 games,   1,024 games,   16,384 games,
                                                one core       two cores      two cores
    vectors, spinning threads (before)          71             47-98          38-70
    vectors, thread pool, borrowed arrays       72             155            59-85
    vectors, thread pool, counted arrays        103            170            67
    plain numba loops, spinning threads         107            63-122         52-81

So `vectors` makes a step 1.5 times as fast on one core, and nothing plain comes near it. Arrays that are borrowed
(`threads._borrowed`) rather than counted are worth as much. A pool of threads that wait in a loop for work was worth
a second core at 1,024 games, for 76 more lines of machine code and busy cores. No learner can use that core, for a
network takes a hundred times as long for these positions; so that pool is gone. Small batches stay on one core
(`threads.MIN_ROWS`), where handing over would lose.

What of numba this room depends on, beyond its documentation:

- `jit`: `Dispatcher._cache`, and `load_overload` and `save_overload` as numba calls them there
  (`numba.core.caching.NullCache`); `CompileResult._reduce` and `_rebuild`; `numba.core.serialize.dumps`;
  `CodeLibrary.has_dynamic_globals`; `codegen.magic_tuple()`; the option `forceinline`; the event `numba:compile` and
  its `data["dispatcher"]`.
- `vectors` and `threads`: `numba.extending.intrinsic`, which is documented, and within it llvmlite's `ir.IRBuilder`,
  `numba.core.types`, `numba.core.cgutils`, and an array as `context.make_array` shows it, with `data` and `meminfo`.

What to do when numba changes. Run `tests/test_jit.py`, `test_kernel_cache.py`, `test_vectors.py` and
`test_threads.py`, which have one test or more for each of the above; then `make bench` before and after. If the cache
breaks, `_KernelCache` can be left out: pass `cache=True` to `numba.njit` with `NUMBA_CACHE_DIR` set to
`jit.cache_folder()`, and damage ends programs again. If `_borrowed` breaks, `return arguments` from it: right, and 1.45
times as slow. If `vectors` breaks, set its `_COMPILED` to False: right, and 1.5 times as slow. With
`NUMBA_DISABLE_JIT=1` nothing of this room is needed, and everything else is the same.

Hand-written machine code, blank lines apart: 60 lines in `vectors`, 19 in `threads`.
"""

from isis_env.kernels.jit import gil_kernel, inlined, kernel
from isis_env.kernels.threads import available_cores, run_shared, shared_kernel

__all__ = ["available_cores", "gil_kernel", "inlined", "kernel", "run_shared", "shared_kernel"]
