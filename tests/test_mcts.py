"""The tree of Monte-Carlo tree search: how visits are spread, how good its choice is, when it stops, what it keeps."""

import random
import time

import numpy as np
import pytest
from conftest import ALL_FORMS, form_id
from test_exact import end_of_game, played

from agents.__main__ import pending
from agents.search.exact import solve
from agents.search.mcts import Mcts
from agents.search.playout import RANDOM, play_out, random_face
from agents.search.position import POSITION, new_positions, place
from agents.search.tree import (
    MAX_PATH,
    NO_NODE,
    NOBODY,
    arriving_edge,
    back_up,
    clear,
    descend,
    kept_part,
    new_tree,
    report,
)
from isis_env import GameConfig, game
from isis_env.deal import random_bits
from isis_env.game import EMPTY, NOTHING, STATE, TILE
from isis_env.reward import WIN, returns

pytestmark = pytest.mark.slow

C, TEMPERATURE = 1.5, 2.0


def grown(position, simulations, seed=1):
    """A tree of the position (`POSITION[1]`), its leaves judged by random playouts."""
    tree = new_tree(simulations)
    clear(tree)
    path, value = np.empty((MAX_PATH, 2), np.int64), np.zeros(4)
    for number in range(simulations):
        p = position.copy()
        length = descend(tree, p[0], C, TEMPERATURE, path)
        play_out(p[0], RANDOM, np.uint64(random_bits(np.uint64(seed), number)))
        returns(p[0], WIN, value)
        back_up(tree, path, length, value)
    return tree


def edges_of(tree, node):
    return range(tree.first[node], tree.first[node] + tree.edges[node])


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_every_visit_is_passed_on_and_faces_get_theirs_by_the_odds(form):
    """A decision passes on all visits but its first, a draw all of them; totals add up likewise in no one's favour."""
    tree = grown(new_positions(game.new_state(form, start=1)), 600)
    assert tree.visits[0] == 600
    assert sum(tree.visits[edge] for edge in edges_of(tree, 0)) == 599
    draws = 0
    for edge in range(tree.used[1]):
        node = tree.child[edge]
        assert tree.total[edge].sum() == pytest.approx(0, abs=1e-6)
        if node == NO_NODE:
            continue
        edges = list(edges_of(tree, node))
        passed_on = sum(tree.visits[below] for below in edges)
        assert sum(tree.prior[below] for below in edges) == pytest.approx(1, abs=1e-5)
        assert passed_on == tree.visits[edge] - (tree.seat[node] != NOBODY)
        if tree.seat[node] == NOBODY:
            draws += 1
            for below in edges:
                assert abs(tree.visits[below] - passed_on * tree.prior[below]) <= 1 + 1e-4
    assert draws > 5


@pytest.mark.parametrize("leaf", ["greedy", "random", "evaluation"])
@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_it_finds_an_optimal_action_in_nearly_all_ends_of_games(form, leaf):
    """Three and four free cells, without the exact solver.

    With more than two players a choice may hang on which of its equal actions another seat takes; hence two bounds.
    """
    agent = Mcts(simulations=4000, leaf=leaf, temperature=TEMPERATURE, exact=0)
    losses = []
    for seed in range(12):
        free = 3 + seed % 2
        states = np.array([state for twin, state in played(form, seed, free) if len(twin.free_cells()) == free], STATE)
        for row in range(len(states)):
            own = solve(states[row]).action_values[:, states[row].seat]
            (action,) = agent.act(pending(states[row : row + 1], agent, seed))
            losses.append(np.nanmax(own) - own[action])
    assert len(losses) >= 12
    assert np.mean(np.array(losses) > 0.05) <= 0.1
    assert np.mean(losses) < (0.01 if form.players == 2 else 0.04)


def test_probabilities_are_shares_of_the_visits():
    agent = Mcts(simulations=101)
    analysis = agent.analyse(pending(game.new_state(GameConfig(players=3)), agent, 0))
    visits = analysis.probabilities[0] * 100
    assert visits == pytest.approx(np.rint(visits), abs=1e-9)
    assert np.array_equal(visits > 0, ~np.isnan(analysis.action_values[0]))


def test_a_single_simulation_leaves_the_priors():
    """The stone beside a tile of +3 gains most at once."""
    states = game.new_state(GameConfig())
    game.draw(states[0], 3)
    game.place(states[0], 14)
    agent = Mcts(simulations=1)
    probabilities = agent.analyse(pending(states, agent, 0)).probabilities[0]
    assert probabilities.sum() == pytest.approx(1)
    assert set(np.argsort(-probabilities)[:4]) == {8, 13, 15, 20}
    assert probabilities[[8, 13, 15, 20]] == pytest.approx([probabilities[8]] * 4)
    even = Mcts(simulations=1, temperature=0).analyse(pending(states, agent, 0)).probabilities[0]
    assert even[even > 0] == pytest.approx([1 / 36] * 36)  # 35 cells and draw


