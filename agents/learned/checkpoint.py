"""Checkpoints as data: a folder with `network.safetensors` (weights) and `checkpoint.json` (what they belong to).

Nothing in them is code, and reading them runs none. A folder is written under another name first and then renamed, so
one that bears its name is whole.
"""

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

import isis_env
from agents.learned.network import BoardNetwork
from isis_env.config import BOARDS
from isis_env.observation import layout
from isis_env.secrecy import check_recall

FORMAT = "isis-osiris checkpoint 1"
NETWORK_FILE, METADATA_FILE = "network.safetensors", "checkpoint.json"
CHECKPOINTS_FOLDER = "checkpoints"
UNFINISHED = ".unfinished"

# Channels and rounds beyond this are nobody's network, and would be made before the weights are looked at.
MAX_SIZE = 4096

_REQUIRED: dict[str, type | tuple[type, ...]] = {
    "board": str,
    "channels": int,
    "rounds": int,
    "recall": (int, str),
    "step": int,
    "layout": str,
    "sha256": dict,
}


class CheckpointError(ValueError):
    """A path that holds no usable checkpoint; the message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: the network, ready to be asked, and its metadata."""

    network: BoardNetwork
    metadata: dict[str, Any]
    path: Path


def layout_id(board: str) -> str:
    """A short hash of the observation layout of `board`: weights fit only the layout they were trained on."""
    text = ";".join(f"{name} {part.slice} {part.shape} {part.scale}" for name, part in layout(board).items())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def save_checkpoint(
    path: Path, network: BoardNetwork, metadata: dict[str, Any], files: dict[str, bytes] | None = None
) -> None:
    """Write the folder `path`, whole or not at all.

    Args:
        metadata: JSON types; must hold `board`, `channels`, `rounds`, `recall` and `step`.
        files: what else to put there, by name.

    Raises:
        OSError: it could not be written; what was there before stands.
    """
    weights = safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in network.state_dict().items()})
    files = {NETWORK_FILE: weights, **(files or {})}
    metadata = {
        "format": FORMAT,
        "isis_env": isis_env.__version__,
        "layout": layout_id(metadata["board"]),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        **metadata,
    }
    unfinished = path.with_name(path.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        for name, data in files.items():
            _write_durably(unfinished / name, data)
        _write_durably(unfinished / METADATA_FILE, json.dumps(metadata, indent=2).encode() + b"\n")
        if path.exists():
            replaced = path.with_name(path.name + ".replaced" + UNFINISHED)
            shutil.rmtree(replaced, ignore_errors=True)
            path.rename(replaced)
            unfinished.rename(path)
            shutil.rmtree(replaced, ignore_errors=True)
        else:
            unfinished.rename(path)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Load a checkpoint folder, or the latest checkpoint of a run folder.

    Raises:
        CheckpointError: there is none, a file of it is missing, truncated, changed or foreign, or it belongs to another
            observation layout than this version's.
    """
    folder = find_checkpoint(Path(path))
    metadata = _read_metadata(folder / METADATA_FILE)
    board = metadata["board"]
    if board not in BOARDS:
        raise CheckpointError(f"{folder / METADATA_FILE}: board {board!r} must be one of {', '.join(BOARDS)}")
    if metadata["layout"] != layout_id(board):
        raise CheckpointError(
            f"{folder}: trained on observation layout {metadata['layout']}, this version of isis_env "
            f"({isis_env.__version__}) has {layout_id(board)} on board {board!r}"
        )
    network = BoardNetwork(board, metadata["channels"], metadata["rounds"])
    _load_weights(network, read_checked(folder, NETWORK_FILE, metadata), folder / NETWORK_FILE)
    return Checkpoint(network.eval(), metadata, folder)


def find_checkpoint(path: Path) -> Path:
    """The checkpoint folder that `path` is, or the latest one of the run folder that it is."""
    if (path / METADATA_FILE).exists() or (path / NETWORK_FILE).exists():
        return path
    found = list_checkpoints(path)
    if found:
        return found[-1]
    what = "holds no checkpoint" if path.exists() else "does not exist"
    raise CheckpointError(f"{path}: {what}; must be a run folder or a folder with {METADATA_FILE} and {NETWORK_FILE}")


def list_checkpoints(run: Path) -> list[Path]:
    """The checkpoint folders of a run folder, oldest first."""
    found = (run / CHECKPOINTS_FOLDER).glob("step-*")
    return sorted(path for path in found if re.fullmatch(r"step-\d{10}", path.name) and path.is_dir())


def read_checked(folder: Path, name: str, metadata: dict[str, Any]) -> bytes:
    """A file of a checkpoint folder, if it is the one that was written.

    Raises:
        CheckpointError: it is missing, truncated or changed.
    """
    file = folder / name
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != metadata["sha256"].get(name):
        raise CheckpointError(f"{file}: truncated or changed, its hash is not the one in {METADATA_FILE}")
    return data


def _read_metadata(file: Path) -> dict[str, Any]:
    try:
        metadata = json.loads(file.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: no JSON ({error})") from None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        found = metadata.get("format") if isinstance(metadata, dict) else type(metadata).__name__
        raise CheckpointError(f"{file}: format {found!r} must be {FORMAT!r}")
    for key, kind in _REQUIRED.items():
        if not isinstance(metadata.get(key), kind):
            raise CheckpointError(f"{file}: {key}={metadata.get(key)!r} is missing or of the wrong type")
    for key in ("channels", "rounds"):
        if isinstance(metadata[key], bool) or not 1 <= metadata[key] <= MAX_SIZE:
            raise CheckpointError(f"{file}: {key}={metadata[key]!r} must be from 1 to {MAX_SIZE}")
    try:
        check_recall(metadata["recall"])
    except ValueError as error:
        raise CheckpointError(f"{file}: {error}") from None
    return metadata


def _load_weights(network: BoardNetwork, data: bytes, file: Path) -> None:
    try:
        network.load_state_dict(safetensors.torch.load(data))
    except (safetensors.SafetensorError, RuntimeError) as error:
        raise CheckpointError(f"{file}: not the weights of this network ({str(error).splitlines()[0]})") from None
    if not parameters_finite(network):
        raise CheckpointError(f"{file}: has weights that are not finite")


def _write_durably(file: Path, data: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def network_metadata(network: BoardNetwork, board: str, recall: int | str, step: int) -> dict[str, Any]:
    """The part of the metadata that every checkpoint must hold."""
    return {
        "board": board,
        "channels": network.cell_in.out_features,
        "rounds": len(network.rounds),
        "recall": recall,
        "step": step,
    }


def parameters_finite(network: BoardNetwork) -> bool:
    """Whether no weight has become NaN or infinite."""
    return all(bool(torch.isfinite(p).all()) for p in network.parameters())
