"""The batch loop as a plain C program, `engine.c`: compiled on the fly, called through ctypes, compared with ours."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np

from isis_env.batch import TimeStep
from isis_env.config import GameConfig
from isis_env.observation import observation_size

SOURCE = Path(__file__).with_name("engine.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")


class _Turn(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in TimeStep._fields]


def compiler() -> str:
    """The first line of what the C compiler says of its version.

    Raises:
        OSError, subprocess.CalledProcessError: there is none, or it fails.
    """
    run = subprocess.run([_find_compiler(), "--version"], check=True, capture_output=True, text=True)
    return run.stdout.partition("\n")[0]


def build(folder: Path) -> ctypes.CDLL:
    """Compile `engine.c` into `folder` and load it.

    Raises:
        OSError, subprocess.CalledProcessError: there is no compiler, or it fails.
    """
    path = folder / "engine.so"
    subprocess.run([_find_compiler(), *FLAGS, "-o", path, SOURCE], check=True, capture_output=True, text=True)
    library = ctypes.CDLL(str(path))
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    library.game_size.restype = integer
    library.reset.argtypes = [pointer, integer, ctypes.c_int, ctypes.c_bool, ctypes.c_uint64, pointer]
    library.play.argtypes = [pointer, integer, integer, integer, integer, pointer, pointer]
    return library


class Engine:
    """Games on the standard board that the C program plays.

    Attributes:
        turn: the pending decisions, as `Batch.step` gives them.
    """

    def __init__(self, library: ctypes.CDLL, config: GameConfig, games: int, seed: int = 0) -> None:
        self._library = library
        self._games = np.zeros((games, library.game_size()), np.uint8)
        self.turn = TimeStep(
            np.empty((games, observation_size()), np.float32),
            np.empty((games, config.num_actions), np.int8),
            np.empty(games, np.int64),
            np.empty((games, 4), np.float64),
            np.empty(games, np.bool_),
        )
        self._turn = ctypes.byref(_Turn(*(array.ctypes.data for array in self.turn)))
        library.reset(self._games.ctypes.data, games, config.players, config.common_reserve, seed, self._turn)

    def play(self, seeds: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Random legal actions in rows `first` to `last` - 1, by default all: one per row of `seeds`, uint64[k, n]."""
        steps, games = seeds.shape
        last = games if last is None else last
        self._library.play(self._games.ctypes.data, games, first, last, steps, seeds.ctypes.data, self._turn)


def _find_compiler() -> str:
    found = next(filter(None, map(shutil.which, COMPILERS)), None)
    if found is None:
        raise OSError("no C compiler found")
    return found
