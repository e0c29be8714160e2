"""What a training run says of itself: a row of numbers per update, as CSV and for TensorBoard."""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from torch.utils.tensorboard import SummaryWriter

from train.command import write_text
from train.config import ConfigError

METRICS_FILE, TENSORBOARD_FOLDER = "metrics.csv", "tensorboard"

# The columns that depend on the clock; all others are the same for the same run on the same number of threads.
TIME_COLUMNS = ("seconds", "steps_per_second")

_LEARNER = {
    "learning_rate": "train/learning_rate",
    "policy_loss": "train/policy_gradient_loss",
    "value_loss": "train/value_loss",
    "approx_kl": "train/approx_kl",
    "clip_fraction": "train/clip_fraction",
    "explained_variance": "train/explained_variance",
}


def learner_metrics(model: MaskablePPO) -> dict[str, float]:
    """What the last update said of itself."""
    values = model.logger.name_to_value
    found = {ours: float(values[theirs]) for ours, theirs in _LEARNER.items()}
    found["entropy"] = -float(values["train/entropy_loss"])
    return {name: float(f"{value:.5g}") for name, value in found.items()}


class EpisodeStatistics(BaseCallback):
    """Collects what happens in the games between two updates.

    Args:
        kind: what to call an opponent, by its index in the environment.
    """

    def __init__(self, kind: Callable[[int], str]) -> None:
        super().__init__()
        self._kind = kind
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        # By kind of the opponent on the seat after the learner's
        self.returns: dict[str, list[float]] = defaultdict(list)
        self.shares: dict[str, list[float]] = defaultdict(list)  # of the win
        self._lengths: list[int] = []
        self._choices = self._draws = 0

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                kind = self._kind(info["opponents"][0])
                self.returns[kind].append(info["episode"]["r"])
                self.shares[kind].append(info["win_share"])
                self._lengths.append(info["episode"]["l"])
        masks, actions = self.locals["action_masks"], self.locals["actions"]
        choice = (masks[:, -1] == 1) & (masks[:, :-1].any(axis=1))
        self._choices += int(choice.sum())
        self._draws += int((actions[choice] == masks.shape[1] - 1).sum())
        return True

    def summary(self) -> dict[str, float]:
        """Mean return per kind of opponent, decisions per game, and the share of draws where both kinds were legal."""
        summary = {f"return_{kind}": round(float(np.mean(r)), 4) for kind, r in self.returns.items()}
        if self._lengths:
            summary["decisions"] = round(float(np.mean(self._lengths)), 2)
        if self._choices:
            summary["draw_share"] = round(self._draws / self._choices, 4)
        return summary


class Metrics:
    """`metrics.csv` and `tensorboard/` of a run folder; what was not measured stays empty.

    Args:
        folder: the run folder.
        kinds: names of the opponents trained against.
        rivals: specs of the agents measured against.
        last_step: rows after it are dropped, since the run goes on from there.
    """

    def __init__(self, folder: Path, kinds: Sequence[str], rivals: Sequence[str], last_step: int = 0) -> None:
        self._file = folder / METRICS_FILE
        self._columns = [
            "step",
            *TIME_COLUMNS,
            *_LEARNER,
            "entropy",
            "decisions",
            "draw_share",
            *(f"return_{kind}" for kind in kinds),
            *(f"score_{rival}" for rival in rivals),
        ]
        rows = read_metrics(self._file)
        self._columns += sorted({name for row in rows for name in row} - set(self._columns))  # of rivals no longer met
        self._rows = [row for row in rows if row["step"] <= last_step]
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._rows)
        write_text(self._file, text.getvalue())
        self._unwritten = ""
        self._board = SummaryWriter(str(folder / TENSORBOARD_FOLDER), purge_step=last_step + 1)

    @property
    def seconds(self) -> float:
        """The clock of the last row."""
        return self._rows[-1]["seconds"] if self._rows else 0.0

    def write(self, row: dict[str, Any]) -> None:
        """Append one row, and those before it that could not be written.

        Raises:
            OSError: it could not be written now; the next call tries again.
        """
        text = io.StringIO()
        csv.DictWriter(text, self._columns, lineterminator="\n").writerow(row)
        self._unwritten += text.getvalue()
        for name, value in row.items():
            if name != "step":
                self._board.add_scalar(_tag(name), value, row["step"])
        size = self._file.stat().st_size
        try:
            with self._file.open("a") as stream:
                stream.write(self._unwritten)
        except OSError:
            with self._file.open("r+") as stream:
                stream.truncate(size)  # no half row stays behind
            raise
        self._unwritten = ""

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *exception: object) -> None:
        self._board.close()  # flushes


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
    lines = file.read_text().split("\n")[:-1]  # what has no line end is torn
    rows = []
    try:
        for row in csv.DictReader(lines):
            numbers = {name: float(value) for name, value in row.items() if value}
            rows.append({**numbers, "step": int(numbers["step"])})
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"{file}: no metrics of a run ({type(error).__name__}: {error})") from None
    return rows
