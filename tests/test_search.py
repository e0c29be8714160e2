"""Search agents: positions, playouts, the evaluation, analyses that no batch changes, trees, and specs."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ALL_FORMS, form_id, random_game, replay

from agents import __main__ as cli
from agents.checkpoint import network_metadata, save_checkpoint
from agents.evaluation import FORMS, estimate_margins, form_index, load_weights, win_returns
from agents.exact import solve
from agents.expectimax import Expectimax, judge
from agents.learned import NetworkAgent
from agents.mcts import Mcts, simulate
from agents.network import BoardNetwork
from agents.playout import GREEDY, play_out
from agents.position import POSITION, load_all, new_positions, place
from agents.tree import NOBODY, clear, new_tree
from isis_env import game
from isis_env.batch import Batch
from isis_env.config import MAX_CELLS, MAX_FACE, NEIGHBOURS, GameConfig
from isis_env.game import EMPTY, NOTHING, STATE, TILE
from isis_env.observation import known_states
from isis_env.policy import AgentSpecError, greedy_mask, make_agent, registered
from isis_env.reward import REWARDS, returns
from isis_env.symmetry import SYMMETRIES, apply_to_state

SPECS = [
    "expectimax:depth=1",
    "expectimax",
    "expectimax:depth=1,reward=margin",
    "flat_mc:simulations=80",
    "mcts:simulations=60",
    "mcts:simulations=60,reward=margin",
    "mcts:simulations=60,leaf=random",
    "mcts:simulations=60,leaf=evaluation",
    "exact:free=4",
]
every_form = pytest.mark.parametrize("config", ALL_FORMS, ids=form_id)
every_spec = pytest.mark.parametrize("spec", SPECS)


def states_of(config, seed, games=1) -> np.ndarray:
    """All unfinished states of random games."""
    rng = random.Random(seed)
    states = []
    for _ in range(games):
        steps = [(deck, twin.seat, action) for twin, deck, action in random_game(config, rng)]
        deck, start = steps[0][:2]
        states.append(replay(config, deck, start, [action for _, _, action in steps])[0][:-1])
    return np.concatenate(states)


def ends(config, free, count, seed=0) -> list[np.ndarray]:
    """`STATE[1]` each: decisions with so many free cells."""
    states = states_of(config, seed, games=count)
    found = states[config.cells - states["placed"] == free]
    return [found[index : index + 1] for index in range(0, len(found), max(1, len(found) // count))][:count]


def pending(state, agent):
    return cli.pending(state, agent, seed=5)


# Positions


@every_form
def test_a_position_keeps_the_board_around_every_free_cell(config):
    states = states_of(config, 1, games=3)
    played = np.zeros(1, POSITION)
    for state, following in zip(states, [*states[1:], None], strict=True):
        if state.placed == 0 and state.held == NOTHING:
            played[:] = new_positions(np.array([state], STATE))
        for name in STATE.names:
            assert np.array_equal(played[0][name], state[name]), name
        free = [cell for cell in range(config.cells) if state.board[cell] == EMPTY]
        assert sorted(played[0].free[: len(free)]) == free
        for cell in free:
            assert played[0].free[played[0].index[cell]] == cell
            around = [n for n in NEIGHBOURS[config.side, cell] if n >= 0]
            assert played[0].tiles_near[cell] == sum(state.face[n] for n in around if state.board[n] == TILE)
            for seat in range(config.players):
                stones = sum(state.board[n] == seat for n in around)
                assert played[0].stones_near[seat * MAX_CELLS + cell] == stones
        loaded = np.zeros(1, POSITION)
        load_all(np.array([state], STATE), loaded)
        assert np.array_equal(loaded[0].tiles_near[free], played[0].tiles_near[free])
        if following is None or following.placed < state.placed:
            continue
        if following.placed == state.placed:
            game.draw(played[0], following.held)
        else:
            place(played[0], following.order[state.placed])


@every_form
def test_greedy_playouts_play_what_greedy_allows(config):
    batch = Batch(config, 3)
    batch.reset(2)
    mask = np.empty(config.num_actions, np.int8)
    for state in batch.states:
        played = new_positions(np.array([state], STATE))
        play_out(played[0], GREEDY, np.uint64(7))
        assert game.is_over(played[0])
        replayed = np.array([state], STATE)[0]
        for cell, seat in zip(played[0].order[: config.cells], played[0].placer[: config.cells], strict=True):
            assert replayed.seat == seat
            greedy_mask(replayed, mask)
            if played[0].board[cell] == TILE:
                assert mask[config.draw_action]
                game.draw(replayed, played[0].face[cell])
                greedy_mask(replayed, mask)
            assert mask[cell]
            game.place(replayed, cell)
        assert game.scores(replayed) == game.scores(played[0])


# The evaluation


@every_form
def test_estimates_do_not_depend_on_how_the_board_lies(config):
    weights, _ = load_weights()
    states = states_of(config, 2)
    states = states[states["held"] == NOTHING]
    work, out, turned = np.empty(9), np.empty(config.players), np.empty(config.players)
    for state in states:
        here = new_positions(np.array([state], STATE))
        form = form_index(here[0])
        assert FORMS[form] == config
        estimate_margins(here[0], weights[form], work, out)
        if config.players == 2:
            assert out.sum() == pytest.approx(0)
        for symmetry in range(1, SYMMETRIES):
            there = new_positions(apply_to_state(np.array([state], STATE), symmetry))
            estimate_margins(there[0], weights[form], work, turned)
            assert turned == pytest.approx(out)


def test_win_returns_are_shares_of_a_win():
    for margins in ([3.0, -3.0], [0.0, 0.0, 0.0], [5.0, 1.0, -2.0, -4.0], [300.0, -300.0]):
        out = np.array(margins)
        win_returns(out, len(margins), 6.0)
        assert out.sum() == pytest.approx(0, abs=1e-12)
        assert (np.abs(out) <= 1).all()
        assert (np.diff(out) <= 0).all()
        assert (out[0] > 0) == (margins[0] > 0)


def test_the_estimate_is_better_than_the_score_so_far():
    """Of games that were not fitted to: the error of the estimate beside that of the margin as it stands."""
    weights, _ = load_weights()
    batch = Batch(GameConfig(), 200)
    batch.reset(10**12)
    greedy = make_agent("greedy")
    rows, estimates, margins, games = np.arange(200), [], [], []
    work, out = np.empty(9), np.empty(2)
    while len(rows):
        decisions = batch.decisions(rows)
        for row, state in zip(rows, decisions.states, strict=True):
            if state.held == NOTHING:
                estimate_margins(new_positions(np.array([state], STATE))[0], weights[0], work, out)
                estimates.append(out[0])
                margins.append(int(state.score[0]) - int(state.score[1]))
                games.append(row)
        rows = rows[~batch.step(greedy.act(decisions), rows).done]
    final = batch.final_states["score"].astype(float)
    final = (final[:, 0] - final[:, 1])[games]
    assert np.std(final - estimates) < 0.95 * np.std(final - margins)


# Analyses


@every_spec
def test_a_choice_depends_on_its_own_row_alone(spec):
    config = GameConfig()
    agent = make_agent(spec)
    batch = Batch(config, 64)
    batch.reset(4)
    at_random = make_agent("random")
    for step in range(40):
        if step % 13 == 0:
            decisions = batch.decisions()
            together, analysis = agent.act(decisions), agent.analyse(decisions)
            for row in (0, 31, 63):
                alone = make_agent(spec).analyse(decisions[row : row + 1])
                assert make_agent(spec).act(decisions[row : row + 1])[0] == together[row]
                assert np.array_equal(alone.probabilities[0], analysis.probabilities[row])
                assert np.array_equal(alone.action_values[0], analysis.action_values[row], equal_nan=True)
        batch.step(at_random.act(batch.decisions()))


CHOOSE = """
import numpy as np, sys
import agents
from isis_env.batch import Batch
from isis_env.config import GameConfig
from isis_env.policy import make_agent
batch = Batch(GameConfig(players=3, common_reserve=True), 4)
batch.reset(9)
for _ in range(30):
    batch.step(make_agent("random").act(batch.decisions()))
