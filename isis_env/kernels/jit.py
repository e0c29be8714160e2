"""The `kernel` decorator: `numba.njit` with an on-disk cache that never serves stale rules.

Numba's own cache looks only at the file a function stands in, so editing `game.py` would leave kernels of other
modules that inline it untouched. Here the cache folder is named after a hash of every source that a kernel can inline:
those of this package and those beside the kernel. Change one and all compile again. The folder lies beside the sources
or, where that is read-only, in the user's cache directory; one of other sources is removed after a month. The first
compilation in a process says so on standard error, for a cold cache takes up to a minute.

The files of the cache are pickles, which can run code when they are read. So the folder must be one that only this user
can write to, as the default ones are; do not point `NUMBA_CACHE_DIR` at a folder that others share.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

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


def kernel(function: F, *, name_of: Callable[..., Any] | None = None) -> F:
    """Compile `function` with numba on first call: no Python objects, no GIL, cached on disk.

    Kernels call each other freely but must not call each other in a circle (the cache cannot link such a pair). One
    that calls itself passes variables: literals would make versions of it that call each other in a circle.

    Args:
        name_of: for a function made inside another: what it was made for. It is cached beside that one, under a name
            of its own, and must depend on nothing else.
    """
    if name_of is not None:
        function.__qualname__ = f"{name_of.__qualname__}.{function.__name__}"
        function.__module__ = name_of.__module__
    return _compiled(function, name_of or function)


def inlined(function: F) -> F:
    """A `kernel` whose code is put into those that call it: for what is done in every step of a game.

    A call between kernels costs more than such work itself, for every array is handed over in seven parts.
    """
    return _compiled(function, function, forceinline=True)


def gil_kernel(function: F) -> F:
    """A `kernel` that keeps the GIL: for work on one game, which takes less time than to let go of it."""
    return _compiled(function, function, nogil=False)


def _compiled(function: F, source: Callable[..., Any], *, nogil: bool = True, **options: Any) -> F:
    dispatcher = numba.njit(nogil=nogil, **options)(function)
    if numba_config.DISABLE_JIT:
        return cast(F, dispatcher)
    file = Path(source.__code__.co_filename)
    folder = cache_folder(file.parent) if file.is_file() else None
    _folder_of[function] = folder
    if folder is not None:
        dispatcher._cache = _KernelCache(function, source, folder)
    return cast(F, dispatcher)


_folder_of: dict[Callable[..., Any], Path | None] = {}  # where each kernel is cached


class _KernelCache(NullCache):
    """The compiled versions of one function on disk, in place of numba's own cache.

    One file for each signature: the SHA-256 of what follows, and what numba needs to load it. A file that is damaged in
    any way is removed, and the function is compiled again; numba's own cache raises, or runs what it finds. A file is
    written whole or not at all. Nothing that can happen to the folder is an error.

    The files are pickles: whoever can write to the folder can run code in processes that read it.
    """

    def __init__(self, function: Callable[..., Any], source: Callable[..., Any], folder: Path) -> None:
        self._folder = folder
        code = source.__code__
        self._name = f"{Path(code.co_filename).stem}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._identity = (
            *(numba.__version__, sys.version, code.co_filename, function.__qualname__, str(code.co_firstlineno)),
            *(hashlib.sha256(part.co_code).hexdigest() for part in (code, function.__code__)),
        )

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _say_once("read", f"cannot read compiled kernels ({error}): compiling them again")
            return None
        try:
            digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(data).digest() != digest:
                raise ValueError("not what was written")
            return CompileResult._rebuild(target_context, *pickle.loads(data))
        except Exception:  # a damaged pickle raises anything
            with contextlib.suppress(OSError):
                path.unlink()
            _say_once("damaged", f"{path} was damaged and is removed: compiling again what was lost")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if data.library.has_dynamic_globals:  # addresses of this process
            return
        try:
            content = dumps(data._reduce())
            _write_whole(self._path(sig, data.codegen), hashlib.sha256(content).digest() + content)
        except (OSError, RuntimeError) as error:  # RuntimeError: numba has no object code to give
            _say_once("write", f"compiled kernels are not kept: {error}")

    def _path(self, sig: Any, codegen: Any) -> Path:
        identity = (*self._identity, str(sig), *map(str, codegen.magic_tuple()))
        return self._folder / f"{self._name}-{hashlib.sha256(repr(identity).encode()).hexdigest()[:16]}.nbc"


_DIGEST_BYTES = hashlib.sha256().digest_size


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is whole or absent, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _say_once(topic: str, text: str) -> None:
    """Tell the user on standard error, once per topic and process."""
    if topic not in _said:
        _said.add(topic)
        print(f"isis_env: {text}", file=sys.stderr, flush=True)


_said: set[str] = set()


class _Announcement(event.Listener):
    """Tells the user what takes so long, once."""

    made = False

    def on_start(self, compilation: Any) -> None:
        function = getattr(compilation.data["dispatcher"], "py_func", None)
        if self.made or function not in _folder_of:
            return
        self.made = True
        folder = _folder_of[function]
        kept = f"once; they are kept in {folder}" if folder else "and nothing can be kept: no cache folder is writable"
        print(f"isis_env: compiling kernels for this machine, {kept}", file=sys.stderr, flush=True)

    def on_end(self, compilation: Any) -> None:
        pass


announcement = _Announcement()
event.register("numba:compile", announcement)
