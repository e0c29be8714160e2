"""The tournament: its numbers against evaluation and by hand, ratings of known strengths, the folder it goes on in.

The file is long because all its tests play the same small tournament.
"""

import csv
import itertools
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("choix")

from filelock import FileLock

from isis_env import GameConfig
from isis_env.baselines import Greedy, Uniform
from isis_env.kernels.threads import available_cores
from isis_env.policy import make_agent
from train.evaluate import evaluate
from train.tournament.__main__ import main
from train.tournament.crosstable import remarks
from train.tournament.play import tables_of
from train.tournament.ratings import GAME, pairwise_wins, rank, ratings
from train.tournament.run import tournament

pytestmark = pytest.mark.slow

THREE = ["greedy", "random", "uniform"]
MINI = GameConfig("mini3")
HERE = "python:test_tournament:"


# Agents that specs in this file name


class Drawer(Uniform):
    """Draws whenever it can."""

    def act(self, decisions):
        draw = decisions.action_masks.shape[1] - 1
        return np.where(decisions.action_masks[:, draw] > 0, draw, super().act(decisions))


class Stonemason(Uniform):
    """Draws only when it must."""

    def act(self, decisions):
        draw = decisions.action_masks.shape[1] - 1
        answer = decisions.action_masks[:, :draw].argmax(axis=1)
        return np.where(decisions.action_masks[:, :draw].any(axis=1), answer, draw)


class Clumsy(Uniform):
    """Its first choice is illegal."""

    def act(self, decisions):
        return np.full(len(decisions), 1000)


class Twin(Greedy):
    """Greedy under another name."""


class Elsewhere(Uniform):
    board = "mini4"


class Impatient(Uniform):
    """Somebody presses Ctrl-C at its 30th call."""

    calls = 0

    def act(self, decisions):
        Impatient.calls += 1
        if Impatient.calls == 30:
            raise KeyboardInterrupt
        return super().act(decisions)


# Helpers


@pytest.fixture(autouse=True)
def _quick_intervals(monkeypatch):
    monkeypatch.setattr("train.tournament.ratings.RESAMPLES", 200)


def play(folder, specs=THREE, config=MINI, games=8, seed=5, **options):
    return tournament(specs, config, games, seed, folder, **{"jobs": 1, "chunk": 4, **options})


def without_times(ranking):
    data = json.loads(json.dumps(asdict(ranking)))
    for agent in data["agents"]:
        assert agent.pop("ms_per_decision") > 0
    return data


def lines_of(folder):
    return [json.loads(line) for line in (folder / "games.jsonl").read_text().splitlines()]


def blocks_of(folder, n=2):
    """How often every block of every table is on disk."""
    times = Counter((tuple(line["agents"]), seed) for line in lines_of(folder) for seed in line["seed"])
    return {block: count / n for block, count in times.items()}


def games_of(folder):
    """Every game on disk: table, agents by seat, and its fields."""
    for line in lines_of(folder):
        for index, seed in enumerate(line["seed"]):
            game = {key: values[index] for key, values in line.items() if key not in ("agents", "seconds")}
            yield {**game, "seed": seed, "names": [line["agents"][agent] for agent in game["agent"]]}


def cells_of(ranking):
    return {(cell.agent, cell.against): cell for cell in ranking.cells}


def standings_of(ranking):
    return {standing.agent: standing for standing in ranking.agents}


def mean(values):
    values = list(values)
    return sum(values) / len(values)


# Numbers


FORMS = [
    (THREE, MINI, 20),
    (THREE, GameConfig(players=3), 9),
    (["greedy", "random", HERE + "Stonemason", "uniform"], GameConfig(players=4, common_reserve=True), 8),
    (["random", "uniform"], GameConfig(players=3, common_reserve=True), 6),
]


