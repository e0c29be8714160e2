"""Stopping a run on request: Ctrl-C, SIGTERM or a closed terminal let the update under way end and be saved."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from isis_env.command_line import handle_signals
from train.command import Stopped


class StopRequest:
    """Whether a signal has asked the run to stop.

    Attributes:
        number: which signal, None while there was none.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    def __bool__(self) -> bool:
        return self.number is not None


class Interrupted(Stopped):
    """The run was asked to stop, has saved itself, and can be resumed."""


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Note the first signal in the StopRequest; the second one stops at once, as a `Stopped`.

    A signal that the process was told to ignore (`nohup`) stays ignored. When the terminal is closed, output that would
    go there is dropped.
    """
    request = StopRequest()
    terminals = [number for number in (1, 2) if os.isatty(number)]

    def note(number: int, frame: Any) -> None:
        if number == getattr(signal, "SIGHUP", None):
            for terminal in terminals:
                os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)
        if request:
            raise Stopped(number)
        request.number = number
        with contextlib.suppress(OSError):
            print("\nfinishing this update, then saving; once more to stop at once", file=sys.stderr)

    with handle_signals(note):
        yield request
