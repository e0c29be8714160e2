"""Configs that are broken or hostile are errors of one line, and a run that cannot fit is refused before it is made."""

import itertools

import pytest

from train.__main__ import main
from train.config_file import MAX_BYTES, dump_config, read_config


@pytest.fixture
def config_file(tmp_path):
    def write(content: str | bytes):
        file = tmp_path / "some.yaml"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    return write


BOMB = "a: &a [x, x, x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in itertools.pairwise("abcdefghi")
)

HOSTILE = {
    "a number as key": ("self_play: {baselines: {1: 0.5}}", "key '1' in line 1 must be a name"),
    "a list as key": ("? [a, b]\n: 1", "key a sequence in line 1 must be a name"),
    "a mapping as key": ("{a: 1}: 2", "key a mapping in line 1 must be a name"),
    "an empty key": ("? \n: 1", "in line 1 must be a name"),
    "5,000 digits": ("seed: " + "9" * 5000, "a number of 5000 digits in line 1"),
    "1,000 deep": ("name: " + "[" * 1000 + "]" * 1000, "nested too deep"),
    "1,000 deep, unclosed": ("{a: " * 1000, "nested too deep"),
    "aliases that grow": (BOMB, "aliases are not allowed"),
    "merged keys": ("a: &a {b: 1}\n<<: *a", "aliases are not allowed"),
    "zeros": (b"\0" * 100, "no YAML"),
    "binary": (bytes(range(256)), "no UTF-8 text"),
    "UTF-16": ("steps: 3".encode("utf-16"), "no UTF-8 text"),
    "objects": ("name: !!python/object/apply:os.getcwd []", "no YAML"),
    "no such day": ("name: 2024-99-99", "no YAML"),
    "too long": ("#" * (MAX_BYTES + 1), "longer than"),
    "infinity": ("steps: .inf", "steps=inf must be a whole number"),
    "twice, once dotted": ("ppo: {n_envs: 4}\nppo.n_envs: 5", "key 'ppo.n_envs' stands twice"),
}


@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_an_error_of_one_short_line(config_file, capsys, content, message):
    file = config_file(content)
    assert main([str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {file}: ")
    assert message in error
    assert error.count("\n") == 1
    assert len(error) < 1000


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["--seed", "9" * 5000], "a number of 5000 digits"),
        (["--self_play.baselines", "{1: 0.5}"], "key '1' in line 1 must be a name"),
        (["--self_play.baselines", "[" * 1000], "nested too deep"),
        (["--steps", "1e6.5"], "steps='1e6.5' must be a whole number from 1"),
        (["--steps", "1.5e0"], "steps=1.5 must be a whole number from 1"),
        (["--steps", "1e300"], "steps=1e+300 must be a whole number from 1"),
        (["--name", "x" * 5000], "must be a plain folder name"),
        (["--" + "x" * 5000, "1"], "unknown key"),
        (["--init", "a\0b"], "init='a\\x00b' must be a path"),
    ],
    ids=lambda value: None if isinstance(value, str) else value[0][:20],
)
def test_hostile_arguments_are_an_error_of_one_line(config_file, capsys, overrides, message):
    assert main([str(config_file("{}")), *overrides]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: command line: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_folder_is_no_config(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}: Is a directory\n"


@pytest.mark.parametrize("million", ["1e6", "1E6", "1.0e6", "1_000_000", "1000000.0", "+1000000"])
def test_a_million_as_people_write_it(config_file, million):
    by_file = read_config(config_file(f"steps: {million}\nppo: {{learning_rate: 1e-3}}"), []).steps
    by_argument = read_config(config_file("{}"), ["--steps", million]).steps
    assert by_file == by_argument == 1_000_000
    assert type(by_file) is type(by_argument) is int


@pytest.mark.parametrize("rate", ["1e-5", "1.0e-5", "0.00001", "1E-05"])
def test_small_numbers_are_numbers_however_they_are_written(config_file, rate):
    config = read_config(config_file(f"ppo: {{learning_rate: {rate}}}"), ["--ppo.final_learning_rate", rate])
    assert (config.ppo.learning_rate, config.ppo.final_learning_rate) == (1e-5, 1e-5)
    assert read_config(config_file(dump_config(config)), []) == config


def test_help_names_every_key_with_its_meaning_and_default(config_file, capsys):
    assert main([str(config_file("{}")), "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "--ppo.n_envs N_ENVS games played side by side. (type: Count, default: 512)" in printed
    assert "--evaluation.opponents" in printed
    assert main(["--help"]) == 0
    assert "--resume RUN [--steps N]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["--ppo.n_envs", "1e9"], "ppo.n_envs=1000000000"),
        (["--ppo.n_steps", "1e9"], "ppo.n_steps=1000000000"),
        (["--network.channels", "1e6"], "network.channels=1000000"),
        (["--network.channels", "4096", "--network.rounds", "4096"], "network.channels=4096, network.rounds=4096"),
        (["--ppo.batch_size", "1e9", "--ppo.n_envs", "1e5", "--ppo.n_steps", "100"], "ppo.batch_size=1000000000"),
        (
            ["--self_play.pool", "1e9", "--self_play.snapshot_every", "1", "--network.channels", "512"],
            "self_play.pool=1000000000",
        ),
        (["--threads", "100000"], "threads=100000 must be at most"),
        (["--evaluation.games", "1e9", "--seed", "0"], "evaluation.games=1000000000 must be"),
    ],
    ids=lambda value: None if isinstance(value, str) else value[0],
)
def test_what_the_machine_cannot_hold_is_refused_before_anything_is_made(
    config_file, tmp_path, capsys, overrides, named
):
    runs = tmp_path / "runs"
    assert main([str(config_file("{}")), "--runs_folder", str(runs), *overrides]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
    assert not runs.exists()
