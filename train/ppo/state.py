"""All that a run depends on besides its config, as data, so that a resumed run goes on as if nothing had happened.

Beside the weights a checkpoint holds `training.safetensors` (optimiser, snapshots, games, random generators) and
`training.json` (counters). Nothing in them is code.
"""

import copy
import json
import operator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from sb3_contrib import MaskablePPO

from agents.learned.checkpoint import CheckpointError, load_checkpoint, read_checked
from isis_env.envs.sb3 import IsisOsirisVecEnv
from train.config import TrainConfig
from train.ppo.opponents import OpponentPool
from train.ppo.policy import policy_network
from train.runs.folder import checkpoint_step

MAY_CHANGE = (
    "name",
    "steps",
    "earlier_steps",
    "runs_folder",
    "checkpoint_every",
    "keep_last",
    "keep_every",
    "threads",
    "evaluation",
)

TENSORS_FILE, COUNTERS_FILE = "training.safetensors", "training.json"


def capture(model: MaskablePPO, env: IsisOsirisVecEnv, pool: OpponentPool, update: int) -> dict[str, bytes]:
    """The files of a checkpoint that `restore` needs, by name; taken between two updates."""
    tensors = {f"env.{name}": array for name, array in env.snapshot().items()}
    tensors["episode_starts"] = np.asarray(model._last_episode_starts)
    for index, state in model.policy.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value.cpu().numpy() for name, value in state.items()}
    for index, agent in enumerate(pool.snapshots):
        tensors |= {f"pool.{index}.{name}": value.cpu().numpy() for name, value in agent.network.state_dict().items()}
    tensors["random.torch"] = torch.get_rng_state().numpy()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state().numpy()
    _, numpy_key, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002 (SB3 shuffles with it)
    tensors["random.numpy"] = np.asarray(numpy_key)
    counters = {
        "step": model.num_timesteps,
        "update": update,
        "learner_updates": model._n_updates,
        "pool_scores": pool.scores,
        "pool_active": pool.active,
        "random_numpy": [position, has_gauss, gauss],
    }
    return {
        TENSORS_FILE: safetensors.numpy.save({name: np.ascontiguousarray(value) for name, value in tensors.items()}),
        COUNTERS_FILE: json.dumps(counters).encode(),
    }


def restore(folder: Path, config: TrainConfig, model: MaskablePPO, env: IsisOsirisVecEnv, pool: OpponentPool) -> int:
    """Bring a newly made learner, environment and pool to where the checkpoint `folder` stood; returns the update.

    Raises:
        CheckpointError: a file is missing, truncated, changed or of another run.
    """
    checkpoint = load_checkpoint(folder)
    _check_config(folder, checkpoint.metadata.get("config"), config)
    network = policy_network(model)
    tensors_data = read_checked(folder, TENSORS_FILE, checkpoint.metadata)
    counters_data = read_checked(folder, COUNTERS_FILE, checkpoint.metadata)
    try:
        tensors, counters = safetensors.numpy.load(tensors_data), json.loads(counters_data)
        if counters["step"] != checkpoint_step(folder):
            raise ValueError(f"it is of step {counters['step']}, not of the step that its name says")
        network.load_state_dict(checkpoint.network.state_dict())
        groups = model.policy.optimizer.state_dict()["param_groups"]
        model.policy.optimizer.load_state_dict({"state": _indexed(tensors, "optimizer"), "param_groups": groups})
        snapshots = _indexed(tensors, "pool")
        for index, score in enumerate(counters["pool_scores"]):
            snapshot = copy.deepcopy(network)
            snapshot.load_state_dict(snapshots[index])
            pool.append(snapshot, score)
        pool.active = counters["pool_active"]
        pool.seat(env)
        model._last_obs = env.restore(_group(tensors, "env"))
        model._last_episode_starts = tensors["episode_starts"]
        model.num_timesteps = operator.index(counters["step"])
        model._n_updates = operator.index(counters["learner_updates"])
        torch.set_rng_state(torch.from_numpy(tensors["random.torch"]))
        if "random.cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(torch.from_numpy(tensors["random.cuda"]))
        np.random.set_state(("MT19937", tensors["random.numpy"], *counters["random_numpy"]))  # noqa: NPY002
        return operator.index(counters["update"])
    except (safetensors.SafetensorError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{folder}: holds no state of such a run ({' '.join(str(error).split())})") from None


def _check_config(folder: Path, saved: Any, config: TrainConfig) -> None:
    """A run may go on under a changed config only where the change means nothing to what is restored."""
    now = json.loads(json.dumps(asdict(config)))
    if not isinstance(saved, dict):
        raise CheckpointError(f"{folder}: no config in its metadata, so it cannot be resumed")
    changed = [key for key in now if key not in MAY_CHANGE and saved.get(key) != now[key]]
    if changed:
        key = changed[0]
        raise CheckpointError(
            f"{folder}: {key} was {saved.get(key)!r} and is {now[key]!r} now; a run is resumed with the config it was "
            f"begun with, but for {', '.join(MAY_CHANGE)}"
        )


def _group(arrays: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    """The arrays named `group.NAME`, by NAME."""
    prefix = group + "."
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _indexed(arrays: dict[str, np.ndarray], group: str) -> dict[int, dict[str, torch.Tensor]]:
    """The arrays named `group.INDEX.NAME` as tensors, by INDEX and NAME."""
    nested: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in _group(arrays, group).items():
        index, _, name = key.partition(".")
        nested.setdefault(int(index), {})[name] = torch.from_numpy(value)
    return nested