for spec in sys.argv[1:]:
    print(spec, make_agent(spec).act(batch.decisions()).tolist())
"""


def test_another_process_chooses_the_same():
    root = Path(__file__).parents[1]
    runs = [
        subprocess.run(
            [sys.executable, "-c", CHOOSE, *SPECS],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].splitlines()) == len(SPECS)


@every_form
@every_spec
def test_whole_games_are_legal_and_analyses_are_distributions(config, spec):
    agent = make_agent(spec)
    batch = Batch(config, 1)
    batch.reset(3)
    rows = np.arange(1)
    while len(rows):
        decisions = batch.decisions(rows)
        analysis = agent.analyse(decisions)
        assert analysis.probabilities.sum(axis=1) == pytest.approx(1)
        assert (analysis.probabilities >= 0).all()
        assert not analysis.probabilities[decisions.action_masks == 0].any()
        assert np.isnan(analysis.action_values[decisions.action_masks == 0]).all()
        if "margin" not in spec and "flat_mc" not in spec and "exact" not in spec:
            assert (np.abs(analysis.values) <= 1 + 1e-9).all()
        rows = rows[~batch.step(agent.act(decisions), rows).done]


@pytest.mark.parametrize("spec", ["random", "uniform", "greedy"])
def test_the_built_ins_tell_the_distribution_that_they_draw_from(spec):
    agent = make_agent(spec)
    state = ends(GameConfig(), 12, 1)[0]
    decisions = pending(state, agent)
    probabilities = agent.analyse(decisions).probabilities[0]
    many = cli.pending(state, agent, 0)[np.zeros(4000, int)]
    many.seeds[:] = np.random.default_rng(0).integers(0, 2**63, 4000)
    frequencies = np.bincount(agent.act(many), minlength=len(probabilities)) / 4000
    assert np.abs(frequencies - probabilities).max() < 0.04


@every_spec
def test_a_concealed_state_is_refused(spec):
    state = states_of(GameConfig(), 5)[20:21]
    agent = make_agent("exact:free=36" if spec.startswith("exact") else spec)
    decisions = pending(state, agent)
    decisions.states[:] = known_states(state, decisions.seats, 1)
    with pytest.raises(ValueError, match="concealed"):
        agent.act(decisions)


@pytest.mark.parametrize("config", [GameConfig(), GameConfig(players=3), GameConfig(players=4, common_reserve=True)])
@every_spec
def test_near_the_end_play_is_exact(config, spec):
    agent = make_agent(spec)
    for state in ends(config, 4, 3):
        seat = int(state[0].seat)
        solution = solve(state[0], "margin" if "margin" in spec or "flat_mc" in spec else "win")
        decisions = pending(state, agent)
        assert agent.act(decisions)[0] in solution.best_actions(seat)
        assert agent.analyse(decisions).values[0] == pytest.approx(solution.values[seat])


# Expectimax


def full_search(p, turns, kind, weights, spread):
    """Every seat's value of a position, by plain recursion; and that of each action."""
    out = np.zeros(p[0].players)
    if game.is_over(p[0]):
        returns(p[0], kind, out)
        return out, {}
    if turns == 0:
        judge(p[0], kind, weights, spread[int(p[0].side) ** 2 - p[0].placed], np.empty(9), out)
        return out, {}
    values = {}
    for action in game.legal_actions(p[0]):
        if action < p[0].side ** 2:
            child = p.copy()
            place(child[0], action)
            values[action] = full_search(child, turns - 1, kind, weights, spread)[0]
            continue
        values[action] = np.zeros(p[0].players)
        for slot in np.flatnonzero(p[0].unrevealed):
            child = p.copy()
            game.draw(child[0], slot - MAX_FACE)
            odds = p[0].unrevealed[slot] / p[0].unrevealed.sum()
            values[action] += odds * full_search(child, turns, kind, weights, spread)[0]
    best = max(values, key=lambda action: values[action][p[0].seat])
    return values[best], values


