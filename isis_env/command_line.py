"""What every command shares: arguments, errors and signals as one line on stderr and an exit status.

This module imports nothing but the standard library, so that a command can use it before it loads what takes seconds.
"""

import _thread
import argparse
import contextlib
import dis
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NoReturn

# Exit statuses; one that a signal asked to end returns 128 + the signal's number, as shells do.
BAD_ARGUMENT, FAILED = 2, 1

# The signals that ask a command to end: Ctrl-C, `kill`, a closed terminal. Windows has no SIGHUP.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_OUR_PACKAGES = ("isis_env", "agents", "train")

# Set once a signal has been raised as an exception. Objects that it left half built fail in their destructors, which
# tells the user nothing.
_stopping = threading.Event()

# No count or seed has more digits.
MAX_DIGITS = 30


class Stopped(KeyboardInterrupt):
    """A signal asked the command to end.

    Attributes:
        number: which signal.
        message: what to tell the user; empty where `run_command` is to say it.
    """

    def __init__(self, number: int = signal.SIGINT, message: str = "") -> None:
        super().__init__(message)
        self.number, self.message = int(number), message


class ArgumentParser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` whose errors are one line, too: a ValueError for `run_command`."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def whole_number(text: str) -> int:
    """The type of arguments that are whole numbers, also written as `1e6` or `1000.0`.

    Only the form is checked here: which numbers are allowed is for the code that uses them to say.

    Raises:
        argparse.ArgumentTypeError: it is no such number.
    """
    match = re.fullmatch(r"([+-]?)([0-9]+)(?:\.([0-9]*))?(?:[eE]\+?([0-9]{1,3}))?", text)
    shown = text if len(text) <= 40 else f"{text[:40]}... ({len(text)} characters)"
    if match:
        sign, whole, fraction, exponent = match[1], match[2], (match[3] or "").rstrip("0"), int(match[4] or 0)
        digits = (whole + fraction).lstrip("0")
        zeros = exponent - len(fraction)
        if not digits:
            return 0
        if zeros >= 0 and len(digits) + zeros <= MAX_DIGITS:
            return int(sign + digits + "0" * zeros)
        if zeros >= 0:
            raise argparse.ArgumentTypeError(f"{shown}: must have at most {MAX_DIGITS} digits")
    raise argparse.ArgumentTypeError(f"{shown!r}: must be a whole number, such as 1000 or 1e3")


def run_command(main: Callable[[], int | None], *, stopped: str = "stopped") -> int:
    """Run a command and return its exit status; what goes wrong is one line on stderr.

    SIGTERM and SIGHUP end `main` as Ctrl-C does: with a `Stopped`, a KeyboardInterrupt that knows the signal. A signal
    that the process was told to ignore (`nohup`) stays ignored.

    - Errors that our code raises on purpose (ValueError, TypeError, ImportError and the error classes of this project)
      return their `exit_status`, 2 where they have none.
    - OSError (a full disk, a missing file) and MemoryError return 1.
    - Signals return 128 + number, after `Stopped.message` or else `stopped`.
    - A closed pipe (`| head`) returns 141 silently.
    - Everything else is a bug and keeps its traceback.
    """
    with _signals_as_exceptions():
        try:
            status = main()
            sys.stdout.flush()  # a full disk or a reader that has left shows here at the latest
            return status or 0
        except KeyboardInterrupt as stop:
            _ignore_signals()
            number, message = getattr(stop, "number", int(signal.SIGINT)), getattr(stop, "message", "")
            _print_line(message or stopped)
            stop.__traceback__ = None
            gc.collect()  # what the signal left half built goes now, while `_resend_lost_signal` keeps silent
            return 128 + number
        except BrokenPipeError:
            _drop_output()
            return 128 + 13  # SIGPIPE, which Windows has not
        except OSError as error:
            _drop_output()
            return _fail(_os_error_text(error), getattr(error, "exit_status", FAILED))
        except MemoryError as error:
            return _fail(f"not enough memory ({_one_line(error) or 'the system gave no more'})", FAILED)
        except Exception as error:
            if not _raised_on_purpose(error):
                raise
            return _fail(_one_line(error), getattr(error, "exit_status", BAD_ARGUMENT))


def _raised_on_purpose(error: Exception) -> bool:
    """Whether our code raised this error to tell the user something.

    That is so for our own error classes, and for ValueError, TypeError and ImportError where one of our functions
    raised them by a `raise` statement. Users of the library expect these classes for wrong arguments, so there is no
    base class of ours to tell them by. The last instruction of the traceback does: a bug such as `None + 1` in our code
    raises the same classes, but not by `raise`, and must keep its traceback.
    """
    if type(error).__module__.partition(".")[0] in _OUR_PACKAGES:
        return True
    if not isinstance(error, ValueError | TypeError | ImportError):
        return False
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    package = str(last.tb_frame.f_globals.get("__package__") or "").partition(".")[0]
    return package in _OUR_PACKAGES and last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _os_error_text(error: OSError) -> str:
    if error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return error.strerror or _one_line(error)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _fail(message: str, status: int) -> int:
    _print_line(f"error: {message}")
    return status


def _print_line(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
        print(line, file=sys.stderr, flush=True)


def _drop_output() -> None:
    """Forget output that cannot be written; Python would try once more at its end, and complain."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def handle_signals(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Have `handler(number, frame)` called where one of `SIGNALS` arrives, and put back what was before at the end.

    A signal that the process was told to ignore (`nohup`) stays ignored. Outside the main thread, which alone is sent
    signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, old in before.items():
        if old is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)


@contextlib.contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Raise `Stopped` in the main thread where one of `SIGNALS` arrives."""
    hook = sys.unraisablehook
    sys.unraisablehook = _resend_lost_signal
    try:
        with handle_signals(_raise_stopped):
            yield
    finally:
        _stopping.clear()
        sys.unraisablehook = hook


def _raise_stopped(number: int, frame: Any) -> NoReturn:
    _stopping.set()
    raise Stopped(number)


def _ignore_signals() -> None:
    """One Ctrl-C is enough: a second one must not break off what the first one set going."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _resend_lost_signal(lost: Any) -> None:
    """Python drops an exception raised inside a destructor or a callback of C: have the signal come once more."""
    if isinstance(lost.exc_value, Stopped):
        threading.Timer(0.01, _thread.interrupt_main, [lost.exc_value.number]).start()
    elif not _stopping.is_set():
        sys.__unraisablehook__(lost)
