"""Checkpoints as data: a folder with `network.safetensors` (weights) and `checkpoint.json` (what they belong to).

Nothing in them is code, and reading them runs none. A folder is written under another name first and then renamed, so
one that bears its name is whole.
"""

import hashlib
import json
import math
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
from agents.learned.network import BoardNetwork, weight_shapes
from isis_env.config import BOARDS, shown
from isis_env.observation import layout, observation_size
from isis_env.secrecy import check_recall

FORMAT = "isis-osiris checkpoint 1"
NETWORK_FILE, METADATA_FILE = "network.safetensors", "checkpoint.json"
CHECKPOINTS_FOLDER = "checkpoints"
UNFINISHED = ".unfinished"

# Bounds far beyond any useful network, checked before anything is read or made
MAX_SIZE = 4096  # channels, rounds
MAX_WEIGHTS_BYTES = 2**30
MAX_METADATA_BYTES = 2**20
_HEADER_BYTES_EACH = 1024  # more than the header of the weights' file takes for one of them

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
        CheckpointError: there is none; a file of it is missing, truncated, changed or foreign; the weights do not fit
            the metadata or are so large that the network's answers are not finite; or it belongs to another
            observation layout than this version's.
    """
    folder = find_checkpoint(Path(path))
    metadata = _read_metadata(folder / METADATA_FILE)
    board = metadata["board"]
    if board not in BOARDS:
        raise CheckpointError(f"{folder / METADATA_FILE}: board {shown(board)} must be one of {', '.join(BOARDS)}")
    if metadata["layout"] != layout_id(board):
        raise CheckpointError(
            f"{folder}: trained on observation layout {shown(metadata['layout'])[1:-1]}, this version of isis_env "
            f"({isis_env.__version__}) has {layout_id(board)} on board {board!r}"
        )
    network = _load_network(folder, metadata).eval()
    return Checkpoint(network, metadata, folder)


def find_checkpoint(path: Path) -> Path:
    """The checkpoint folder that `path` is, or the latest one of the run folder that it is.

    Raises:
        CheckpointError: it is neither, or cannot be read.
    """
    try:
        names = {file.name for file in path.iterdir()}
        if METADATA_FILE in names or NETWORK_FILE in names:
            return path
        found = list_checkpoints(path)
        if found:
            return found[-1]
        what = "holds no checkpoint"
    except FileNotFoundError:
        what = "does not exist"
    except NotADirectoryError:
        what = "is not a folder"
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
    except ValueError as error:  # no path at all: a null character, or text that is no Unicode
        raise CheckpointError(f"{shown(str(path))}: must be the path of a folder ({error})") from None
    named = shown(str(path), 300)[1:-1]
    raise CheckpointError(f"{named}: {what}; must be a run folder or a folder with {METADATA_FILE} and {NETWORK_FILE}")


def list_checkpoints(run: Path) -> list[Path]:
    """The checkpoint folders of a run folder, oldest first."""
    found = (run / CHECKPOINTS_FOLDER).glob("step-*")
    return sorted(path for path in found if re.fullmatch("step-[0-9]{10}", path.name) and path.is_dir())


def read_checked(folder: Path, name: str, metadata: dict[str, Any], largest: float = math.inf) -> bytes:
    """A file of a checkpoint folder, if it is the one that was written.

    Raises:
        CheckpointError: it is missing, truncated, changed, or has more than `largest` bytes.
    """
    file = folder / name
    data = _read_file(file, largest)
    if hashlib.sha256(data).hexdigest() != metadata["sha256"].get(name):
        raise CheckpointError(f"{file}: truncated or changed, its hash is not the one in {METADATA_FILE}")
    return data


def _read_file(file: Path, largest: float = math.inf) -> bytes:
    """The content of a file, if it is a plain one of at most `largest` bytes."""
    try:
        size = file.stat().st_size
        if not file.is_file():
            raise CheckpointError(f"{file}: must be a plain file")
        if size > largest:
            raise CheckpointError(f"{file}: has {size} bytes, must have at most {largest}")
        return file.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror}") from None


def _read_metadata(file: Path) -> dict[str, Any]:
    try:
        metadata = json.loads(_read_file(file, MAX_METADATA_BYTES))
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: no JSON ({error})") from None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        found = metadata.get("format") if isinstance(metadata, dict) else type(metadata).__name__
        raise CheckpointError(f"{file}: format {shown(found)} must be {FORMAT!r}")
    for key, kind in _REQUIRED.items():
        if not isinstance(metadata.get(key), kind):
            raise CheckpointError(f"{file}: {key}={shown(metadata.get(key))} is missing or of the wrong type")
    for key, smallest, largest in (("channels", 1, MAX_SIZE), ("rounds", 1, MAX_SIZE), ("step", 0, 2**63 - 1)):
        if isinstance(metadata[key], bool) or not smallest <= metadata[key] <= largest:
            raise CheckpointError(f"{file}: {key}={shown(metadata[key])} must be from {smallest} to {largest}")
    try:
        check_recall(metadata["recall"])
    except ValueError as error:
        raise CheckpointError(f"{file}: {error}") from None
    return metadata


def _load_network(folder: Path, metadata: dict[str, Any]) -> BoardNetwork:
    """The network that `metadata` describes with the weights of the folder; their sizes are compared before it is made.

    Raises:
        CheckpointError: they do not fit, or are so large that the answers are not finite.
    """
    file = folder / NETWORK_FILE
    board, channels, rounds = metadata["board"], metadata["channels"], metadata["rounds"]
    described = f"channels={channels} and rounds={rounds} in {METADATA_FILE}"
    # Rounds alone take this much: whoever writes 4096 need not wait for a list of so many weights.
    if 4 * rounds * 3 * channels * channels > MAX_WEIGHTS_BYTES:
        raise CheckpointError(f"{file}: {described} would take more than {MAX_WEIGHTS_BYTES} bytes of weights")
    shapes = weight_shapes(board, channels, rounds)
    size = sum(4 * math.prod(shape) for shape in shapes.values())
    data = read_checked(folder, NETWORK_FILE, metadata, size + _HEADER_BYTES_EACH * (len(shapes) + 1))
    found = _header(data, file)
    for name, shape in shapes.items():
        if found.get(name) != shape:
            what = f"has shape {shown(list(found[name]))}" if name in found else "is missing"
            raise CheckpointError(
                f"{file}: not the weights of this network: {name} {what}, must have shape {list(shape)} for {described}"
            )
    for name in found:
        if name not in shapes:
            raise CheckpointError(f"{file}: not the weights of this network: {shown(name)} is unknown to {described}")
    network = BoardNetwork(board, channels, rounds)
    try:
        network.load_state_dict(safetensors.torch.load(data))
    except (safetensors.SafetensorError, RuntimeError) as error:
        raise CheckpointError(f"{file}: not the weights of this network ({str(error).splitlines()[0]})") from None
    if not parameters_finite(network):
        raise CheckpointError(f"{file}: has weights that are not finite")
    with torch.inference_mode():
        answers = network(torch.ones(1, observation_size(board)))
    if not all(bool(torch.isfinite(answer).all()) for answer in answers):
        raise CheckpointError(f"{file}: has weights so large that the network's answers are not finite")
    return network


def _header(data: bytes, file: Path) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the float32 tensors that a safetensors file lists at its begin."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise CheckpointError(f"{file}: no safetensors file, its header is longer than the file")
    try:
        header = json.loads(data[8 : 8 + length])
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        kinds = {entry["dtype"] for entry in tensors.values()}
        shapes = {name: tuple(entry["shape"]) for name, entry in tensors.items()}
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{file}: no safetensors file, its header cannot be read ({shown(error)})") from None
    if kinds - {"F32"}:
        raise CheckpointError(f"{file}: has weights of type {shown(sorted(map(str, kinds - {'F32'})))}, must be F32")
    return shapes


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
    """Whether no weight is NaN or infinite."""
    return all(bool(torch.isfinite(p).all()) for p in network.parameters())
