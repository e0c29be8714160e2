"""Configs, the command line, and short runs of the trainer."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from agents.learned.checkpoint import load_checkpoint
from isis_env.policy import make_agent
from train.__main__ import main
from train.config import TrainConfig
from train.config_file import dump_config, read_config
from train.evaluate import evaluate

pytestmark = pytest.mark.slow

CONFIGS = sorted((Path(__file__).parent.parent / "configs").glob("*.yaml"))


@pytest.fixture
def config_file(tmp_path):
    def write(text: str) -> Path:
        file = tmp_path / "some.yaml"
        file.write_text(text)
        return file

    return write


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_every_config_of_the_repository_is_valid_and_says_only_what_differs(file):
    config = read_config(file, [])
    given, defaults = yaml.safe_load(file.read_text()), yaml.safe_load(dump_config(TrainConfig()))

    def no_defaults(given, defaults):
        for key, value in given.items():
            if isinstance(value, dict):
                no_defaults(value, defaults[key])
            else:
                assert value != defaults[key], f"{key} is the default"

    no_defaults(given, defaults)
    assert config.name == file.stem
    assert config.game.recall == "full" or "_table" in file.stem


def test_the_command_line_goes_over_the_file_and_the_file_over_the_defaults(config_file):
    file = config_file("name: a\nppo: {clip_range: 0.1, n_epochs: 4}\ngame: {recall: 2}\n")
    config = read_config(file, ["--ppo.n_epochs", "5", "--self_play.baselines", "{greedy: 0.25}", "--seed=7"])
    assert (config.ppo.clip_range, config.ppo.n_epochs, config.ppo.n_envs) == (0.1, 5, TrainConfig().ppo.n_envs)
    assert (config.game.recall, config.seed) == (2, 7)
    assert config.self_play.baselines == {"greedy": 0.25}


def test_the_resolved_config_reads_back_as_itself(config_file):
    config = read_config(config_file("name: b\nself_play: {baselines: {'greedy': 0.5}}\n"), [])
    assert read_config(config_file(dump_config(config)), []) == config


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("ppo: {epochs: 4}", [], "some.yaml: unknown key 'ppo.epochs'; did you mean 'ppo.n_epochs'?"),
        ("ppo: {minibatch: 4}", [], "some.yaml: unknown key 'ppo.minibatch'; did you mean 'ppo.batch_size'?"),
        ("stepz: 4", [], "some.yaml: unknown key 'stepz'; did you mean 'steps'?"),
        ("qqq: 4", [], "some.yaml: unknown key 'qqq'; known are name, steps"),
        ("ppo: {clip_range: often}", [], "some.yaml: ppo.clip_range='often' must be a finite number above 0"),
        ("steps: 1.5", [], "some.yaml: steps=1.5 must be a whole number from 1 to 9999999999"),
        ("steps: 0", [], "some.yaml: steps=0 must be a whole number from 1"),
        ("ppo: 3", [], "some.yaml: ppo=3 must hold keys: n_envs, n_steps"),
        ("- a\n- b", [], "some.yaml: must hold keys and values"),
        ("a: [", [], "some.yaml: no YAML"),
        ("game: {players: 5}", [], "some.yaml: game.players=5: must be 2 or 3 or 4"),
        ("game: {recall: 0}", [], "recall"),
        ("game: {reward: score}", [], "game.reward='score' must be win or margin"),
        ("ppo: {gamma: 1.5}", [], "ppo.gamma=1.5 must be a number from 0 to 1"),
        ("self_play: {latest: -1}", [], "self_play.latest=-1 must be a finite number of at least 0"),
        ("self_play: {latest: 0, snapshots: 0}", [], "must be shares with a finite sum above 0"),
        ("ppo: {gamma: .nan}", [], "ppo.gamma=nan must be a number from 0 to 1"),
        ("ppo:", [], "some.yaml: key 'ppo' has no value"),
        ("steps: null", [], "some.yaml: key 'steps' has no value"),
        ("steps: 10\nsteps: 20", [], "key 'steps' stands twice, again in line 2"),
        ("steps: {a: 1}", [], "steps"),
        ("steps.a: 1", [], "some.yaml: unknown key 'steps.a'; 'steps' has no keys of its own"),
        ("seed: 5000000000", [], "seed=5000000000 must be a whole number from 0 to 4294967295"),
        ("evaluation: {seed: -1}", [], "evaluation.seed=-1 must be a whole number from 0"),
        ("evaluation: {seed: 100}", [], "evaluation.seed=100 must be clear of the deals that are trained on"),
        (
            "ppo: {n_envs: 3, n_steps: 11, batch_size: 32}",
            [],
            "ppo.batch_size=32 must be a size that leaves no minibatch of one decision",
        ),
        ("ppo: {batch_size: 1}", [], "ppo.batch_size=1 must be a whole number from 2"),
        ("game: {players: []}", [], "at least one form"),
        ("game: {players: [2, 3], board: mini3}", [], "game.players=3: must be 2 on board 'mini3'"),
        ("game: {reward: margin, margin_weight: 0.05}", [], "game.margin_weight=0.05 must be 0 with reward: margin"),
        ("name: ..", [], "name='..' must be a plain folder name"),
        ("evaluation: {opponents: [nobody]}", [], "evaluation.opponents: agent 'nobody'"),
        ("self_play: {baselines: {'ppo:nowhere': 1}}", [], "self_play.baselines: nowhere: does not exist"),
        ("{}", ["--steps", "0"], "command line: steps=0 must be a whole number from 1"),
        ("name: a/b", [], "name='a/b' must be a plain folder name"),
        ("{}", ["--ppo.clipp", "0.1"], "command line: unknown key 'ppo.clipp'; did you mean 'ppo.clip_range'?"),
        ("{}", ["--ppo.clip_range", "x"], "command line: ppo.clip_range='x' must be a finite number above 0"),
        ("{}", ["--steps"], "command line: key 'steps' has no value"),
        ("{}", ["steps", "3"], "command line: 'steps' must be a key with two dashes"),
    ],
)
def test_a_config_that_cannot_be_used_is_an_error_of_one_line(config_file, capsys, text, overrides, message):
    assert main([str(config_file(text)), *overrides]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_config_that_is_not_there_is_an_error_of_one_line(capsys):
    assert main(["nowhere.yaml"]) == 2
    assert capsys.readouterr().err == "error: nowhere.yaml: No such file or directory\n"


SMALL = """
name: small
steps: 3000
threads: 1
checkpoint_every: 1000
game: {board: mini3}
ppo: {n_envs: 64, n_steps: 8, batch_size: 256}
self_play: {snapshot_every: 1000, baselines: {greedy: 0.2}}
evaluation: {games: 20, every: 1000, games_on_the_way: 10}
"""


@pytest.fixture
def trained(config_file, tmp_path):
    def train(*overrides: str) -> Path:
        before = set((tmp_path / "runs").glob("*"))
        assert main([str(config_file(SMALL)), "--runs_folder", str(tmp_path / "runs"), *overrides]) == 0
        (folder,) = set((tmp_path / "runs").glob("*")) - before
        return folder

    return train


def test_a_run_folder_holds_what_it_is_said_to(trained):
    folder = trained()
    assert folder.name == "small"
    assert read_config(folder / "config.yaml", []).ppo.n_envs == 64
    steps = [int(path.name.removeprefix("step-")) for path in sorted((folder / "checkpoints").iterdir())]
    assert len(steps) == 3
    assert steps[-1] >= 3000
    loaded = load_checkpoint(folder)
    assert loaded.metadata["step"] == steps[-1]
    assert loaded.metadata["config"]["game"]["board"] == "mini3"

    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    assert [int(row["step"]) for row in rows] == [512 * (k + 1) for k in range(6)]
    for name in ("entropy", "approx_kl", "clip_fraction", "explained_variance", "draw_share", "return_latest"):
        assert all(np.isfinite(float(row[name])) for row in rows), name
    assert any(row["return_greedy"] for row in rows)
    assert any(row["return_snapshot"] for row in rows)
    assert [row["score_greedy"] != "" for row in rows] == [False, True, False, True, False, False]

    against = json.loads((folder / "evaluation.json").read_text())
    assert [[a["agent"] for a in game["agents"]] for game in against] == [["small", "random"], ["small", "greedy"]]
    assert all(agent["illegal"] == 0 for game in against for agent in game["agents"])
    agents, config = [make_agent(f"ppo:{folder}"), make_agent("greedy")], read_config(folder / "config.yaml", [])
    again = evaluate(agents, ["small", "greedy"], config.forms()[0], 20, config.evaluation.seed)
    assert again.agents[0].score_rate == against[1]["agents"][0]["score_rate"], "the JSON can be reproduced"


def test_the_same_seed_trains_the_same_weights_and_another_does_not(trained):
    folders = [trained("--steps", "1500"), trained("--steps", "1500"), trained("--steps", "1500", "--seed", "1")]
    assert [folder.name for folder in folders] == ["small", "small-2", "small-3"], "no run is written over"
    weights = [torch.cat([p.flatten() for p in load_checkpoint(f).network.parameters()]) for f in folders]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("players", [3, 4])
@pytest.mark.parametrize("common", ["true", "false"])
def test_more_players_both_variants_limited_recall_and_margin_train(trained, players, common):
    form = ["--game.board", "standard", "--game.players", str(players), "--game.common_reserve", common]
    folder = trained(*form, "--game.recall", "1", "--game.reward", "margin")
    agent = make_agent(f"ppo:{folder}")
    assert agent.recall == 1


def test_a_short_run_on_mini3_learns(trained):
    """An untrained network scores about 0.55 against `random` here."""
    folder = trained("--steps", "40000", "--evaluation.games", "1000", "--evaluation.every", "0")
    against_random = json.loads((folder / "evaluation.json").read_text())[0]["agents"][0]
    assert against_random["interval"][0] > 0.8
