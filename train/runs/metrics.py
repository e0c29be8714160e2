"""The numbers of a training run, a row per update: `metrics.csv`, and the same for TensorBoard."""

import csv
import io
import math
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from train.command import write_text
from train.config import ConfigError

METRICS_FILE, TENSORBOARD_FOLDER = "metrics.csv", "tensorboard"

# The columns that depend on the clock; all others are the same for the same run on the same number of threads.
TIME_COLUMNS = ("seconds", "steps_per_second")


class Metrics:
    """`metrics.csv` and `tensorboard/` of a run folder; what was not measured stays empty.

    Args:
        folder: the run folder.
        columns: names of what is measured, without `step` and `TIME_COLUMNS`.
        last_step: rows after it are dropped, since the run goes on from there.

    Raises:
        OSError: a file cannot be written.
    """

    def __init__(self, folder: Path, columns: Sequence[str], last_step: int = 0) -> None:
        self._file = folder / METRICS_FILE
        self._columns = ["step", *TIME_COLUMNS, *columns]
        rows = read_metrics(self._file)
        self._columns += sorted({name for row in rows for name in row} - set(self._columns))  # of rivals no longer met
        rows = [row for row in rows if row["step"] <= last_step]
        write_text(self._file, self._csv(rows, header=True))
        self.seconds: float = rows[-1]["seconds"] if rows else 0.0  # the clock of the last row
        # Named as TensorBoard expects; a session that goes on takes back what came after its first step.
        name = (
            f"events.out.tfevents.{time.time_ns() // 10**9:010d}.{socket.gethostname()}.{os.getpid()}.{time.time_ns()}"
        )
        self._events_file = folder / TENSORBOARD_FOLDER / name
        start = SessionLog(status=SessionLog.START)
        self._unwritten_events = _event(file_version="brain.Event:2") + _event(step=last_step + 1, session_log=start)
        self._unwritten_rows = ""

    def write(self, row: dict[str, Any]) -> None:
        """Append one row, and those before it that could not be written.

        Raises:
            OSError: it could not be written now; the next call tries again.
        """
        self._unwritten_rows += self._csv([row])
        values = [Summary.Value(tag=_tag(name), simple_value=value) for name, value in row.items() if name != "step"]
        self._unwritten_events += _event(step=row["step"], summary=Summary(value=values))
        self._events_file.parent.mkdir(exist_ok=True)
        _append(self._file, self._unwritten_rows.encode())
        self._unwritten_rows = ""
        _append(self._events_file, self._unwritten_events)
        self._unwritten_events = b""

    def _csv(self, rows: Sequence[dict[str, Any]], header: bool = False) -> str:
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()


def _event(**content: Any) -> bytes:
    """A record of TensorBoard's event file."""
    stream = io.BytesIO()
    RecordWriter(stream).write(Event(wall_time=time.time(), **content).SerializeToString())
    return stream.getvalue()


def _append(file: Path, data: bytes) -> None:
    """Append all of `data` or, with an OSError, nothing."""
    size = file.stat().st_size if file.exists() else 0
    try:
        with file.open("ab") as stream:
            stream.write(data)
    except OSError:
        if file.exists():
            os.truncate(file, size)
        raise


def _tag(name: str) -> str:
    """Where TensorBoard shows a column."""
    if name in TIME_COLUMNS:
        return f"time/{name}"
    if name.startswith("score_"):
        return f"evaluation/{name.removeprefix('score_')}"
    if name.startswith("return_") or name in ("decisions", "draw_share"):
        return f"games/{name}"
    return f"learner/{name}"


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """The whole rows of a metrics file, numbers as numbers, empty ones left out; a torn last row is not one.

    Raises:
        ConfigError: the file holds something else.
    """
    if not file.exists():
        return []
    rows = []
    try:
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]  # what has no line end is torn
        for row in csv.DictReader(lines):
            numbers = {name: float(value) for name, value in row.items() if value}
            for name in ("step", *TIME_COLUMNS):  # every row of a run has them
                if not math.isfinite(numbers[name]):
                    raise ValueError(f"{name}={row[name]} must be finite")
            rows.append({**numbers, "step": int(numbers["step"])})
    except (KeyError, ValueError, TypeError, OverflowError, csv.Error) as error:
        raise ConfigError(f"{file}: no metrics of a run ({type(error).__name__}: {error})") from None
    return rows
