"""What search agents share: playouts, the evaluation, analyses that no batch changes, networks, and specs."""

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
from agents.learned.agent import NetworkAgent
from agents.learned.checkpoint import network_metadata, save_checkpoint
from agents.learned.network import BoardNetwork
from agents.search.evaluation import FORMS, estimate_margins, form_index, load_weights
from agents.search.exact import solve
from agents.search.playout import GREEDY, play_out
from agents.search.position import new_positions
from isis_env import game
from isis_env.baselines import greedy_mask
from isis_env.batch import Batch
from isis_env.config import GameConfig
from isis_env.game import NOTHING, STATE, TILE
from isis_env.policy import AgentSpecError, make_agent
from isis_env.secrecy import known_states
from isis_env.symmetry import SYMMETRIES, apply_to_state

pytestmark = pytest.mark.slow

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


# Playouts


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


# Networks


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


# Specs


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
