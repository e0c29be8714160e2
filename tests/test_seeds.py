"""Several seeds, several runs in one picture, and the table of results."""

import json

import pytest

from train.__main__ import main
from train.compare import main as compare
from train.evaluate import t_interval
from train.results import main as results

pytestmark = pytest.mark.slow

CONFIG = """
name: {name}
steps: 600
game: {{board: mini3}}
ppo: {{n_envs: 16, n_steps: 8, batch_size: 64}}
evaluation: {{games: 20, every: 0}}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of the runs of a config `a` under seeds 3 and 4."""
    tmp = tmp_path_factory.mktemp("seeds")
    for name in ("a", "b"):
        (tmp / f"{name}.yaml").write_text(CONFIG.format(name=name))
    assert main([str(tmp / "a.yaml"), "--seeds", "3,4", "--runs_folder", str(tmp / "runs")]) == 0
    return tmp


def scores_of(folder):
    evaluation = json.loads((folder / "evaluation.json").read_text())
    return [result["agents"][0]["score_rate"] for result in evaluation]


def test_a_summary_is_the_mean_and_interval_over_the_runs(runs):
    folder = runs / "runs" / "a"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["seeds"] == [3, 4]
    by_run = [scores_of(folder / f"seed-{seed}") for seed in (3, 4)]
    for index, entry in enumerate(summary["results"]):
        scores = [run[index] for run in by_run]
        assert entry["scores"] == scores
        assert entry["mean"] == pytest.approx(sum(scores) / 2)
        assert entry["interval"] == pytest.approx(t_interval(scores, trials=2 * 10))
    assert [entry["opponent"] for entry in summary["results"]] == ["random", "greedy"]


def test_what_has_ended_is_left_alone_and_the_table_is_made_of_it(runs, capsys):
    arguments = ["--seeds", "3,4", "--runs_folder", str(runs / "runs")]
    before = (runs / "runs" / "a" / "seed-3" / "metrics.csv").stat().st_mtime_ns
    assert results([str(runs / "a.yaml"), *arguments]) == 0
    assert (runs / "runs" / "a" / "seed-3" / "metrics.csv").stat().st_mtime_ns == before
    assert "| `a` | mini3, 2 players | `greedy` |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.yaml", "--seeds", "3,3"], "different numbers"),
        (["a.yaml", "--seeds", "00,0"], "different numbers"),
        (["a.yaml", "--seeds", "x"], "different numbers"),
        (["a.yaml", "--seeds"], "different numbers"),
        (["--seeds", "0,1"], "CONFIG.yaml is missing"),
        (["a.yaml", "--seeds", "3,4", "--steps", "700"], "begun with another config"),
        (["a.yaml", "--seeds", "3,4", "--name", "a/seed-3"], "plain folder name"),
    ],
)
def test_seeds_that_cannot_be_trained_are_an_error_of_one_line(runs, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(runs)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_single_run_is_not_written_over_by_several(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    assert main(["b.yaml"]) == 0
    capsys.readouterr()
    assert main(["b.yaml", "--seeds", "3,4"]) == 2
    assert "is a run folder" in capsys.readouterr().err


def test_two_configs_of_one_name_are_refused(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    assert results(["a.yaml", "b.yaml", "--seeds", "3,4", "--name", "same"]) == 2
    assert "must differ" in capsys.readouterr().err


def test_runs_are_compared_in_a_table_and_a_picture(runs, tmp_path, capsys):
    folders = [str(runs / "runs" / "a" / f"seed-{seed}") for seed in (3, 4)]
    assert compare([*folders, "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert f"{scores_of(runs / 'runs' / 'a' / 'seed-3')[0]:.3f}" in capsys.readouterr().out
    assert compare([str(tmp_path)]) == 2
    assert "no run folder" in capsys.readouterr().err
