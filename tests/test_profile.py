"""Where the time of training goes."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from sb3_contrib import MaskablePPO

from agents.learned.network import BoardNetwork
from isis_env.envs.sb3 import IsisOsirisVecEnv
from train import profile as module
from train.config_file import read_config
from train.profile import NETWORK, PARTS, REST, Clock, main, profile

pytestmark = pytest.mark.slow

SMALL = """
name: small
threads: 1
game: {board: mini3}
ppo: {n_envs: 16, n_steps: 8, batch_size: 64, n_epochs: 2}
self_play: {latest: 0, snapshots: 1}
"""


@pytest.fixture
def small(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


def test_every_moment_counts_for_the_innermost_part(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 7.0, 15.0, 31.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(now))
    clock = Clock()
    clock.enter(PARTS[0])  # 1 before it
    clock.enter(PARTS[1])  # 2
    clock.change(PARTS[2])  # 4
    clock.leave()  # 8
    assert clock.part == PARTS[0]
    seconds = clock.stop()  # 16
    assert {part: taken for part, taken in seconds.items() if taken} == {
        REST: 1.0,
        PARTS[0]: 2.0 + 16.0,
        PARTS[1]: 4.0,
        PARTS[2]: 8.0,
    }


def test_the_parts_make_up_the_wall_time(small):
    result = profile(read_config(small, []), updates=3)
    assert [part.part for part in result.parts] == list(PARTS)
    assert all(part.share > 0 for part in result.parts), "a snapshot is in play, so every part has something to do"
    assert sum(part.share for part in result.parts) == pytest.approx(1.0)
    assert sum(part.share for part in result.parts if part.part in NETWORK) == pytest.approx(result.network)
    assert (result.updates, result.steps, result.threads) == (3, 3 * 16 * 8, 1)
    seconds = result.updates * sum(part.milliseconds for part in result.parts) / 1e3
    assert result.steps_per_second == pytest.approx(result.steps / seconds)


def test_forward_passes_count_by_who_asks(small, monkeypatch):
    asked = dict.fromkeys(PARTS, 0)
    enter = Clock.enter

    def note(clock, part):
        asked[part] += 1
        enter(clock, part)

    monkeypatch.setattr(Clock, "enter", note)
    profile(read_config(small, []), updates=2)
    assert asked[module.LEARNER] == 2 * (8 + 1), "once per move, and for the value behind the last"
    assert asked[module.FORWARD] == 2 * 2 * 16 * 8 / 64, "once per minibatch"
    assert asked[module.OPPONENTS] >= 2 * 8
    assert asked[module.GAMES] == 2 * 8


def test_what_was_timed_is_as_it_was(small):
    owners = {
        MaskablePPO: ("collect_rollouts", "train"),
        IsisOsirisVecEnv: ("step_wait",),
        BoardNetwork: ("forward",),
        torch.Tensor: ("backward",),
        torch.optim.Optimizer: ("zero_grad",),
        torch.optim.Adam: ("step",),
        torch.nn.utils: ("clip_grad_norm_",),
    }
    profile(read_config(small, []), updates=1)  # torch wraps an optimizer's `step` when it makes the first
    before = [vars(owner)[name] for owner, names in owners.items() for name in names]
    profile(read_config(small, []), updates=1)
    assert [vars(owner)[name] for owner, names in owners.items() for name in names] == before


def test_command_line_prints_and_writes_the_table(small, tmp_path, capsys):
    file = tmp_path / "folder" / "result.json"
    assert main([str(small), "--updates", "2", "--out", str(file), "--ppo.n_epochs", "1", "--name", "other"]) == 0
    printed = capsys.readouterr().out
    result = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert (result["config"], result["updates"]) == ("other", 2)
    assert set(result) == set(asdict(profile(read_config(small, []), 1)))
    for part in result["parts"]:
        assert part["part"] in printed
        assert f"{part['share']:.1%}" in printed
    assert f"{result['network']:.1%}" in printed
    assert f"{result['steps_per_second']:,.0f} steps/s" in printed


def test_the_run_itself_leaves_nothing_behind(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([str(small), "--updates", "1"]) == 0
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")} == {
        "small.yaml",
        "results",
        str(Path("results") / "profile-small-threads1.json"),
    }


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--updates", "0"], "updates=0: must be from 1"),
        (["--device", "cuda"], "device='cuda': must be 'cpu'"),
        (["--ppo.clipp", "1"], "command line: unknown key 'ppo.clipp'; did you mean 'ppo.clip_range'?"),
        (["--ppo.n_epochs", "0"], "command line: ppo.n_epochs=0 must be a whole number from 1"),
        (["--self_play.baselines", "{nobody: 1}"], "self_play.baselines: agent 'nobody'"),
        (["--out", "."], "--out .: must be a file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line(small, capsys, argv, named):
    assert main([str(small), *argv]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert named in printed.err


def test_a_config_that_is_not_there_is_an_error_of_one_line(capsys):
    assert main(["nowhere.yaml"]) == 2
    assert capsys.readouterr().err == "error: nowhere.yaml: No such file or directory\n"
