"""The `kernel` decorator: `numba.njit` with an on-disk cache that never serves stale rules.

Numba's own cache looks only at the file a function stands in, so editing `game.py` would leave kernels of other
modules that inline it untouched. Here the cache folder is named after a hash of every source that a kernel can inline:
those of this package and those beside the kernel. Change one and all compile again. The folder lies beside the sources
or, where that is read-only, in the user's cache directory; one of other sources is removed after a month. The first
compilation in a process says so on standard error, for a cold cache takes up to a minute.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

numba_config: Any = numba.config  # its attributes are made at run time

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parents[1]
_CACHE_NAME = re.compile("isis_env-[0-9a-f]{16}")
_KEPT_SECONDS = 30 * 24 * 3600


def _source_hash(*folders: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted({path for folder in folders for path in folder.glob("*.py")}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _inlined_from(folder: Path) -> list[Path]:
    """The folders of the sources that a kernel in `folder` can inline: this package's, and those beside it.

    In another package its own folders all count, for kernels there inline each other across them.
    """
    root = folder
    while (root.parent / "__init__.py").exists():
        root = root.parent
    beside = [folder] if root == _PACKAGE else [root, *(path.parent for path in root.rglob("__init__.py"))]
    return [_PACKAGE, _PACKAGE / "kernels", *beside]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@functools.cache
def cache_folder(sources: Path = _PACKAGE) -> Path | None:
    """Where kernels that stand in the folder `sources` are cached, or None where nothing can be written."""
    name = f"isis_env-{_source_hash(*_inlined_from(sources))}"
    if numba_config.CACHE_DIR:  # the user's own NUMBA_CACHE_DIR
        candidates = [str(numba_config.CACHE_DIR)]
    else:
        user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (never raises)
        candidates = [str(sources / "__pycache__"), f"{user_cache}/isis_env"]
    for folder in candidates:
        path = Path(folder, name)
        is_new = not path.exists()
        if _writable(path):
            if is_new:
                _remove_old(path)
            return path
    return None


def _remove_old(new: Path) -> None:
    """Remove what other sources left beside the folder `new` if nothing was compiled there for a long time."""
    with contextlib.suppress(OSError):  # of another process that does the same
        for folder in new.parent.iterdir():
            if (
                folder != new
                and _CACHE_NAME.fullmatch(folder.name)
                and time.time() - folder.stat().st_mtime > _KEPT_SECONDS
            ):
                shutil.rmtree(folder)


def kernel(function: F) -> F:
    """Compile `function` with numba on first call: no Python objects, no GIL, cached on disk.

    Kernels call each other freely but must not call each other in a circle (the cache cannot link such a pair). One
    that calls itself passes variables: literals would make versions of it that call each other in a circle.
    """
    return _compiled(function)


def inlined(function: F) -> F:
    """A `kernel` whose code is put into those that call it: for what is done in every step of a game.

    A call between kernels costs more than such work itself, for every array is handed over in seven parts.
    """
    return _compiled(function, forceinline=True)


def gil_kernel(function: F) -> F:
    """A `kernel` that keeps the GIL: for work on one game, which takes less time than to let go of it."""
    return _compiled(function, nogil=False)


def _compiled(function: F, *, nogil: bool = True, **options: Any) -> F:
    folder = cache_folder(Path(function.__code__.co_filename).parent)
    _kernels.add(function)
    if folder is None:
        return cast(F, numba.njit(nogil=nogil, **options)(function))
    # Numba reads the folder when it decorates; other packages' functions keep theirs.
    before = numba_config.CACHE_DIR
    numba_config.CACHE_DIR = str(folder)
    try:
        return cast(F, numba.njit(nogil=nogil, cache=True, **options)(function))
    finally:
        numba_config.CACHE_DIR = before


_kernels: set[Callable[..., Any]] = set()


class _Announcement(event.Listener):
    """Tells the user what takes so long, once."""

    made = False

    def on_start(self, compilation: Any) -> None:
        function = getattr(compilation.data["dispatcher"], "py_func", None)
        if self.made or function not in _kernels:
            return
        self.made = True
        folder = cache_folder(Path(function.__code__.co_filename).parent)
        kept = f"once; they are kept in {folder}" if folder else "and nothing can be kept: no cache folder is writable"
        print(f"isis_env: compiling kernels for this machine, {kept}", file=sys.stderr, flush=True)

    def on_end(self, compilation: Any) -> None:
        pass


announcement = _Announcement()
event.register("numba:compile", announcement)
