"""Deals by a secret: an agent that inverts the public function of seeds, and results that can be played again."""

import json
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from isis_env import GameConfig, deal, game
from isis_env.baselines import Uniform
from isis_env.policy import make_agent
from train import evaluate as evaluation
from train.config import EVALUATION_SEED
from train.evaluate import evaluate
from train.secret import resolve_secret, secret_deals
from train.tournament.__main__ import main as tournament_main
from train.tournament.run import tournament

pytestmark = pytest.mark.slow

MINI = GameConfig("mini3")
CANDIDATES = 60
ATTACKER = "python:test_secret_deals:SeedInverter"


class SeedInverter(Uniform):
    """Tries the public seeds of evaluations until one explains the seed that it is handed, and foretells its draws.

    Attributes:
        hits, misses: draws foretold right and wrong.
    """

    hits = misses = 0

    def __init__(self):
        self.decks = {}  # game -> the deck that its seed would give
        self.expected = {}  # game and seat -> the face that was foretold

    def act(self, decisions):
        actions = super().act(decisions)
        for row, state in enumerate(decisions.states):
            key = int(decisions.games[row]), int(decisions.seats[row])
            if decisions.first[row]:
                self.decks[key] = self.invert(int(decisions.seeds[row]), key[1], state)
                self.expected.pop(key, None)
            held = int(state["held"])
            if key in self.expected and held != game.NOTHING:
                right = held == self.expected.pop(key)
                SeedInverter.hits += right
                SeedInverter.misses += not right
            if actions[row] == MINI.draw_action:
                drawn = MINI.pile_size - int(state["pile"][key[1]])
                self.expected[key] = int(self.decks[key][key[1] * MINI.pile_size + drawn])
        return actions

    def invert(self, handed, seat, state):
        number = game.decisions_taken(state)
        for seed in (*range(EVALUATION_SEED, EVALUATION_SEED + CANDIDATES), 0):  # a tournament tries agents with 0
            if int(deal.decision_seed(np.uint64(seed), np.uint64(0), seat, number)) == handed:
                return deal.Deal(seed).lay_out(MINI)[0]
        raise AssertionError("the seeds that agents are handed must follow from the public seed")


@pytest.fixture(autouse=True)
def _nothing_foretold():
    SeedInverter.hits = SeedInverter.misses = 0


def play(secret, agents=None, games=2 * CANDIDATES, **options):
    agents = agents or [SeedInverter(), make_agent("random")]
    return evaluate(agents, ["one", "two"], MINI, games, EVALUATION_SEED, secret=secret, **options)


def test_an_agent_that_inverts_seeds_knows_all_draws_without_a_secret_and_none_with_one():
    play(None)
    assert SeedInverter.hits > 50
    assert SeedInverter.misses == 0
    SeedInverter.hits = 0
    play("x1")
    total = SeedInverter.hits + SeedInverter.misses
    assert total > 50
    faces = Counter(MINI.faces)
    by_chance = max(faces.values()) / len(MINI.faces)
    assert SeedInverter.hits / total < by_chance + 0.2


def test_an_attack_in_a_tournament_fails_likewise(tmp_path):
    options = {"jobs": 1, "chunk": 2 * CANDIDATES}
    tournament([ATTACKER, "random"], MINI, 2 * CANDIDATES, EVALUATION_SEED, tmp_path / "open", **options)
    assert SeedInverter.hits > 50
    assert SeedInverter.misses == 0
    tournament([ATTACKER, "random"], MINI, 2 * CANDIDATES, EVALUATION_SEED, tmp_path / "kept", secret="x1", **options)
    assert SeedInverter.misses > 20


def test_results_are_those_of_seed_and_secret_alone(monkeypatch):
    agents = [make_agent("greedy"), make_agent("random")]
    one = play("x1", agents)
    assert play("x1", agents) == one
    assert one.secret == "x1"
    assert play("x2", agents).agents != one.agents
    assert play(None, agents).agents != one.agents
    monkeypatch.setattr(evaluation, "GAMES_AT_A_TIME", 6)
    assert play("x1", agents) == one


def test_deals_of_a_secret_are_fair_and_whole():
    config = GameConfig(players=3)
    decks, starts = secret_deals("x1", np.arange(600, dtype=np.uint64), config)
    assert (np.sort(decks, axis=1) == np.sort(config.faces)).all()
    assert len({tuple(deck) for deck in decks.tolist()}) == 600
    assert np.bincount(starts, minlength=3).min() > 150
    # Every place of the deck holds every tile equally often: its mean face is that of all tiles, +- 4 standard errors.
    errors = (decks.mean(axis=0) - np.mean(config.faces)) / (np.std(config.faces) / np.sqrt(600))
    assert np.abs(errors).max() < 4


def test_a_block_is_one_deal_under_a_secret_too():
    """Equal agents play the same game in all rotations of a block then."""
    result = play("x1", [make_agent("uniform") for _ in range(2)], games=40)
    assert [agent.score_rate for agent in result.agents] == [0.5, 0.5]
    assert result.agents[0].interval == (0.5, 0.5)


@pytest.mark.parametrize("text", ["", "a\nb", "x" * 1001, "\udcff"])
def test_texts_that_are_no_secret(text):
    with pytest.raises(ValueError, match="secret="):
        resolve_secret(text)


# Command line


def test_a_random_secret_is_written_down_and_plays_the_same_games_again(tmp_path, capsys):
    argv = ["greedy", "random", "--board", "mini3", "--games", "40"]
    for name, secret in (("first", "random"), ("second", "random")):
        assert evaluation.main([*argv, "--secret", secret, "--out", str(tmp_path / name)]) == 0
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("first", "second"))
    assert len(first["secret"]) == 32
    assert first["secret"] != second["secret"]
    assert evaluation.main([*argv, "--secret", first["secret"], "--out", str(tmp_path / "again")]) == 0
    assert json.loads((tmp_path / "again").read_text()) == first
    assert evaluation.main([*argv, "--secret", "", "--out", str(tmp_path / "no")]) == 2
    assert "secret=''" in capsys.readouterr().err


def test_a_tournament_goes_on_with_the_secret_that_it_was_begun_with(tmp_path, capsys):
    argv = ["greedy", "random", "--board", "mini3", "--games", "8", "--jobs", "1", "--out", str(tmp_path)]
    assert tournament_main([*argv, "--secret", "random"]) == 0
    settings = json.loads((tmp_path / "tournament.json").read_text())
    assert json.loads((tmp_path / "table.json").read_text())["secret"] == settings["secret"]
    assert f"--secret {settings['secret']}" in (tmp_path / "table.md").read_text()
    for same in ("random", settings["secret"]):
        assert tournament_main([*argv, "--secret", same]) == 0
        assert json.loads((tmp_path / "tournament.json").read_text()) == settings
    capsys.readouterr()
    for other in (["--secret", "another"], []):
        assert tournament_main([*argv, *other]) == 2
        assert "--secret" in capsys.readouterr().err
