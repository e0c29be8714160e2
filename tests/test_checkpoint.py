"""Checkpoints: what is written is what is read, and what is broken or foreign is an error that says so."""

import json
import pickle
import random
import shutil

import pytest
import torch

from agents.learned.checkpoint import (
    METADATA_FILE,
    NETWORK_FILE,
    CheckpointError,
    load_checkpoint,
    network_metadata,
    save_checkpoint,
)
from agents.learned.network import BoardNetwork
from isis_env.policy import make_agent
from train.evaluate import main as evaluate_main


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    network = BoardNetwork("mini3", 8, 1)
    folder = tmp_path / "run" / "checkpoints" / "step-0000000100"
    save_checkpoint(folder, network, network_metadata(network, "mini3", "full", 100))
    return folder, network


def test_round_trip_of_a_checkpoint_folder_and_of_its_run_folder(saved):
    folder, network = saved
    for path in (folder, folder.parent.parent):
        loaded = load_checkpoint(path)
        assert loaded.path == folder
        assert loaded.metadata["step"] == 100
        for name, weights in network.state_dict().items():
            assert torch.equal(loaded.network.state_dict()[name], weights)
    later = folder.with_name("step-0000000200")
    save_checkpoint(later, network, network_metadata(network, "mini3", 1, 200))
    assert load_checkpoint(folder.parent.parent).path == later
    assert make_agent(f"ppo:{folder.parent.parent}").recall == 1


def test_a_checkpoint_can_be_overwritten_and_leaves_nothing_behind(saved):
    folder, network = saved
    save_checkpoint(folder, network, network_metadata(network, "mini3", "full", 101))
    assert load_checkpoint(folder).metadata["step"] == 101
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def refuses(path, message):
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_truncated_at_any_place(saved):
    folder, _ = saved
    rng = random.Random(0)
    for name in (NETWORK_FILE, METADATA_FILE):
        whole = (folder / name).read_bytes()
        for length in [0, 1, len(whole) - 2, *(rng.randrange(len(whole) - 2) for _ in range(25))]:
            (folder / name).write_bytes(whole[:length])
            refuses(folder, name)
        (folder / name).write_bytes(whole)
    load_checkpoint(folder)


def test_flipped_bytes_in_the_weights(saved):
    folder, _ = saved
    whole = (folder / NETWORK_FILE).read_bytes()
    for place in random.Random(1).sample(range(len(whole)), 25):
        (folder / NETWORK_FILE).write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        refuses(folder, "truncated or changed")


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_no_code_in_a_foreign_file_ever_runs(saved, tmp_path):
    folder, _ = saved
    payload = pickle.dumps(Trap(tmp_path / "sprung"))
    for name in (NETWORK_FILE, METADATA_FILE):
        copy = tmp_path / f"foreign-{name}"
        shutil.copytree(folder, copy)
        (copy / name).write_bytes(payload)
        refuses(copy, name)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", "somebody else's", "format \"somebody else's\" must be 'isis-osiris checkpoint 1'"),
        ("layout", "0123456789abcdef", "trained on observation layout 0123456789abcdef"),
        ("board", "7x7", "board '7x7' must be one of"),
        ("channels", 0, "channels=0 must be from 1"),
        ("channels", 16, "not the weights of this network"),
        ("rounds", "two", "rounds='two' is missing or of the wrong type"),
        ("recall", None, "recall=None is missing"),
    ],
)
def test_metadata_of_something_else(saved, key, value, message):
    folder, _ = saved
    metadata = json.loads((folder / METADATA_FILE).read_text())
    (folder / METADATA_FILE).write_text(json.dumps({**metadata, key: value}))
    refuses(folder, message)


def test_no_checkpoint_there(tmp_path):
    refuses(tmp_path / "nowhere", "does not exist")
    refuses(tmp_path, "holds no checkpoint")


def test_the_command_line_says_it_in_one_line(saved, capsys):
    folder, _ = saved
    (folder / NETWORK_FILE).write_bytes(b"")
    assert evaluate_main([f"ppo:{folder}", "greedy", "--board", "mini3"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_checkpoint_of_another_board_is_refused_by_the_evaluation(saved, capsys):
    folder, _ = saved
    assert evaluate_main([f"ppo:{folder}", "greedy", "--games", "2"]) == 2
    assert "plays on board 'mini3', not on 'standard'" in capsys.readouterr().err
