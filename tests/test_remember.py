"""Perfect memory from what lies open is as good as full recall."""

import numpy as np
import pytest
from conftest import ALL_FORMS, form_id

import agents  # noqa: F401  (registers the agents)
from isis_env import GameConfig
from isis_env.batch import Batch
from isis_env.game import UNKNOWN
from isis_env.policy import make_agent

pytestmark = pytest.mark.slow

HISTORY = ("order", "placer")
GAMES = 12
STEPS = 150  # more than two games


class Spy:
    """Plays as `random`, and keeps what it was given."""

    recall = "full"
    latest = None

    def __init__(self):
        self._random = make_agent("random")

    def act(self, decisions):
        Spy.latest = decisions
        return self._random.act(decisions)


@pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
def test_the_agent_is_told_what_full_recall_tells_but_for_the_history(config):
    batch = Batch(config, GAMES)
    batch.reset(0)
    agent = make_agent("remember:python:test_remember:Spy")
    for _ in range(STEPS):
        shown = batch.decisions(recall=agent.recall)
        before = shown.states.copy()
        actions = agent.act(shown)
        assert np.array_equal(shown.states, before), "decisions belong to whoever asks"
        full = batch.decisions(recall="full")
        told = Spy.latest
        for name in told.states.dtype.names:
            if name in HISTORY:
                assert (
                    told.states[name][:, : config.cells][full.states[name][:, : config.cells] >= 0] == UNKNOWN
                ).all()
            else:
                assert np.array_equal(told.states[name], full.states[name]), name
        assert told.observations.tobytes() == full.observations.tobytes()
        batch.step(actions)
    assert (batch.episodes > 1).all()


@pytest.mark.parametrize("spec", ["greedy", '"mcts:simulations=20"', '"exact:free=4"'])
def test_it_plays_and_judges_as_the_agent_does(spec):
    config = GameConfig(players=3)
    agent, remembering = make_agent(spec.strip('"')), make_agent(f"remember:{spec}")
    batch = Batch(config, GAMES)
    batch.reset(0)
    for _ in range(70):
        shown, full = batch.decisions(recall=1), batch.decisions(recall="full")
        assert np.array_equal(remembering.analyse(shown).probabilities, agent.analyse(full).probabilities)
        actions = agent.act(full)
        assert np.array_equal(remembering.act(shown), actions)
        batch.step(actions)


def test_a_search_that_keeps_its_tree_does_without_the_order_of_placements():
    agent = make_agent('remember:"mcts:simulations=20,reuse=true"')
    batch = Batch(GameConfig(players=4), GAMES)
    batch.reset(0)
    for _ in range(40):
        batch.step(agent.act(batch.decisions(recall=1)))


def test_rows_may_come_in_any_order_and_number():
    agent, greedy = make_agent("remember:greedy"), make_agent("greedy")
    batch = Batch(GameConfig(), GAMES)
    batch.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        rows = rng.permutation(GAMES)[: rng.integers(1, GAMES)]
        actions = agent.act(batch.decisions(rows, recall=1))
        assert np.array_equal(actions, greedy.act(batch.decisions(rows, recall="full")))
        batch.step(actions, rows)


def test_one_that_was_not_there_from_the_beginning_says_so():
    batch = Batch(GameConfig(), 3)
    batch.reset(0)
    draw = np.full(3, batch.num_actions - 1)
    for cell in range(4):
        batch.step(draw)
        batch.step(np.full(3, cell))
    with pytest.raises(ValueError, match=r"game 0: seat \d has not seen all faces; the agent must be asked at every"):
        make_agent("remember:greedy").act(batch.decisions(recall=1))


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("remember", "needs agent"),
        ("remember:no_such_agent", "'no_such_agent' must be one of"),
        ("remember:remember:greedy", "agent='remember:greedy': takes recall 1, must take 'full'"),
    ],
)
def test_what_it_wraps_must_take_full_recall(spec, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_agent(spec)