@pytest.mark.parametrize("config", [GameConfig(), GameConfig(common_reserve=True), GameConfig(players=3)], ids=form_id)
@pytest.mark.parametrize("reward", ["win", "margin"])
def test_pruning_changes_nothing(config, reward):
    agent = Expectimax(depth=2, reward=reward, exact=0)
    for state in ends(config, 5, 4, seed=3):
        form = form_index(state[0])
        search = full_search(new_positions(state), 2, REWARDS[reward], agent.weights[form], agent.spread[form])
        seat = int(state[0].seat)
        analysis = agent.analyse(pending(state, agent))
        assert analysis.values[0] == pytest.approx(search[0][seat])
        best = {a for a, value in search[1].items() if value[seat] > search[0][seat] - 1e-9}
        assert set(np.flatnonzero(analysis.probabilities[0])) == best


@pytest.mark.parametrize("reward", ["win", "margin"])
def test_to_the_end_expectimax_is_exact(reward):
    agent = Expectimax(depth=5, reward=reward, exact=0)
    for state in ends(GameConfig(), 5, 6, seed=4):
        exact = solve(state[0], reward).values[state[0].seat]
        assert agent.analyse(pending(state, agent)).values[0] == pytest.approx(exact)


# The tree


def test_mcts_comes_close_to_perfect_play():
    """Expected loss of its choices with four free cells, where it has to search on its own.

    Under flat priors: sharp ones keep it from ever looking at a sacrifice of some points.
    """
    agent = Mcts(simulations=3000, reward="margin", exact=0, temperature=2.0)
    losses = []
    for state in ends(GameConfig(), 4, 30, seed=5):
        own = solve(state[0], "margin").action_values[:, state[0].seat]
        losses.append(np.nanmax(own) - own[agent.act(pending(state, agent))[0]])
    assert np.mean(losses) < 0.05


def test_draws_are_tried_by_their_odds_and_visits_add_up():
    agent = Mcts(simulations=500)
    tree = new_tree(500)
    clear(tree)
    position = new_positions(game.new_state(GameConfig()))
    simulate(tree, position, np.uint64(1), 0, 500, *agent._settings()[1:])
    assert tree.visits[0] == 500
    for node in range(tree.used[0]):
        edges = slice(tree.first[node], tree.first[node] + tree.edges[node])
        assert tree.prior[edges].sum() == pytest.approx(1, abs=1e-5)
        if tree.seat[node] == NOBODY:
            visits = tree.visits[edges]
            assert (np.abs(visits - visits.sum() * tree.prior[edges]) <= 1.5).all()
    root = slice(tree.first[0], tree.first[0] + tree.edges[0])
    assert tree.visits[root].sum() == 499, "the first simulation judges the root itself"


