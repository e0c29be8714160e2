"""The evaluation: blocks of all seat rotations, every number counted again by hand, the command line.

The file is long because all its tests count the same small evaluations.
"""

import json
import math
import subprocess
import sys
import zlib
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from scipy import stats

from isis_env import GameConfig, deal, game, isis_osiris_v0
from isis_env.policy import make_agent
from train.evaluate import evaluate, main, t_interval

FORMS = [  # number of agents, settings, blocks
    (2, GameConfig(), 6),
    (3, GameConfig(players=3), 4),
    (2, GameConfig(players=3, common_reserve=True), 4),
    (2, GameConfig(players=4), 3),
    (3, GameConfig(players=4, common_reserve=True), 3),
    (2, GameConfig("mini3"), 12),
]


class Hashing:
    """Chooses by a hash of what it sees and of its seed, so that the same choices can be made beside the AEC env.

    `clumsy` of 100 choices are illegal ones.
    """

    def __init__(self, recall, clumsy=0):
        self.recall, self.clumsy = recall, clumsy

    def choose(self, observation, mask, seed):
        number = zlib.crc32(observation.tobytes()) ^ int(seed)
        if number % 100 < self.clumsy:
            return number % 1000 + len(mask)
        legal = np.flatnonzero(mask)
        return int(legal[number // 100 % len(legal)])

    def act(self, decisions):
        rows = zip(decisions.observations, decisions.action_masks, decisions.seeds, strict=True)
        return np.array([self.choose(*row) for row in rows])


class Answering(Hashing):
    """Gives a fixed answer, whatever is asked."""

    def __init__(self, answer):
        super().__init__("full")
        self.answer = answer

    def act(self, decisions):
        return self.answer(decisions)


AGENTS = [Hashing(1), Hashing("full"), Hashing(2)]
CLUMSY = [Hashing(1, clumsy=1), Hashing("full"), Hashing(2, clumsy=2)]


class Played(NamedTuple):
    """One game: what the AEC env says of it."""

    block: int
    agents: list[int]  # index of the agent on each seat
    start: int
    scores: list[int]
    winners: list[int]
    offender: int | None


def play_by_hand(players, config, blocks, seed):
    n = config.players
    games = []
    for block in range(blocks):
        for rotation in range(n):
            seats = [min((seat + rotation) % n, len(players) - 1) for seat in range(n)]
            envs = {
                recall: isis_osiris_v0.env(n, config.common_reserve, config.board, recall=recall, illegal="lose")
                for recall in (1, 2, "full")
            }
            for env in envs.values():
                env.reset(seed=seed + block)
            start = int(env.agent_selection[-1])
            decision = 0
            while not env.terminations[env.agent_selection]:
                seat = int(env.agent_selection[-1])
                player = players[seats[seat]]
                view = envs[player.recall].observe(env.agent_selection)
                fresh = deal.decision_seed(np.uint64(seed + block), np.uint64(0), seat, decision)
                action = player.choose(view["observation"], view["action_mask"], fresh)
                offender = seat if action >= len(view["action_mask"]) else None
                for each in envs.values():
                    each.step(action)
                decision += 1
            games.append(Played(block, seats, start, env.scores(), env.winners(), offender))
    return games


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def share(played, seat):
    return (seat in played.winners) / len(played.winners)


def assert_counted_right(result, index, games, n):
    """All numbers of one agent but the margin."""
    mine = [[seat for seat in range(n) if played.agents[seat] == index] for played in games]
    per_game = [sum(share(played, seat) for seat in seats) for played, seats in zip(games, mine, strict=True)]
    winning = [len(set(seats) & set(played.winners)) for played, seats in zip(games, mine, strict=True)]
    alone = [len(played.winners) == 1 for played in games]
    assert result.score_rate == pytest.approx(mean(per_game))
    assert result.wins == pytest.approx(mean(w > 0 and a for w, a in zip(winning, alone, strict=True)))
    assert result.draws == pytest.approx(mean(w > 0 and not a for w, a in zip(winning, alone, strict=True)))
    assert result.losses == pytest.approx(mean(w == 0 for w in winning))
    assert result.wins + result.draws + result.losses == pytest.approx(1)
    assert result.illegal == sum(g.offender is not None and g.agents[g.offender] == index for g in games)
    for seat in range(n):
        assert result.by_seat[seat] == pytest.approx(mean(share(g, seat) for g in games if g.agents[seat] == index))
    for turn in range(n):
        sat = [(g, (g.start + turn) % n) for g in games]
        assert result.by_turn[turn] == pytest.approx(mean(share(g, s) for g, s in sat if g.agents[s] == index))

    blocks = [
        mean(r for r, g in zip(per_game, games, strict=True) if g.block == block) for block in range(len(games) // n)
    ]
    assert result.interval == pytest.approx(logit_interval(blocks))


def logit_interval(values):
    """t interval of the mean on the logit scale, by the delta method, of values that differ."""
    m = mean(values)
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) / (m * (1 - m))
    return tuple(1 / (1 + (1 - m) / m * math.exp(side * half)) for side in (1, -1))


def margins(index, games):
    """Own score minus the mean of the others', of every seat of an agent."""
    for played in games:
        for seat, score in enumerate(played.scores):
            if played.agents[seat] == index:
                yield score - mean(played.scores[:seat] + played.scores[seat + 1 :])


def names_of(players):
    return [f"agent {index}" for index in range(len(players))]


# Numbers


@pytest.mark.parametrize(("agents", "config", "blocks"), FORMS)
def test_all_numbers_counted_by_hand(agents, config, blocks):
    players = AGENTS[:agents]
    result = evaluate(players, names_of(players), config, blocks * config.players, seed=50)
    games = play_by_hand(players, config, blocks, 50)
    assert (result.board, result.players, result.common_reserve) == (
        config.board,
        config.players,
        config.common_reserve,
    )
    assert (result.seed, result.games, result.blocks) == (50, blocks * config.players, blocks)
    assert [r.agent for r in result.agents] == names_of(players)
    for index, agent in enumerate(result.agents):
        assert_counted_right(agent, index, games, config.players)
        assert agent.margin == pytest.approx(mean(margins(index, games)))
        assert agent.illegal == 0
    assert sum(agent.score_rate for agent in result.agents) == pytest.approx(1)
    if config.board == "mini3":
        assert result.agents[0].draws > 0, "there should be draws among the games that are counted"


@pytest.mark.parametrize(("agents", "config", "blocks"), FORMS)
def test_illegal_choices_are_counted_and_lose_the_game(agents, config, blocks):
    """To all others alike (decision 15), who are the winners."""
    players = CLUMSY[:agents]
    result = evaluate(players, names_of(players), config, blocks * config.players, seed=10)
    games = play_by_hand(players, config, blocks, 10)
    for index, agent in enumerate(result.agents):
        assert_counted_right(agent, index, games, config.players)
        assert np.isfinite(agent.margin)
    assert 0 < sum(agent.illegal for agent in result.agents) < len(games)
    assert result.agents[1].illegal == 0
    assert sum(agent.score_rate for agent in result.agents) == pytest.approx(1)


@pytest.mark.parametrize("bad", [-1, 37, 2**40])
def test_always_illegal_never_scores(bad):
    clumsy = Answering(lambda decisions: np.full(len(decisions), bad))
    config = GameConfig(players=3)
    result = evaluate([clumsy, make_agent("greedy")], ["clumsy", "greedy"], config, 12)
    assert [agent.illegal for agent in result.agents] == [12, 0]
    assert [agent.score_rate for agent in result.agents] == [0, 1]
    assert [agent.losses for agent in result.agents] == [1, 0]
    assert result.agents[1].by_seat == [0.5] * 3  # two winners in every game
    assert [agent.margin for agent in result.agents] == [-139, 139 / 2]  # decision 15


@pytest.mark.parametrize(
    "answer",
    [
        lambda decisions: decisions.action_masks.argmax(axis=1) + 0.5,
        lambda decisions: decisions.action_masks.argmax(axis=1)[:1],
        lambda decisions: decisions.action_masks[:, 0] > 0,
        lambda decisions: None,
    ],
    ids=["floats", "one for all", "booleans", "nothing"],
)
def test_answers_of_another_type_or_shape_are_an_error(answer):
    """An illegal choice is some integer outside the mask; all else is a bug of the agent that must not be hidden."""
    with pytest.raises((TypeError, ValueError)):
        evaluate([Answering(answer), make_agent("random")], ["odd", "random"], GameConfig(), 4)


def test_greedy_beats_random_on_every_seat():
    result = evaluate([make_agent("greedy"), make_agent("random")], ["greedy", "random"], GameConfig(), 200)
    assert min(result.agents[0].by_seat) > 0.8
    assert min(result.agents[0].by_turn) > 0.8
    assert result.agents[0].interval[0] > 0.5 > result.agents[1].interval[1]
    assert result.agents[0].margin == pytest.approx(-result.agents[1].margin)


@pytest.mark.parametrize("name", ["random", "uniform", "greedy"])
@pytest.mark.parametrize("players", [2, 3, 4])
def test_identical_agents_share_every_block(name, players):
    """The games of a block are the same game then, so that nothing is left to chance."""
    agents = [make_agent(name) for _ in range(players)]
    result = evaluate(agents, names_of(agents), GameConfig(players=players), 12 * players)
    for agent in result.agents:
        assert agent.score_rate == pytest.approx(1 / players, abs=1e-12)
        assert agent.interval == pytest.approx((1 / players, 1 / players), abs=1e-12)
        assert agent.margin == pytest.approx(0, abs=1e-12)
    if players == 2:
        assert [agent.score_rate for agent in result.agents] == [0.5, 0.5]


# Intervals


@pytest.mark.parametrize(
    ("values", "interval"),
    [
        ([0.4], (0, 1)),
        ([1.0] * 10, (0.025 ** (1 / 10), 1)),  # Clopper-Pearson: 0.6915 to 1
        ([0.0] * 10, (0, 1 - 0.025 ** (1 / 10))),
        ([0.25] * 7, (0.25, 0.25)),
        ([0.1 + 0.2, 0.3] * 5, (0.3, 0.3)),  # equal but for rounding
        ([0.0, 1.0], (0, 1)),  # two values tell nearly nothing: t = 12.7
        # Mean 0.75 and standard error 0.25 of four values, t = 3.182: logit 1.0986 -+ 3.182 * 0.25 / 0.1875
        ([1.0, 1.0, 1.0, 0.0], (0.0413, 0.9952)),
    ],
)
def test_intervals_of_known_cases(values, interval):
    assert t_interval(values) == pytest.approx(interval, abs=1e-4)


def test_an_interval_of_another_scale():
    assert t_interval([2.0, 4.0, 6.0], 10.0) == pytest.approx([10 * end for end in t_interval([0.2, 0.4, 0.6])])
    assert t_interval([3.0], 10.0) == (0, 10)


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5, 0.9, 0.98])
def test_intervals_hold_the_true_rate_and_stay_inside(rate):
    """Blocks of two games each; 95 % of the intervals are to hold the rate."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        low, high = t_interval(rng.binomial(2, rate, size=150) / 2)
        assert 0 <= low < high <= 1
        held += low <= rate <= high
    assert 0.92 <= held / 400 <= 0.99


# Blocks


class Recorder:
    """Plays uniformly, and notes on which seat of which deal it sits; its memory must belong to one game."""

    recall = "full"

    def __init__(self, seed, blocks, players):
        self.seed, self.sat, self.block_of = seed, Counter(), {}
        self.opening = {}  # the seed of a seat's first decision -> block and seat
        for block in range(blocks):
            for seat in range(players):
                for decision in range(2 * players):
                    self.opening[self.decision_seed(block, seat, decision)] = block, seat

    def decision_seed(self, block, seat, decision):
        return int(deal.decision_seed(np.uint64(self.seed + block), np.uint64(0), seat, decision))

    def act(self, decisions):
        for row in range(len(decisions)):
            seat, key = int(decisions.seats[row]), (int(decisions.games[row]), int(decisions.seats[row]))
            if decisions.first[row]:
                self.block_of[key], told = self.opening[int(decisions.seeds[row])]
                assert told == seat
                self.sat[self.block_of[key], seat] += 1
            number = game.decisions_taken(decisions.states[row])
            assert decisions.seeds[row] == self.decision_seed(self.block_of[key], seat, number)
        return make_agent("uniform").act(decisions)


@pytest.mark.parametrize(
    ("agents", "config", "games", "played"),
    [
        (2, GameConfig("mini3"), 1, 2),
        (2, GameConfig("mini3"), 2501, 2502),  # more than are in progress at a time
        (2, GameConfig(), 6, 6),
        (2, GameConfig(players=3), 7, 9),
        (3, GameConfig(players=3), 1, 3),
        (2, GameConfig(players=4, common_reserve=True), 10, 12),
        (3, GameConfig(players=4), 8, 8),
    ],
)
def test_every_agent_sits_on_every_seat_of_every_deal(agents, config, games, played):
    n, blocks = config.players, played // config.players
    recorders = [Recorder(30, blocks, n) for _ in range(agents)]
    result = evaluate(recorders, names_of(recorders), config, games, seed=30)
    assert (result.games, result.blocks) == (played, blocks)
    for index, recorder in enumerate(recorders):
        seats = 1 if index < agents - 1 else n - agents + 1  # the last fills the rest
        assert recorder.sat == {(block, seat): seats for block in range(blocks) for seat in range(n)}


def test_same_seed_same_result():
    def play(seed):
        agents = [make_agent("random"), make_agent("uniform")]
        return evaluate(agents, names_of(agents), GameConfig(players=3), 30, seed=seed)

    assert play(4) == play(4)
    assert play(4) != play(5)


def test_too_few_and_too_many_agents():
    greedy = make_agent("greedy")
    for number, players in ((1, 2), (3, 2), (5, 4)):
        with pytest.raises(ValueError, match=f"{number} agents"):
            evaluate([greedy] * number, ["greedy"] * number, GameConfig(players=players), 4)


# Command line


def strict_json(file):
    """NaN and Infinity are no JSON."""
    return json.loads(file.read_text(), parse_constant=lambda word: pytest.fail(f"{word} in the JSON file"))


def test_command_line_writes_what_evaluate_finds(tmp_path, capsys):
    file = tmp_path / "folder" / "result.json"
    argv = ["greedy", "random", "--games", "7", "--players", "3", "--common-reserve", "--seed", "3", "--out", str(file)]
    assert main(argv) == 0
    config = GameConfig(players=3, common_reserve=True)
    result = evaluate([make_agent("greedy"), make_agent("random")], ["greedy", "random"], config, 7, seed=3)
    assert strict_json(file) == json.loads(json.dumps(asdict(result)))
    assert list(file.parent.iterdir()) == [file]
    printed = capsys.readouterr().out
    assert str(file) in printed.replace("\n", "")
    for word in ("greedy", "random", f"{result.agents[0].score_rate:.3f}", "9 games"):
        assert word in printed


def test_one_block_gives_no_nan(tmp_path):
    file = tmp_path / "result.json"
    assert main(["random", "greedy", "--board", "mini4", "--games", "1", "--out", str(file)]) == 0
    data = strict_json(file)
    assert (data["board"], data["games"], data["blocks"]) == ("mini4", 2, 1)
    for agent in data["agents"]:
        assert agent["interval"][0] <= agent["score_rate"] <= agent["interval"][1]


def test_default_files_tell_settings_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = [[], ["--seed", "1"], ["--board", "mini3"], ["--players", "3"], ["--common-reserve"]]
    for extra in settings:
        assert main(["random", "greedy", "--games", "1", *extra]) == 0
    assert main(["greedy", "random", "--games", "1"]) == 0
    files = list((tmp_path / "results").glob("*.json"))
    assert len(files) == len(settings) + 1


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["greedy"], "1 agents"),
        (["greedy", "random", "random"], "3 agents"),
        (["greedy", "nobody"], "nobody"),
        (["greedy", "greedy:depth=2"], "depth"),
        (["greedy", "ppo:no/such/folder"], "no/such/folder"),
        (["greedy", "python:no_such_module_anywhere:x"], "no_such_module_anywhere"),
        (["greedy", "random", "--players", "5"], "players=5"),
        (["greedy", "random", "--players", "3", "--board", "mini3"], "players=3"),
        (["greedy", "random", "--common-reserve", "--board", "mini4"], "common_reserve"),
        (["greedy", "random", "--games", "0"], "games=0"),
        (["greedy", "random", "--games", "-3"], "games=-3"),
        (["greedy", "random", "--seed", "-1"], "-1"),
        (["greedy", "random", "--games", "2", "--seed", str(2**64)], str(2**64)),
        (["greedy", "random", "--games", "4", "--seed", str(2**64 - 1)], str(2**64 - 1)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line(argv, named, tmp_path, capsys):
    file = tmp_path / "result.json"
    assert main([*argv, "--out", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert named in printed.err
    assert not file.exists()


@pytest.mark.parametrize("place", ["folder", "file/result.json"])
def test_a_file_that_cannot_be_written_is_an_error(place, tmp_path, capsys):
    """Told before the games are played, not after."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("in the way")
    assert main(["greedy", "random", "--games", "2", "--out", str(tmp_path / place)]) == 2
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1
    assert str(tmp_path / place) in printed.err or str(tmp_path / "file") in printed.err


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["greedy", "random", "--games", "many"],
        ["greedy", "random", "--games", "1.5"],
        ["greedy", "random", "--games", "9" * 5000],
        ["greedy", "random", "--seed", "٣"],
        ["greedy", "random", "--board", "hex"],
        ["greedy", "random", "--no-such-option"],
    ],
    ids=lambda argv: " ".join(argv)[-20:],
)
def test_arguments_of_the_wrong_form(argv, capsys):
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert len(line) < 300


@pytest.mark.slow
def test_as_a_program(tmp_path):
    """`python -m train.evaluate` returns the codes, and plays the same games in another process."""
    file = tmp_path / "result.json"

    def run(*argv):
        command = [
            sys.executable,
            "-m",
            "train.evaluate",
            *argv,
            "--board",
            "mini3",
            "--games",
            "9",
            "--out",
            str(file),
        ]
        return subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)

    assert run("random", "nobody").returncode == 2
    assert not file.exists()
    done = run("random", "uniform")
    assert done.returncode == 0, done.stderr
    agents = [make_agent("random"), make_agent("uniform")]
    result = evaluate(agents, ["random", "uniform"], GameConfig("mini3"), 9)
    assert strict_json(file) == json.loads(json.dumps(asdict(result)))
