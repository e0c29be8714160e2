"""Checkpoints made to harm: sizes are compared before anything is made, and no move comes of a NaN."""

import hashlib
import json
import os

import numpy as np
import pytest
import safetensors.torch
import torch

from agents.learned.agent import NetworkAgent
from agents.learned.checkpoint import (
    METADATA_FILE,
    NETWORK_FILE,
    CheckpointError,
    load_checkpoint,
    network_metadata,
    save_checkpoint,
)
from agents.learned.network import BoardNetwork, weight_shapes
from isis_env import GameConfig
from isis_env.batch import Batch
from isis_env.policy import make_agent


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    network = BoardNetwork("mini3", 8, 1)
    save_checkpoint(tmp_path / "net", network, network_metadata(network, "mini3", "full", 100))
    return tmp_path / "net"


def rewrite(folder, weights=None, **metadata):
    """Replace the weights' file (bytes) and keys of the metadata, so that the hashes are right."""
    if weights is not None:
        (folder / NETWORK_FILE).write_bytes(weights)
        metadata["sha256"] = {NETWORK_FILE: hashlib.sha256(weights).hexdigest()}
    file = folder / METADATA_FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), **metadata}))


def refuses(path, *words):
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def tensors(folder):
    return safetensors.torch.load((folder / NETWORK_FILE).read_bytes())


@pytest.mark.parametrize("board", ["mini3", "standard"])
@pytest.mark.parametrize(("channels", "rounds"), [(1, 1), (8, 3)])
def test_the_list_of_weights_is_that_of_the_network(board, channels, rounds):
    network = BoardNetwork(board, channels, rounds)
    assert weight_shapes(board, channels, rounds) == {k: tuple(v.shape) for k, v in network.state_dict().items()}


def test_sizes_that_no_memory_holds_are_refused_before_a_network_is_made(saved, monkeypatch):
    monkeypatch.setattr("agents.learned.checkpoint.BoardNetwork", None)  # it would be called
    for sizes in ({"channels": 4096, "rounds": 4096}, {"channels": 4096}, {"rounds": 4096}, {"channels": 9}):
        rewrite(saved, **{"channels": 8, "rounds": 1, **sizes})
        refuses(saved, NETWORK_FILE, *(f"{key}={value}" for key, value in sizes.items()))


def test_a_file_larger_than_its_weights_is_not_read(saved):
    os.truncate(saved / NETWORK_FILE, 2**40)  # it takes no space on the disk
    refuses(saved, NETWORK_FILE, f"has {2**40} bytes, must have at most")
    os.truncate(saved / METADATA_FILE, 2**40)
    refuses(saved, METADATA_FILE, f"has {2**40} bytes, must have at most")


def test_a_header_that_claims_more_than_there_is(saved):
    whole = (saved / NETWORK_FILE).read_bytes()
    length = int.from_bytes(whole[:8], "little")
    rewrite(saved, (2**62).to_bytes(8, "little") + whole[8:])
    refuses(saved, NETWORK_FILE, "header is longer than the file")
    header = json.loads(whole[8 : 8 + length])
    for change in (
        {"data_offsets": [0, 2**40]},
        {"data_offsets": [-4, 0]},
        {"data_offsets": None},
        {"shape": [2**40]},
        {"shape": None},
        {"dtype": ["F32"]},
    ):
        damaged = json.dumps({**header, "value.bias": {**header["value.bias"], **change}}).encode()
        rewrite(saved, len(damaged).to_bytes(8, "little") + damaged + whole[8 + length :])
        refuses(saved, NETWORK_FILE)


def test_weights_of_other_types_shapes_and_names(saved):
    whole = tensors(saved)
    for changed, words in (
        ({**whole, "extra": torch.zeros(1)}, ["'extra' is unknown"]),
        ({name: t for name, t in whole.items() if name != "value.bias"}, ["value.bias is missing"]),
        ({**whole, "value.bias": torch.zeros(2)}, ["value.bias has shape [2], must have shape [1]"]),
        ({**whole, "value.bias": torch.zeros(1, dtype=torch.float64)}, ["F64", "must be F32"]),
        ({**whole, "value.bias": torch.zeros(1, dtype=torch.int32)}, ["I32", "must be F32"]),
    ):
        rewrite(saved, safetensors.torch.save(changed))
        refuses(saved, NETWORK_FILE, *words)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite(saved, value):
    whole = tensors(saved)
    whole["cell_in.weight"][3, 2] = value
    rewrite(saved, safetensors.torch.save(whole))
    refuses(saved, NETWORK_FILE, "not finite")


def test_finite_weights_whose_answer_is_not(saved):
    rewrite(saved, safetensors.torch.save({name: 1e30 * tensor for name, tensor in tensors(saved).items()}))
    refuses(saved, str(saved), "answers are not finite")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("channels", True),
        ("channels", 8.0),
        ("channels", 10**400),
        ("rounds", -1),
        ("step", -1),
        ("step", False),
        ("step", 2**63),
        ("recall", True),
        ("recall", 0),
        ("recall", "Full"),
        ("sha256", []),
        ("layout", 3),
    ],
)
def test_metadata_of_the_wrong_kind_names_the_key(saved, key, value):
    rewrite(saved, **{key: value})
    refuses(saved, METADATA_FILE, key)


def test_paths_that_are_no_folder(saved, tmp_path):
    file = saved / NETWORK_FILE
    refuses(file, str(file), "is not a folder")
    refuses("a\0b", "must be the path of a folder")
    refuses("\ud800", "\\ud800")
    refuses("x" * 1000, "File name too long")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    refuses(loop, str(loop), "cannot be read")
    file.unlink()
    file.mkdir()
    refuses(saved, str(file), "must be a plain file")
    file.rmdir()
    os.mkfifo(file)  # reading it would wait for ever
    refuses(saved, str(file), "must be a plain file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_rights(saved):
    saved.chmod(0)
    try:
        refuses(saved, str(saved), "Permission denied")
    finally:
        saved.chmod(0o700)


@pytest.fixture
def decisions():
    batch = Batch(GameConfig("mini3"), 3)
    batch.reset(seed=0)
    return batch.decisions()


@pytest.mark.parametrize("invariant", [True, False])
@pytest.mark.parametrize("call", ["act", "analyse"])
def test_an_agent_does_not_play_by_nan(decisions, invariant, call):
    network = BoardNetwork("mini3", 8, 1)
    agent = NetworkAgent(network, batch_invariant=invariant, source="runs/x")
    getattr(agent, call)(decisions)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 1e30
    with pytest.raises(CheckpointError, match=r"^runs/x: the network's answer is NaN or infinite"):
        getattr(agent, call)(decisions)


@pytest.mark.slow
def test_a_search_does_not_play_by_nan(saved, decisions):
    agent = make_agent(f"mcts:simulations=4,exact=0,network={saved}")
    assert np.isfinite(agent.analyse(decisions).values).all()
    for weights in agent._network[1:]:
        weights *= np.float32(1e30)
    with pytest.raises(CheckpointError, match="the network's answer is NaN or infinite") as caught:
        agent.act(decisions)
    assert str(saved) in str(caught.value)