def test_a_kept_tree_holds_what_came_true():
    """Reuse starts from the visits that the branch had; the choice stays legal to the end of the game."""
    agent = Mcts(simulations=200, reuse=True)
    batch = Batch(GameConfig(players=3, common_reserve=True), 2)
    batch.reset(6)
    rows, carried = np.arange(2), 0
    while len(rows):
        decisions = batch.decisions(rows)
        actions = agent.act(decisions)
        for game_row, seat in zip(decisions.games, decisions.seats, strict=True):
            if (int(game_row), int(seat)) in agent._kept:
                carried += int(agent._kept[int(game_row), int(seat)][0].visits[0]) > 200
        rows = rows[~batch.step(actions, rows).done]
    assert carried > 20


@pytest.mark.parametrize("config", [GameConfig(), GameConfig(players=4, common_reserve=True)], ids=form_id)
def test_a_network_guides_the_tree_and_neighbours_change_nothing(config, tmp_path):
    torch.manual_seed(0)
    network = BoardNetwork("standard", channels=8, rounds=1)
    save_checkpoint(tmp_path / "net", network, network_metadata(network, "standard", "full", 0))
    spec = f"mcts:simulations=40,exact=2,network={tmp_path / 'net'}"
    agent = make_agent(spec)
    batch = Batch(config, 20)
    batch.reset(8)
    for _ in range(25):
        batch.step(make_agent("random").act(batch.decisions()))
    decisions = batch.decisions()
    analysis = agent.analyse(decisions)
    assert np.array_equal(agent.analyse(decisions[3:4]).probabilities[0], analysis.probabilities[3])
    # One simulation judges the root alone: the network's value, and its policy over the legal actions.
    one = make_agent(spec.replace("simulations=40", "simulations=1")).analyse(decisions)
    policy = NetworkAgent(network).analyse(decisions)
    assert one.probabilities == pytest.approx(policy.probabilities, abs=1e-5)
    assert one.values == pytest.approx(policy.values, abs=1e-5)


def test_a_network_of_limited_recall_or_under_another_return_is_refused(tmp_path):
    network = BoardNetwork("standard", channels=8, rounds=1)
    save_checkpoint(tmp_path / "net", network, network_metadata(network, "standard", 1, 0))
    with pytest.raises(ValueError, match="recall 1"):
        make_agent(f"mcts:network={tmp_path / 'net'}")
    with pytest.raises(ValueError, match="must not come with"):
        make_agent(f"mcts:network={tmp_path / 'net'},reward=margin")


def test_seconds_end_a_search():
    agent = Mcts(simulations=10**6, seconds=0.05)
    probabilities = agent.analyse(pending(game.new_state(GameConfig()), agent)).probabilities
    assert probabilities.sum() == pytest.approx(1)


# Specs and the command line


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("mcts:simulations=0", "simulations=0"),
        ("mcts:leaf=network", "leaf='network'"),
        ("mcts:c=-1", "c=-1"),
        ("mcts:network=nowhere", "nowhere"),
        ("mcts:reward=score", "reward='score'"),
        ("flat_mc:candidates=0", "candidates=0"),
        ("expectimax:depth=0", "depth=0"),
        ("expectimax:exact=-1", "exact=-1"),
        ("exact:before=nobody", "nobody"),
        ("exact:max_nodes=0", "max_nodes=0"),
    ],
)
def test_bad_arguments_are_named(spec, named):
    with pytest.raises((ValueError, AgentSpecError), match=named):
        make_agent(spec)


def test_the_command_line_lists_every_agent(capsys):
    assert cli.main([]) == 0
    printed = capsys.readouterr().out
    for name in registered():
        assert f"\n{name}" in f"\n{printed}"
    assert "mcts:simulations=1000" in printed


def test_the_command_line_explains_a_choice(tmp_path, capsys):
    file = tmp_path / "position.txt"
    file.write_text("[isis-osiris 1] board=standard players=2 variant=personal start=1\na4 f3 a2 b1-2 ?+3")
    assert cli.main(["expectimax:depth=1", "--position", str(file)]) == 0
    assert "seat 1 plays a3" in capsys.readouterr().out, "between its own stones"
    for argv in (["mcts"], ["nobody", "--position", str(file)], ["mcts", "--position", str(tmp_path / "none")]):
        assert cli.main(argv) == 2
        assert capsys.readouterr().err.startswith("error: ")