@pytest.mark.parametrize(("specs", "config", "games"), FORMS)
def test_numbers_are_those_of_evaluation_and_counted_by_hand(specs, config, games, tmp_path):
    n = config.players
    ranking = play(tmp_path, specs, config, games)
    cells = cells_of(ranking)
    assert set(cells) == set(itertools.permutations(specs, 2))
    for (agent, against), cell in cells.items():
        result = evaluate([make_agent(agent), make_agent(against)], [agent, against], config, games, 5).agents[0]
        assert cell.score_rate == pytest.approx(result.score_rate)
        assert cell.interval == pytest.approx(result.interval)
        assert cell.separated == (not result.interval[0] <= 1 / n <= result.interval[1])
    played = list(games_of(tmp_path))
    assert len(played) == games * len(ranking.tables)
    assert (ranking.games, ranking.blocks, ranking.seed) == (games, games // n, 5)
    for standing in ranking.agents:
        sat = [(g, seat) for g in played for seat in range(n) if g["names"][seat] == standing.agent]
        alone = [(g, seat) for g, seat in sat if g["names"].count(standing.agent) == 1]
        assert standing.score_rate == pytest.approx(mean(g["share"][seat] for g, seat in alone))
        assert standing.interval[0] <= standing.score_rate <= standing.interval[1]
        took_part = [g for g in played if standing.agent in g["names"]]
        assert standing.games == len(took_part)
        assert standing.tied_games == pytest.approx(mean(max(g["share"]) < 1 for g in took_part))
        assert standing.margin == pytest.approx(mean(g["margin"][seat] for g, seat in sat))
        for turn in range(n):
            shares = (g["share"][seat] for g, seat in sat if (seat - g["start"]) % n == turn)
            assert standing.by_turn[turn] == pytest.approx(mean(shares))
        draws, choices = (sum(g[key][seat] for g, seat in sat) for key in ("draws", "choices"))
        assert standing.draw_share == pytest.approx(draws / choices)
    assert ranking.tied_games == pytest.approx(mean(max(g["share"]) < 1 for g in played))
    assert sum(ranking.by_turn) == pytest.approx(1)


def test_tables():
    assert tables_of(["b", "a", "c"], 2) == [("a", "b"), ("a", "c"), ("b", "c")]
    pairs = set(itertools.permutations("abc", 2))
    assert tables_of("abc", 3) == [*sorted(pairs), ("a", "b", "c")]
    assert len(tables_of("ab", 3)) == 2
    assert len(tables_of("abcdefgh", 3)) == 56 + 56
    assert len(tables_of("abcdefghi", 3)) == 72


def test_draws_illegal_choices_and_decisions_are_counted(tmp_path):
    specs = [HERE + name for name in ("Drawer", "Stonemason", "Clumsy")]
    ranking = play(tmp_path, specs, GameConfig(), games=4)
    drawer, stonemason, clumsy = (standings_of(ranking)[spec] for spec in specs)
    assert (drawer.draw_share, stonemason.draw_share) == (1, 0)
    assert (drawer.illegal, stonemason.illegal, clumsy.illegal) == (0, 0, 8)
    assert clumsy.score_rate == 0
    assert clumsy.tied_games == 0, "a forfeit is no tie"
    for game in games_of(tmp_path):
        if game["offender"] < 0:  # 18 turns each; 11 tiles and 7 stones, or 8 stones and, having no choice, 10 tiles
            drawing, placing = game["names"].index(specs[0]), game["names"].index(specs[1])
            counts = {key: (game[key][drawing], game[key][placing]) for key in ("decisions", "choices", "draws")}
            assert counts == {"decisions": (29, 28), "choices": (11, 8), "draws": (11, 0)}


def test_files(tmp_path):
    ranking = play(tmp_path, THREE)
    data = json.loads((tmp_path / "table.json").read_text(), parse_constant=pytest.fail)
    assert data == json.loads(json.dumps(asdict(ranking)))
    with (tmp_path / "crosstable.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert [(c["agent"], float(c["score_rate"]), float(c["interval_low"])) for c in cells] == [
        (cell.agent, cell.score_rate, cell.interval[0]) for cell in ranking.cells
    ]
    with (tmp_path / "ratings.csv").open() as file:
        rated = list(csv.DictReader(file))
    assert [(r["agent"], float(r["rating"])) for r in rated] == [(a.agent, a.rating) for a in ranking.agents]
    text = (tmp_path / "table.md").read_text()
    assert all(remark in text for remark in remarks(ranking))
    for picture in ("crosstable.png", "ratings.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


# Ratings


STRENGTHS = np.array([1.5, 0.0, -0.7, 0.4])


def test_ratings_recover_known_strengths():
    wins = 10_000 / (1 + np.exp(STRENGTHS[None] - STRENGTHS[:, None]))
    np.fill_diagonal(wins, 0)
    expected = 400 / np.log(10) * STRENGTHS
    assert ratings(wins, 1) == pytest.approx(expected, abs=0.5)
    assert ratings(wins, None) == pytest.approx(expected - expected.mean(), abs=0.5)


def synthetic(n, blocks):
    """Games of four agents whose final rankings follow the Plackett-Luce model."""
    rng = np.random.default_rng(0)
    tables = [tuple(map(int, table)) for table in tables_of("0123", n)]
    games = np.zeros((len(tables), blocks, n), GAME)
    for games_at_table, table in zip(games, tables, strict=True):
        seats = (*table, *[table[-1]] * (n - len(table)))
        for rotation in range(n):
            games_at_table["agent"][:, rotation, :n] = np.roll(seats, rotation)
    noisy = STRENGTHS[games["agent"][..., :n]] + rng.gumbel(size=(*games.shape, n))
    games["margin"][..., :n] = noisy
    games["share"][..., :n] = noisy == noisy.max(axis=-1, keepdims=True)
    games["start"] = rng.integers(n, size=games.shape)
    games["offender"] = -1
    games["decisions"] = games["choices"] = 1
    return games, tables


@pytest.mark.parametrize("n", [2, 3, 4])
def test_ratings_of_rankings_recover_known_strengths(n):
    games, tables = synthetic(n, 1000)
    ranking = rank(games, tables, ["a", "greedy", "c", "d"], np.ones(4), GameConfig(players=n))
    assert [standing.agent for standing in ranking.agents] == ["a", "d", "greedy", "c"]
    rated = standings_of(ranking)
    for name, strength in zip(("a", "greedy", "c", "d"), STRENGTHS, strict=True):
        low, high = rated[name].rating_interval
        assert rated[name].rating == pytest.approx(400 / np.log(10) * strength, abs=20)
        assert low <= rated[name].rating <= high < low + 40
    assert (rated["greedy"].rating, rated["greedy"].rating_interval) == (0, (0, 0))
    assert not any(pair.overlap for pair in ranking.neighbours)
    assert ranking.groups == [["a", "d", "greedy", "c"]]


def test_comparisons_of_a_game():
    games = np.zeros((2, 1, 4), GAME)  # two tables, one block of four games, of which only the first is not all ties
    games["agent"] = [2, 2, 2, 2]
    games["agent"][0, 0, 0] = [0, 1, 1, 2]
    games["margin"][0, 0, 0] = [1, 5, 1, -7]
    wins = pairwise_wins(games, 3)
    assert wins.tolist() == [[[0, 0.5, 1], [1.5, 0, 2], [0, 0, 0]]]


def test_a_shut_out_is_finite_and_told(tmp_path):
    ranking = play(tmp_path, ["greedy", "random"], GameConfig(), games=10)
    assert ranking.groups == [["greedy"], ["random"]]
    assert -1000 < ranking.agents[1].rating < -300
    assert any("greedy came before random in every game" in remark for remark in remarks(ranking))


def test_pairs_and_neighbours_that_are_not_separated_are_named(tmp_path):
    ranking = play(tmp_path, ["greedy", "random", HERE + "Twin"], games=60, chunk=60)
    pairs, neighbours = remarks(ranking)[:2]
    assert cells_of(ranking)["greedy", HERE + "Twin"].interval == (0.5, 0.5)
    assert f"greedy and {HERE}Twin" in pairs
    assert "random" not in pairs
    assert f"greedy and {HERE}Twin (lead 0, " in neighbours
    three = play(tmp_path / "3p", ["random", HERE + "Twin", "greedy"], GameConfig(players=3), games=9)
    assert f"greedy among {HERE}Twin" in remarks(three)[0]
    assert f"{HERE}Twin among greedy" in remarks(three)[0]


# Going on


def test_same_table_whatever_the_pieces_and_the_order_of_specs(tmp_path):
    one = play(tmp_path / "one", games=41, chunk=100)
    two = play(tmp_path / "two", specs=THREE[::-1], games=41, chunk=7)
    assert without_times(one) == without_times(two)
    assert one.games == 42
    assert set(blocks_of(tmp_path / "two").values()) == {1}


def test_a_killed_run_goes_on_and_nothing_is_lost_or_repeated(tmp_path):
    """On two processes both times, with the table that one process makes undisturbed."""
    form = [
        "--jobs",
        str(min(2, available_cores())),
        "--board",
        "mini3",
        "--games",
        "1000",
        "--seed",
        "5",
        "--chunk",
        "10",
        "--out",
        str(tmp_path / "killed"),
    ]
    command = [sys.executable, "-m", "train.tournament", *THREE, *form]
    killed = subprocess.Popen(command, cwd=Path(__file__).parents[1], stderr=subprocess.PIPE)
    file = tmp_path / "killed" / "games.jsonl"
    while not file.exists() or file.read_bytes().count(b"\n") < 30:
        assert killed.poll() is None, killed.stderr.read()
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)  # returns when its workers, which hold the pipe, have ended, too
    before = file.read_bytes()
    before = before[: before.rindex(b"\n") + 1]
    assert 30 <= before.count(b"\n") < 300

    assert main([*THREE, *form]) == 0
    assert file.read_bytes().startswith(before)
    blocks = blocks_of(tmp_path / "killed")
    assert len(blocks) == 3 * 500
    assert set(blocks.values()) == {1}
    undisturbed = play(tmp_path / "undisturbed", games=1000, chunk=1000)
    resumed = json.loads((tmp_path / "killed" / "table.json").read_text())
    for agent in resumed["agents"]:
        del agent["ms_per_decision"]
    assert resumed == without_times(undisturbed)


def test_a_torn_last_line_is_played_again(tmp_path):
    whole = without_times(play(tmp_path))
    file = tmp_path / "games.jsonl"
    content = file.read_bytes()
    file.write_bytes(content[:-25])
    assert without_times(play(tmp_path)) == whole
    last = content.rindex(b"\n", 0, -1) + 1
    assert file.read_bytes()[:last] == content[:last]
    assert set(blocks_of(tmp_path).values()) == {1}


def test_more_agents_and_games_play_only_what_is_missing(tmp_path):
    play(tmp_path / "grown", ["random", "uniform"], games=8)
    before = (tmp_path / "grown" / "games.jsonl").read_bytes()
    again = play(tmp_path / "grown", ["random", "uniform"], games=8)
    assert (tmp_path / "grown" / "games.jsonl").read_bytes() == before
    assert len(again.cells) == 2
    grown = play(tmp_path / "grown", THREE, games=14)
    assert (tmp_path / "grown" / "games.jsonl").read_bytes().startswith(before)
    assert set(blocks_of(tmp_path / "grown").values()) == {1}
    assert len(blocks_of(tmp_path / "grown")) == 3 * 7
    assert without_times(grown) == without_times(play(tmp_path / "fresh", THREE, games=14))


def test_ctrl_c_stops_and_the_same_command_goes_on(tmp_path, capsys):
    argv = ["random", HERE + "Impatient", "--board", "mini3", "--games", "40", "--chunk", "4", "--jobs", "1"]
    argv += ["--out", str(tmp_path)]
    Impatient.calls = 0
    assert main(argv) == 130
    assert "the same command goes on" in capsys.readouterr().err
    done = len(lines_of(tmp_path))
    assert 0 < done < 10
    assert main(argv) == 0
    assert set(blocks_of(tmp_path).values()) == {1}
    assert len(blocks_of(tmp_path)) == 20


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--seed", "6"], "seed"),
        (["--board", "mini4"], "board"),
        (["--board", "standard", "--players", "3"], "board"),
        (["--games", "4"], "games"),
        (["greedy"], "'uniform'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_folder_begun_with_other_settings_is_an_error(argv, named, tmp_path, capsys):
    agents = ["random", *(argv if "--" not in argv[0] else ["uniform"])]
    options = argv if "--" in argv[0] else []
    play(tmp_path, ["random", "uniform"])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    base = ["--board", "mini3", "--games", "8", "--seed", "5", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*agents, *base, *options]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert named in error
    assert str(tmp_path) in error
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_folder_in_use_or_with_something_else_is_an_error(tmp_path):
    play(tmp_path)
    with FileLock(tmp_path / ".lock"), pytest.raises(ValueError, match="another process"):
        play(tmp_path)
    file = tmp_path / "games.jsonl"
    content = file.read_text()
    file.write_text(content + content.splitlines()[0] + "\n")
    with pytest.raises(ValueError, match="an earlier line holds"):
        play(tmp_path)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="file"):
        play(tmp_path / "file")


def damaged(line, **changes):
    """A line of `games.jsonl` with other values in some fields; None leaves the field out."""
    data = {**json.loads(line), **changes}
    return json.dumps({key: value for key, value in data.items() if value is not None})


DAMAGE = {
    "no JSON": (lambda line: line[:-5], "line 2"),
    "binary": (lambda line: b"\x80\xff\x00", "line 2"),
    "a list": (lambda line: "[]", "must be an object"),
    "nested deep": (lambda line: '{"agents": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 2"),
    "a huge number": (lambda line: damaged(line, seed=[10**30] * 4), "seed"),
    "5,000 digits": (lambda line: '{"agents": ' + "9" * 5000 + "}", "line 2"),
    "no agents": (lambda line: damaged(line, agents=[]), "agents"),
    "agents are numbers": (lambda line: damaged(line, agents=[1, 2]), "agents"),
    "a field is missing": (lambda line: damaged(line, margin=None), "'margin'"),
    "one value for all": (lambda line: damaged(line, offender=-1), "offender"),
    "seeds of other blocks": (lambda line: damaged(line, seed=[70, 70, 71, 71]), "seed 70: must be from 5 to 8"),
    "a negative seed": (lambda line: damaged(line, seed=[-7, -7, 8, 8]), "seed"),
    "half a block": (lambda line: damaged(line, seed=[5, 5, 6]), "seed"),
    "a block of two seeds": (lambda line: damaged(line, seed=[5, 6, 7, 8]), "seed"),
    "an agent that is not there": (lambda line: damaged(line, agent=[[0, 2]] * 4), "agent 2"),
    "a seat that is not there": (lambda line: damaged(line, start=[0, 1, 2, 1]), "start 2"),
    "not a number": (lambda line: damaged(line, margin=[[float("nan")] * 2] * 4), "margin"),
    "text": (lambda line: damaged(line, draws=[["a", "b"]] * 4), "draws"),
    "shares of more than one win": (lambda line: damaged(line, share=[[1.0, 1.0]] * 4), "share"),
    "negative times": (lambda line: damaged(line, seconds=[-1.0, 0.1]), "seconds"),
    "one time for two agents": (lambda line: damaged(line, seconds=[0.1]), "seconds"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_games_are_named_and_left_alone(kind, tmp_path, capsys):
    play(tmp_path, ["random", "uniform"])
    capsys.readouterr()
    file = tmp_path / "games.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    change, named = DAMAGE[kind]
    line = change(lines[1].decode().rstrip("\n"))
    content = b"".join([lines[0], line if isinstance(line, bytes) else line.encode(), b"\n", *lines[2:]])
    file.write_bytes(content)
    argv = ["random", "uniform", "--board", "mini3", "--games", "8", "--seed", "5", "--jobs", "1"]
    assert main([*argv, "--out", str(tmp_path)]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {file}: line 2 ")
    assert named in error
    assert len(error) < 500
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\xff\x00",
        b"[]",
        b'{"board": "mini3"}',
        b"[" * 100_000,
        b'{"board": 5, "players": 2, "common_reserve": false, "seed": 5, "games": 8, "agents": ["random", "uniform"]}',
        b'{"board": "mini3", "players": 2, "common_reserve": 0, "seed": 5, "games": 8, "agents": ["random"]}',
        b'{"board": "mini3", "players": 2, "common_reserve": false, "seed": 5, "games": 8, "agents": [["a"]]}',
        b'{"board": "mini3", "players": 2, "common_reserve": false, "seed": 5, "games": 8, "agents": [], "secret": 5}',
        None,
    ],
)
def test_damaged_settings_are_named_and_left_alone(content, tmp_path, capsys):
    file = tmp_path / "tournament.json"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    argv = ["random", "uniform", "--board", "mini3", "--games", "8", "--seed", "5", "--jobs", "1"]
    assert main([*argv, "--out", str(tmp_path)]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert str(file) in error
    assert len(error) < 500
    assert not (tmp_path / "games.jsonl").exists()
    if content is not None:
        assert file.read_bytes() == content


def test_a_file_that_is_no_tournaments_is_not_cut(tmp_path):
    file = tmp_path / "games.jsonl"
    file.write_bytes(b"something of another kind, without a line break")
    with pytest.raises(ValueError, match="the last line holds no games"):
        play(tmp_path)
    assert file.read_bytes().startswith(b"something")


# Command line


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["greedy"], "1 agents"),
        (["greedy", "nobody"], "nobody"),
        (["greedy", "random", "greedy"], "'greedy' is named twice"),
        (["greedy", "ppo:no/such/folder"], "no/such/folder"),
        (["greedy", HERE + "Elsewhere"], "mini4"),
        (["greedy", "random", "--players", "5"], "players=5"),
        (["greedy", "random", "--common-reserve", "--board", "mini4"], "common_reserve"),
        (["greedy", "random", "--games", "2"], "games=2"),
        (["greedy", "random", "--jobs", "0"], "jobs=0"),
        (["greedy", "random", "--jobs", "100000"], f"from 1 to {available_cores()}"),
        (["greedy", "random", "--chunk", "1e9"], "chunk=1000000000: must be from 1 to 10000"),
        (["greedy", "random", "--games", "many"], "'many'"),
        (["greedy", "random", "--games", "1e12"], "games=1000000000000"),
        (["greedy", "random", "--chunk", "0"], "chunk=0"),
        (["greedy", "random", "--seed", "-1"], "-1"),
        (["greedy", "random", "--seed", str(2**64 - 1)], str(2**64 - 1)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line_and_leave_nothing(argv, named, tmp_path, capsys):
    assert main([*argv, "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith("error: ")
    assert named in printed.err
    assert not (tmp_path / "out").exists()


def test_the_default_folder_is_named_after_form_and_seed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["random", "greedy", "--board", "mini3", "--games", "4", "--seed", "3", "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "results/tournament-mini3-2p-seed3" in printed
    for word in ("random", "greedy", "4 games in 2 blocks", "overlap"):
        assert word in printed
    assert (tmp_path / "results" / "tournament-mini3-2p-seed3" / "table.json").exists()