def test_seconds_stop_a_search_and_change_nothing_where_there_is_time():
    states = game.new_state(GameConfig(players=4))
    decisions = pending(states, Mcts(), 3)
    agent = Mcts(simulations=400_000, seconds=0.05)
    agent.analyse(decisions)  # compiled by now
    begin = time.perf_counter()
    hasty = agent.analyse(decisions)
    assert time.perf_counter() - begin < 1
    assert hasty.probabilities.sum() == pytest.approx(1)
    at_once = Mcts(simulations=400, seconds=1e-9).analyse(decisions)
    assert at_once.probabilities.sum() == pytest.approx(1)
    free, bound = (Mcts(simulations=300, seconds=seconds).analyse(decisions) for seconds in (0.0, 1000.0))
    for name in ("values", "action_values", "probabilities"):
        assert np.array_equal(getattr(free, name), getattr(bound, name), equal_nan=True), name


@pytest.mark.parametrize("form", [GameConfig(), GameConfig(players=3, common_reserve=True)], ids=form_id)
def test_what_is_kept_of_a_tree_is_the_branch_that_came_true(form):
    rng, kept = random.Random(1), 0
    for seed in range(8):
        position = new_positions(np.array([end_of_game(form, seed, 7)], STATE))
        tree = grown(position, 800, seed)
        later, edge = position.copy(), 0
        for _ in range(rng.randint(1, 4)):  # go down by the most visited of each
            node = tree.child[edge]
            if node == NO_NODE:
                break
            edge = max(edges_of(tree, node), key=lambda e: tree.visits[e])
            action = tree.action[edge]
            if tree.seat[node] == NOBODY:
                game.draw(later[0], action)
            elif action != game.cells_of(later[0]):
                place(later[0], action)
        if tree.child[edge] == NO_NODE or tree.seat[tree.child[edge]] == NOBODY:
            continue  # it ended at a draw whose face is open
        kept += 1
        assert arriving_edge(tree, position, later) == edge
        part = kept_part(tree, position, later, 100)
        assert part.visits[0] == tree.visits[edge]
        assert part.seat[0] == later[0].seat
        pairs = [(tree.child[edge], 0)]
        for old, new in pairs:
            for before, after in zip(edges_of(tree, old), edges_of(part, new), strict=True):
                for name in ("action", "prior", "visits"):
                    assert getattr(tree, name)[before] == getattr(part, name)[after]
                assert tree.total[before].tolist() == part.total[after].tolist()
                assert (tree.child[before] == NO_NODE) == (part.child[after] == NO_NODE)
                if tree.child[before] != NO_NODE:
                    pairs.append((tree.child[before], part.child[after]))
        assert len(pairs) == part.used[0]
        values, action_values, probabilities = np.empty(1), np.empty((1, 37)), np.zeros((1, 37))
        report(part, values, action_values, probabilities)
        assert probabilities.sum() == pytest.approx(1)
    assert kept >= 4


def test_a_tree_is_not_kept_for_what_it_never_looked_at():
    position = new_positions(game.new_state(GameConfig()))
    tree = grown(position, 1)
    later = position.copy()
    place(later[0], 0)
    assert arriving_edge(tree, position, later) == -1
    assert kept_part(tree, position, later, 100) is None


# Random playouts


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_random_playouts_are_legal_and_reach_every_cell(form):
    start = new_positions(game.new_state(form))
    first = np.zeros(form.cells, int)
    for key in range(300):
        p = start.copy()
        play_out(p[0], RANDOM, np.uint64(random_bits(np.uint64(5), key)))
        assert (p[0].board[: form.cells] != EMPTY).all()
        first[p[0].order[0]] += 1
        state = game.new_state(form)[0]
        for cell in p[0].order[: form.cells]:
            if p[0].board[cell] == TILE:
                face = p[0].face[cell]
                assert game.can_draw(state)
                assert state.unrevealed[face + 4] > 0
                game.draw(state, face)
            assert game.legal(state, cell)
            game.place(state, cell)
        assert state.held == NOTHING
        assert game.scores(state) == game.scores(p[0])
    assert (first > 0).all()


def test_faces_are_drawn_by_their_odds():
    p = np.zeros(1, POSITION)
    p[:] = new_positions(game.new_state(GameConfig()))
    game.draw(p[0], 4)
    place(p[0], 0)
    faces = [random_face(p[0], np.uint64(random_bits(np.uint64(2), key)), 1) for key in range(20_000)]
    for slot, left in enumerate(p[0].unrevealed.tolist()):
        odds = left / 21
        assert abs(np.mean(np.array(faces) == slot - 4) - odds) <= 5 * np.sqrt(odds * (1 - odds) / len(faces))
