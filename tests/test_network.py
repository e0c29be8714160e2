"""The network, the SB3 policy around it, and the agent that plays it."""

import random

import numpy as np
import pytest
import torch
from conftest import ALL_FORMS, form_id, random_game, replay
from gymnasium import spaces

from agents.learned.agent import NetworkAgent
from agents.learned.network import ROWS_AT_A_TIME, BoardNetwork
from isis_env import symmetry
from isis_env.batch import Batch
from isis_env.config import BOARDS, GameConfig
from isis_env.observation import CELL_PLANES, observation_size, observations
from train.ppo.policy import BoardPolicy


def network(board="standard", seed=0, **size) -> BoardNetwork:
    """Untrained, but with last layers large enough that its answers differ from cell to cell."""
    torch.manual_seed(seed)
    net = BoardNetwork(board, **size)
    for head in (net.placement, net.draw, net.value):
        torch.nn.init.normal_(head.weight)
    return net.eval()


def some_observations(form, n=64):
    states = []
    rng = random.Random(3)
    while sum(map(len, states)) < n:
        game = list(random_game(form, rng))
        start = game[-1][0].history[0][0]
        states.append(replay(form, game[0][1], start, [action for _, _, action in game])[0][:-1])
    states = np.concatenate(states)[:n]
    return observations(states, states["seat"], "full")


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_the_network_commutes_with_the_eight_symmetries(form):
    net, before = network(form.board), some_observations(form)
    with torch.no_grad():
        logits, values = (out.numpy() for out in net(torch.from_numpy(before)))
        assert np.ptp(logits[:, :-1], axis=1).min() > 0.01, "cells must differ, or the test shows nothing"
        for k in range(symmetry.SYMMETRIES):
            after = symmetry.apply_to_observation(before, k, form.board)
            mapped_logits, mapped_values = (out.numpy() for out in net(torch.from_numpy(after)))
            assert np.abs(symmetry.apply_to_mask(logits, k, form.board) - mapped_logits).max() < 1e-5
            assert np.abs(values - mapped_values).max() < 1e-5


