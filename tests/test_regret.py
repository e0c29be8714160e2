"""What choices cost at the end of a game: counted by hand and with the slow solver, and the command line."""

import json
import math
import subprocess
import sys
from argparse import Namespace
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

import naive_exact
from naive import NaiveGame
from scipy import stats

from agents.search.exact import Solver, solve
from isis_env import GameConfig, game, notation
from isis_env.deal import Deal
from isis_env.game import IllegalActionError
from isis_env.policy import make_agent
from train import regret
from train.regret import cost, main, measure

pytestmark = pytest.mark.slow

GREEDY = [make_agent("greedy")]


class Counting:
    """Takes the legal action that a plain count leads to, so that the slow twin can be led by the same.

    With `clumsy`, every so many-th choice is no legal one.
    """

    recall = "full"

    def __init__(self, factor, clumsy=None):
        self.factor, self.clumsy = factor, clumsy

    def choose(self, legal, seat, held):
        number = self.factor * (sum(legal) + 3 * held + seat)
        return 99 if self.clumsy and number % self.clumsy == 0 else legal[number // 2 % len(legal)]

    def act(self, decisions):
        rows = zip(decisions.action_masks, decisions.seats, decisions.states["held"], strict=True)
        return np.array([self.choose(np.flatnonzero(mask).tolist(), int(seat), int(held)) for mask, seat, held in rows])


class Exact:
    """Plays perfectly where few cells are free, and anything before."""

    recall = "full"

    def __init__(self, free, reward):
        self.free, self.solver = free, Solver(reward)

    def act(self, decisions):
        actions = decisions.action_masks.argmax(axis=1)
        for row, state in enumerate(decisions.states):
            if game.cells_of(state) - state.placed <= self.free:
                actions[row] = self.solver.solve(state).best_actions(int(state.seat))[-1]
        return actions


def ask_greedy(agent, config=GameConfig(), **options):  # noqa: B008 (it is frozen)
    return measure(agent, "agent", config, GREEDY, ["greedy"], **options)


# By hand

TWO_CELLS = "[isis-osiris 1] board=mini3 players=2 variant=personal start=0\na1 c3 a2 b1+3 b2+1 a3-2 b3-3"


def test_what_a_blunder_costs():
    """Counted in `test_exact`: a stone on c1 is worth 0 or a margin of -1, one on c2 a loss or -3.5, drawing a loss or
    -3. Illegal is a cell that is taken, or no action; it loses the game with a margin of -139."""
    state = notation.loads(TWO_CELLS)[0]
    c1, c2, draw = 2, 5, 9
    for reward, losses in (
        ("win", {c1: 0, c2: 1, draw: 1, 0: 1, 10: 1, -1: 1, 2**40: 1}),
        ("margin", {c1: 0, c2: 2.5, draw: 2, 0: 138, 10: 138, -1: 138, 2**40: 138}),
    ):
        solution = solve(state, reward)
        assert {choice: cost(solution, 1, choice, reward) for choice in losses} == pytest.approx(losses)


# With the slow solver


def count_games(agent, between, config, free, positions, reward, seed):
    """What `measure` counts, on the slow twin: per position its game, free cells, whether a tile is held, the loss,
    that of a uniform choice, and whether the choice was illegal."""
    counted = []
    number = 0
    while len(counted) < positions:
        deck, start = Deal(seed + number).lay_out(config)
        twin = NaiveGame(config.board, config.players, config.common_reserve, deck[: len(config.faces)].tolist(), start)
        while not twin.over:
            legal, left = twin.legal(), len(twin.free_cells())
            asked = legal, twin.seat, twin.held or 0
            if left <= free and len(legal) > 1:
                _, after = naive_exact.solve(twin, reward)
                own = {action: vector[twin.seat] for action, vector in after.items()}
                best, choice = max(own.values()), agent.choose(*asked)
                loss = best - own.get(choice, Fraction(-1 if reward == "win" else -139))
                uniform = best - sum(own.values()) / len(own)
                counted.append((number, left, twin.held is not None, loss, uniform, choice not in own))
            twin.step(between[(number + twin.seat) % len(between)].choose(*asked))
        number += 1
    return counted


def interval_over_games(counted, loss, worst):
    """t interval of a ratio of sums from 0 to `worst`, by its residuals per game, on the logit scale."""
    by_game = {}
    for number, _, _, cost_of_choice, *_ in counted:
        by_game.setdefault(number, []).append(float(cost_of_choice))
    size = len(counted) / len(by_game)
    residuals = [(sum(costs) - loss * len(costs)) / size for costs in by_game.values()]
    half = stats.t.ppf(0.975, len(by_game) - 1) * stdev(residuals) / math.sqrt(len(by_game))
    half *= worst / (loss * (worst - loss))
    return tuple(worst / (1 + (worst - loss) / loss * math.exp(side * half)) for side in (1, -1))


@pytest.mark.parametrize(
    ("config", "free", "reward"),
    [
        (GameConfig("mini3"), 4, "win"),
        (GameConfig("mini3"), 4, "margin"),
        (GameConfig(), 3, "margin"),
        (GameConfig(players=3, common_reserve=True), 3, "win"),
        (GameConfig(players=4), 3, "margin"),
    ],
)
def test_all_numbers_counted_with_the_slow_solver(config, free, reward):
    agent, between = Counting(17, clumsy=9), [Counting(5), Counting(11), Counting(23)]
    result = measure(agent, "agent", config, between, ["a", "b", "c"], free=free, positions=40, reward=reward, seed=70)
    counted = count_games(agent, between, config, free, 40, reward, 70)
    parts = {
        "all": counted,
        "stone or draw": [row for row in counted if not row[2]],
        "placing a tile": [row for row in counted if row[2]],
        **{f"{left} free": [row for row in counted if row[1] == left] for left in range(free, 0, -1)},
    }
    assert [part.part for part in result.parts] == [name for name, rows in parts.items() if rows]
    for part in result.parts:
        rows = parts[part.part]
        losses = [float(row[3]) for row in rows]
        assert (part.positions, part.games) == (len(rows), len({row[0] for row in rows}))
        assert part.loss == pytest.approx(mean(losses))
        assert part.optimal == pytest.approx(mean(loss == 0 for loss in losses))
        assert part.uniform == pytest.approx(mean(float(row[4]) for row in rows))
        assert part.illegal == sum(row[5] for row in rows)
        assert part.interval == pytest.approx(interval_over_games(rows, part.loss, 2 if reward == "win" else 278))
    assert 0 < result.parts[0].illegal < len(counted)
    assert 0 < result.parts[0].optimal < 1


# Agents


@pytest.mark.parametrize(
    ("config", "reward"),
    [
        (GameConfig(), "win"),
        (GameConfig(common_reserve=True), "margin"),
        (GameConfig(players=3), "win"),
        (GameConfig(players=4), "margin"),
        (GameConfig("mini4"), "margin"),
    ],
)
def test_perfect_play_costs_nothing(config, reward):
    result = ask_greedy(Exact(4, reward), config, free=4, positions=60, reward=reward)
    for part in result.parts:
        assert part.loss == pytest.approx(0, abs=1e-9)
        assert part.optimal == 1
    assert result.parts[0].uniform > 0


@pytest.mark.parametrize("reward", ["win", "margin"])
def test_random_gives_away_more_than_greedy(reward):
    greedy, random = (
        ask_greedy(make_agent(name), free=4, positions=300, reward=reward).parts[0] for name in ("greedy", "random")
    )
    assert greedy.interval[1] < random.interval[0]
    assert greedy.optimal > random.optimal
    assert (greedy.positions, greedy.uniform) == (random.positions, random.uniform), "the positions are the same"


class Listening:
    """Checks that it hears of every decision of every game, from the first; its choices are never played."""

    def __init__(self, recall):
        self.recall, self.heard, self.seats = recall, {}, {}

    def act(self, decisions):
        for row, state in enumerate(decisions.states):
            number = int(decisions.games[row])
            progress = int(state.placed), bool(state.held)
            if progress == (0, False):
                self.heard[number], self.seats[number] = [], set()
            self.heard[number].append(progress)
            assert decisions.first[row] == (decisions.seats[row] not in self.seats[number])
            self.seats[number].add(decisions.seats[row])
            assert game.is_concealed(state) == (self.recall != "full")
        return np.full(len(decisions), -1)


@pytest.mark.parametrize("recall", [1, "full"])
def test_an_agent_that_remembers_hears_of_whole_games_under_its_recall(recall):
    agent = Listening(recall)
    config = GameConfig(players=3)
    result = ask_greedy(agent, config, free=2, positions=20)
    for heard in agent.heard.values():
        assert [filled for filled, held in heard if not held] == list(range(config.cells))
        assert heard == sorted(heard), "a tile that is drawn is placed next"
    assert result.parts[0].illegal == result.parts[0].positions
    assert result.parts[0].optimal == 0
    assert result.parts[0].loss > 0


def test_same_seed_same_numbers_however_many_games_are_in_progress(monkeypatch):
    def numbers(seed, positions=50):
        return ask_greedy(make_agent("random"), GameConfig("mini4"), free=3, positions=positions, seed=seed)

    before = numbers(4)
    assert numbers(4) == before
    assert numbers(5).parts != before.parts
    monkeypatch.setattr(regret, "GAMES_AT_A_TIME", 1)
    assert numbers(4) == before
    assert before.parts[0].positions >= 50
    assert numbers(4, before.parts[0].positions) == before, "whole games"
    assert numbers(4, 1).parts[0].games == 1


def test_one_game_tells_no_interval():
    for reward, worst in (("win", 2), ("margin", 278)):
        part = ask_greedy(make_agent("random"), GameConfig("mini3"), free=2, positions=1, reward=reward).parts[0]
        assert (part.games, part.interval) == (1, (0, worst))


def test_who_plays_the_games_must_do_so_legally():
    with pytest.raises(IllegalActionError):
        measure(GREEDY[0], "greedy", GameConfig("mini3"), [Listening("full")], ["odd"], free=2)
    with pytest.raises(ValueError, match="no agents"):
        measure(GREEDY[0], "greedy", GameConfig("mini3"), [], [])


# Command line


def test_command_line_writes_what_measure_finds(tmp_path, capsys):
    file = tmp_path / "folder" / "result.json"
    argv = ["random", "--free", "3", "--positions", "20", "--players", "3", "--common-reserve", "--reward", "margin"]
    assert main([*argv, "--between", "greedy", "uniform", "--seed", "3", "--out", str(file)]) == 0
    between = [make_agent("greedy"), make_agent("uniform")]
    config = GameConfig(players=3, common_reserve=True)
    result = measure(
        make_agent("random"),
        "random",
        config,
        between,
        ["greedy", "uniform"],
        free=3,
        positions=20,
        reward="margin",
        seed=3,
    )
    assert json.loads(file.read_text(), parse_constant=pytest.fail) == json.loads(json.dumps(asdict(result)))
    assert list(file.parent.iterdir()) == [file]
    printed = capsys.readouterr().out
    assert str(file) in printed.replace("\n", "")
    for part in result.parts:
        assert part.part in printed
        assert f"{part.loss:.4f}" in printed


def test_default_files_tell_settings_apart():
    settings = {
        "board": "standard",
        "players": 2,
        "common_reserve": False,
        "agent": "random",
        "between": ["greedy"],
        "free": 2,
        "reward": "win",
        "seed": 0,
    }
    changes = [
        {},
        {"agent": "greedy"},
        {"board": "mini4"},
        {"players": 3},
        {"common_reserve": True},
        {"reward": "margin"},
        {"free": 3},
        {"between": ["random"]},
        {"between": ["greedy", "random"]},
        {"seed": 1},
    ]
    files = set()
    for change in changes:
        options = Namespace(**settings | change)
        config = GameConfig(options.board, options.players, options.common_reserve)
        files.add(regret._default_file(options, config))
    assert len(files) == len(changes)
    assert {file.parent for file in files} == {Path("results")}


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["nobody"], "nobody"),
        (["greedy", "--between", "greedy", "nobody"], "nobody"),
        (["ppo:no/such/folder"], "no/such/folder"),
        (["greedy", "--free", "1"], "free=1"),
        (["greedy", "--free", "17", "--board", "mini4"], "free=17"),
        (["greedy", "--positions", "0"], "positions=0"),
        (["greedy", "--players", "5"], "players=5"),
        (["greedy", "--common-reserve", "--board", "mini4"], "common_reserve"),
        (["greedy", "--seed", "-1"], "-1"),
        (["greedy", "--positions", "2", "--seed", str(2**64 - 1)], str(2**64 - 1)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line(argv, named, tmp_path, capsys):
    file = tmp_path / "result.json"
    assert main([*argv, "--out", str(file)]) == 2
    assert_one_line(capsys, named)
    assert not file.exists()


def assert_one_line(capsys, named):
    printed = capsys.readouterr()
    assert printed.out == ""
    line = printed.err.rsplit("\r", 1)[-1]  # behind what a progress bar wiped out
    assert line.startswith("error: ")
    assert len(line.splitlines()) == 1
    assert named in line


def test_too_many_free_cells_are_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(regret, "Solver", partial(Solver, max_nodes=10))
    assert main(["greedy", "--free", "5", "--positions", "1", "--out", str(tmp_path / "result.json")]) == 2
    assert_one_line(capsys, "5 free cells")


@pytest.mark.parametrize("place", ["folder", "file/result.json"])
def test_a_file_that_cannot_be_written_is_an_error(place, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("in the way")
    assert main(["greedy", "--positions", "1", "--out", str(tmp_path / place)]) == 2
    assert_one_line(capsys, str(tmp_path / place))


@pytest.mark.parametrize("argv", [[], ["greedy", "--free", "many"], ["greedy", "--reward", "score"]])
def test_arguments_of_the_wrong_form(argv, capsys):
    assert main(argv) == 2
    assert_one_line(capsys, "")


def test_as_a_program(tmp_path):
    command = [sys.executable, "-m", "train.regret", "nobody", "--out", str(tmp_path / "result.json")]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
