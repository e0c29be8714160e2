"""The network as a kernel: the same function as in torch, every row by itself."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import ALL_FORMS, form_id
from test_network import decisions, network, some_observations

from agents.learned.agent import NetworkAgent
from agents.learned.checkpoint import CheckpointError
from agents.learned.inference import MIN_ROWS, from_network, infer
from agents.learned.network import BoardNetwork
from agents.search.product import COLUMNS, ROWS, product

pytestmark = pytest.mark.slow


def by_torch(net: BoardNetwork, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with torch.inference_mode():
        logits, values = net(torch.from_numpy(seen))
    return logits.numpy(), values.numpy()


@pytest.mark.parametrize("columns", [1, COLUMNS - 1, COLUMNS, 3 * COLUMNS + 5])
@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS, 2 * ROWS + 1])
def test_products_of_all_shapes(rows, columns):
    """Whole tiles, what is left over below and beside them, and inputs wider than needed."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((rows, 9)).astype(np.float32)
    bias = rng.standard_normal(columns).astype(np.float32)
    for depth in (0, 1, 9):
        weights = rng.standard_normal((depth, columns)).astype(np.float32)
        out = np.full((rows, columns), np.nan, np.float32)
        product(inputs, weights, bias, out)
        assert out == pytest.approx(inputs[:, :depth] @ weights + bias, abs=1e-5)


@pytest.mark.parametrize(("channels", "rounds"), [(8, 0), (8, 1), (48, 2), (21, 3)])
@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_it_answers_as_torch_does(form, channels, rounds):
    net, seen = network(form.board, channels=channels, rounds=rounds), some_observations(form, 100)
    logits, values = infer(from_network(net), seen)
    expected_logits, expected_values = by_torch(net, seen)
    assert np.abs(logits - expected_logits).max() < 1e-5
    assert np.abs(values - expected_values).max() < 1e-5


def test_a_row_is_answered_the_same_to_the_bit_alone_among_others_and_on_threads():
    weights = from_network(network())
    seen = decisions(200 * MIN_ROWS).observations
    logits, values = infer(weights, seen)
    for threads in (2, 3, 8):
        for found, expected in zip(infer(weights, seen, threads), (logits, values), strict=True):
            assert found.tobytes() == expected.tobytes()
    for rows in ([0], [5, 3], range(7, 100), np.random.default_rng(0).permutation(len(seen))):
        found_logits, found_values = infer(weights, seen[list(rows)], threads=2)
        assert found_logits.tobytes() == logits[list(rows)].tobytes()
        assert found_values.tobytes() == values[list(rows)].tobytes()
    assert [len(part) for part in infer(weights, seen[:0])] == [0, 0]


def test_observations_may_lie_in_memory_in_any_way():
    weights, seen = from_network(network()), decisions(10).observations
    expected = infer(weights, seen)[0]
    locked = seen.copy()
    locked.flags.writeable = False
    for same in (locked, np.asfortranarray(seen), seen.astype(float), np.repeat(seen, 2, axis=0)[::2]):
        assert np.array_equal(infer(weights, same)[0], expected)


def test_observations_of_another_board_are_refused():
    with pytest.raises(ValueError, match=r"\[n, 255\]"):
        infer(from_network(network()), np.zeros((2, 93), np.float32))


@pytest.mark.parametrize("extreme", [np.nan, np.inf, 3e38])
def test_an_answer_is_finite_and_its_action_legal_or_it_is_an_error(extreme):
    """And what is not a number does not pass for one."""
    some = decisions(100)
    for name in ("cell_in.weight", "rounds.0.own.bias", "placement_in.weight", "summary.weight", "placement.bias"):
        net = network()
        with torch.no_grad():
            net.get_parameter(name).fill_(extreme)
        logits, values = infer(from_network(net), some.observations)
        expected_logits, expected_values = by_torch(net, some.observations)
        if np.isnan(extreme):
            assert np.array_equal(np.isnan(logits), np.isnan(expected_logits))
            assert np.array_equal(np.isnan(values), np.isnan(expected_values))
        finite = np.isfinite(logits).all() and np.isfinite(values).all()
        for sample in (False, True):
            agent = NetworkAgent(net, sample=sample)
            if finite:
                assert some.action_masks[np.arange(len(some)), agent.act(some)].all()
            else:
                with pytest.raises(CheckpointError, match="must be finite"):
                    agent.act(some)


def test_a_network_under_training_is_read_anew_at_every_decision():
    """However it was changed: fused optimisers and `.data` do not tell torch, and parameters can be replaced."""
    net, some = network(), decisions(100)
    agent = NetworkAgent(net)

    def by_optimiser():
        optimiser = torch.optim.Adam(net.parameters(), lr=0.01, fused=True)
        for parameter in net.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimiser.step()

    def in_place():
        net.rounds[1].neighbours.weight.data.mul_(2)

    def as_a_whole():
        net.load_state_dict(network(seed=1).state_dict())

    def by_another():
        net.placement = copy.deepcopy(network(seed=2).placement)

    for change in (by_optimiser, in_place, as_a_whole, by_another):
        before = agent.analyse(some).probabilities
        change()
        after = agent.analyse(some).probabilities
        assert np.abs(after - before).max() > 1e-3
        fresh = NetworkAgent(net, batch_invariant=False).analyse(some).probabilities
        assert np.abs(after - fresh).max() < 1e-4


def test_exported_weights_are_a_copy():
    net, seen = network(), decisions(10).observations
    weights = from_network(net)
    before = infer(weights, seen)[0]
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    assert np.array_equal(infer(weights, seen)[0], before)


ASK = """
import numpy as np, torch
from agents.learned.inference import from_network, infer
from agents.learned.network import BoardNetwork
torch.manual_seed(0)
net = BoardNetwork("mini3", channels=17, rounds=1)
seen = np.random.default_rng(0).random((3, 93), np.float32)
print([part.tobytes().hex() for part in infer(from_network(net), seen)])
"""


def test_without_the_compiler_the_answers_are_the_same():
    answers = {
        subprocess.run(
            [sys.executable, "-c", ASK],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for disabled in ("0", "1")
    }
    assert len(answers) == 1, "to the last bit: sums are added up in the same order"