def by_definition(net: BoardNetwork, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the network is to answer, from its weights alone and in the plainest way."""
    side = BOARDS[net.board].side
    cells = [(row, column) for row in range(side) for column in range(side)]
    near = [[float(abs(r - i) + abs(c - j) == 1) for i, j in cells] for r, c in cells]
    adjacency = torch.tensor(near, dtype=observations.dtype)
    planes, game = observations.split([CELL_PLANES * net.cells, observations.shape[1] - CELL_PLANES * net.cells], 1)
    x = torch.relu(net.cell_in(planes.unflatten(1, (CELL_PLANES, -1)).mT) + net.game_in(game)[:, None])
    for mix in net.rounds:
        x = x + torch.relu(mix.own(x) + mix.neighbours(adjacency @ x) + mix.board(x.mean(1, keepdim=True)))
    summary = torch.relu(net.summary(torch.cat([x.mean(1), game], 1)))
    placement = net.placement(torch.relu(net.placement_in(x)))[..., 0]
    return torch.cat([placement, net.draw(summary)], 1), net.value(summary)[:, 0]


@pytest.mark.parametrize("board", list(BOARDS))
@pytest.mark.parametrize("n", [1, ROWS_AT_A_TIME + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_answers_and_gradients_are_those_of_the_definition(board, n, dtype):
    some = torch.from_numpy(some_observations(GameConfig(board), n))
    net, exact = network(board).to(dtype), network(board).double()
    answers, expected = net(some.to(dtype)), by_definition(exact, some.double())

    def compare(found, other):
        assert (found - other).abs().max() <= 1000 * torch.finfo(dtype).eps * other.abs().max()

    for answer, other in zip(answers, expected, strict=True):
        compare(answer, other)
        weight = torch.randn(other.shape, dtype=torch.float64)
        gradients = [
            torch.autograd.grad((y * weight).sum(), list(model.parameters()), retain_graph=True, allow_unused=True)
            for model, y in ((net, answer), (exact, other))
        ]
        for gradient, its_other in zip(*gradients, strict=True):
            assert (gradient is None) == (its_other is None)
            if gradient is not None:
                compare(gradient, its_other)


def test_no_rows_no_answers():
    logits, values = network()(torch.empty(0, observation_size("standard")))
    assert (logits.shape, values.shape) == ((0, 37), (0,))


def decisions(n=1000, seed=0, players=3):
    batch = Batch(GameConfig(players=players), n)
    turn = batch.reset(seed)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        turn = batch.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in turn.action_masks]))
    return batch.decisions()


@pytest.mark.parametrize("sample", [False, True])
def test_a_row_is_answered_the_same_alone_in_a_batch_and_shuffled(sample):
    many = decisions()
    agent = NetworkAgent(network(), sample=sample)
    together = agent.act(many)
    logits = agent._ask(many.observations)[0]
    for row in range(0, len(many), 61):
        assert (agent._ask(many.observations[row : row + 1])[0][0] == logits[row]).all(), "bit for bit"
        assert agent.act(many[row : row + 1]) == together[row]
    shuffled = np.random.default_rng(0).permutation(len(many))
    assert (agent.act(many[shuffled]) == together[shuffled]).all()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert (agent._ask(many.observations)[0] == logits).all(), "whatever the number of threads"
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("sample", [False, True])
def test_only_legal_actions_are_chosen_whatever_the_logits(sample):
    some = decisions(300)
    for scale in (0.0, 1.0, 1e30):
        net = network()
        with torch.no_grad():
            net.placement.weight.mul_(scale)
            net.draw.bias.fill_(3e38 if scale > 1 else 0.0)
        chosen = NetworkAgent(net, sample=sample).act(some)
        assert some.action_masks[np.arange(len(some)), chosen].all()


def test_sampling_follows_the_policy():
    one = decisions(1)[np.zeros(20000, int)]
    seeded = type(one)(**{**one.__dict__, "seeds": np.arange(20000, dtype=np.uint64)})
    agent = NetworkAgent(network(), sample=True)
    chosen = np.bincount(agent.act(seeded), minlength=37) / 20000
    logits = torch.from_numpy(agent._ask(one.observations[:1])[0][0])
    legal = torch.from_numpy(one.action_masks[0]).bool()
    expected = torch.softmax(torch.where(legal, logits, -torch.inf), 0).numpy()
    assert np.abs(chosen - expected).max() < 5 * np.sqrt(0.25 / 20000)


def policy() -> BoardPolicy:
    torch.manual_seed(0)
    box = spaces.Box(-1.0, 1.0, (255,), np.float32)
    return BoardPolicy(box, spaces.Discrete(37), lambda _: 1e-3)


@pytest.mark.slow
def test_stored_and_recomputed_log_probabilities_agree_under_the_mask():
    net, some = policy(), decisions(500)
    seen = torch.from_numpy(some.observations)
    actions, values, log_probs = net(seen, action_masks=some.action_masks)
    assert some.action_masks[np.arange(500), actions.numpy()].all()
    again, recomputed, entropy = net.evaluate_actions(seen, actions, torch.from_numpy(some.action_masks).float())
    assert torch.allclose(log_probs, recomputed, atol=1e-6)
    assert torch.allclose(values, again, atol=1e-6)
    reference = net.get_distribution(seen, some.action_masks)
    assert torch.allclose(reference.log_prob(actions), log_probs, atol=1e-5)
    assert torch.allclose(reference.entropy(), entropy, atol=1e-4)
    assert torch.allclose(net.predict_values(seen), values, atol=1e-6)


@pytest.mark.parametrize("extreme", [1e30, 3e38])
def test_extreme_logits_stay_finite_and_legal(extreme):
    net, some = policy(), decisions(200)
    with torch.no_grad():
        net.network.draw.bias.fill_(extreme)
        net.network.placement.bias.fill_(-extreme)
    seen, masks = torch.from_numpy(some.observations), torch.from_numpy(some.action_masks)
    actions, _, log_probs = net(seen, action_masks=some.action_masks)
    assert some.action_masks[np.arange(200), actions.numpy()].all()
    values, recomputed, entropy = net.evaluate_actions(seen, actions, masks)
    for numbers in (log_probs, recomputed, entropy, values):
        assert torch.isfinite(numbers).all()
    (recomputed.mean() + entropy.mean()).backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


@pytest.mark.slow
def test_samples_of_the_policy_follow_its_probabilities():
    some = decisions(100)
    may_draw = np.flatnonzero(some.action_masks[:, -1])[0]
    net, one = policy(), some[np.full(20000, may_draw)]
    with torch.no_grad():
        net.network.draw.bias.fill_(2.0)
    actions, _, log_probs = net(torch.from_numpy(one.observations), action_masks=one.action_masks)
    drawn = (actions == 36).float().mean()
    assert abs(drawn - log_probs[actions == 36][0].exp()) < 5 * (0.25 / 20000) ** 0.5


@pytest.mark.parametrize("sample", [False, True])
def test_the_order_of_undrawn_tiles_changes_no_choice(sample):
    """Two batches that differ only in the tiles not drawn yet, after some turns of draws and stones."""
    config = GameConfig(players=3)
    shown = [4, -3, 2]  # the first tile of every seat, drawn below; what lies behind them, and the box, differs
    rest = list(config.faces)
    for face in shown:
        rest.remove(face)
    choices = []
    for undrawn in (rest, rest[::-1]):
        reserves = [[shown[seat], *undrawn[6 * seat : 6 * seat + 6]] for seat in range(3)]
        deck = [face for reserve in reserves for face in reserve] + undrawn[18:]
        batch = Batch(config, 50)
        batch.reset(9, start_player=[0] * 50, deck=[deck] * 50)
        for action in (36, 0, 36, 1, 36, 2, 10, 11, 12):
            batch.step(np.full(50, action))
        pending = batch.decisions()
        choices.append((NetworkAgent(network(), sample=sample).act(pending), pending.observations))
    for first, second in zip(*choices, strict=True):
        np.testing.assert_array_equal(first, second)
