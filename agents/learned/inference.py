"""The forward pass of the policy network as a kernel, for play and search: calling torch takes longer than the work.

Every row is worked out by itself and always in the same order. So its answer is the same to the last bit whatever the
other rows are, how many they are, and how many threads share them.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from agents.learned.network import BoardNetwork
from agents.search.product import product
from isis_env.config import BOARDS, NEIGHBOURS
from isis_env.kernels.jit import kernel
from isis_env.kernels.threads import run_shared, shared_kernel
from isis_env.observation import CELL_PLANES

MIN_ROWS = 2  # that are worth handing over to a second thread

_ZERO = np.float32(0.0)


class Weights(NamedTuple):
    """The weights of a `BoardNetwork` with C channels, R rounds and F features of the whole game.

    Matrices are float32[..., in, out], C-contiguous.

    Attributes:
        neighbours: int64[cells, 4], the neighbours of every cell; `cells` stands for none.
        cell_in: [CELL_PLANES, C].
        game_in: [F, C].
        bias_in: [C].
        mix: [R, 2 C, C], for a cell's own features and, below, for the sum of its neighbours'.
        mix_board: [R, C, C], for the board's mean.
        mix_bias: [R, C].
        placement_in: [C, C].
        placement_in_bias: [C].
        summary: [C + F, C].
        summary_bias: [C].
        placement, draw, value: [C + 1], the last layers, each with its bias at the end.
    """

    neighbours: np.ndarray
    cell_in: np.ndarray
    game_in: np.ndarray
    bias_in: np.ndarray
    mix: np.ndarray
    mix_board: np.ndarray
    mix_bias: np.ndarray
    placement_in: np.ndarray
    placement_in_bias: np.ndarray
    summary: np.ndarray
    summary_bias: np.ndarray
    placement: np.ndarray
    draw: np.ndarray
    value: np.ndarray


class Scratch(NamedTuple):
    """Where a row is worked out: float32, C-contiguous.

    Attributes:
        planes: [cells, CELL_PLANES], the observation's.
        features: [cells + 1, 2 C], every cell's own and the sum of its neighbours'; the last row is that of no cell and
            stays zero.
        products: [cells, C].
        whole: [1, C + F], the mean of the cells' own features, then those of the whole game.
        summary: [1, C].
    """

    planes: np.ndarray
    features: np.ndarray
    products: np.ndarray
    whole: np.ndarray
    summary: np.ndarray


def from_network(network: BoardNetwork) -> Weights:
    """A copy of the network's weights as they are now, on whatever device they are."""
    parameters = {name: parameter.numpy(force=True) for name, parameter in network.named_parameters()}

    def matrix(name: str) -> np.ndarray:
        return np.array(parameters[f"{name}.weight"].T, np.float32, order="C")

    def bias(name: str) -> np.ndarray:
        return np.array(parameters[f"{name}.bias"], np.float32)

    def head(name: str) -> np.ndarray:
        return np.append(matrix(name), bias(name))

    rounds, channels = len(network.rounds), len(parameters["cell_in.bias"])
    mix = np.empty((rounds, 2 * channels, channels), np.float32)
    mix_board = np.empty((rounds, channels, channels), np.float32)
    mix_bias = np.empty((rounds, channels), np.float32)
    for number in range(rounds):
        mix[number, :channels] = parameters[f"rounds.{number}.own.weight"].T
        mix[number, channels:] = parameters[f"rounds.{number}.neighbours.weight"].T
        mix_board[number] = parameters[f"rounds.{number}.board.weight"].T
        mix_bias[number] = parameters[f"rounds.{number}.own.bias"]
    return Weights(
        _neighbours(network.board),
        matrix("cell_in"),
        matrix("game_in"),
        bias("cell_in"),
        mix,
        mix_board,
        mix_bias,
        matrix("placement_in"),
        bias("placement_in"),
        matrix("summary"),
        bias("summary"),
        head("placement"),
        head("draw"),
        head("value"),
    )


@cache
def _neighbours(board: str) -> np.ndarray:
    side = BOARDS[board].side
    cells = side * side
    neighbours = NEIGHBOURS[side, :cells].astype(np.int64)
    return np.where(neighbours >= 0, neighbours, cells)


def infer(weights: Weights, observations: np.ndarray, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Observations float32[n, L] -> logits float32[n, A] of all actions, legal or not, and values float32[n].

    Raises:
        ValueError: the observations are not of the network's board.
    """
    cells = len(weights.neighbours)
    size = CELL_PLANES * cells + len(weights.game_in)
    observations = np.require(
        observations, np.float32, ["C", "ALIGNED", "WRITEABLE"]
    )  # what the kernel is compiled for
    if observations.ndim != 2 or observations.shape[1] != size:
        raise ValueError(f"observations of shape {observations.shape}: must be [n, {size}] for this network")
    n = len(observations)
    logits, values = np.empty((n, cells + 1), np.float32), np.empty(n, np.float32)
    run_shared(_answer_rows, n, threads, weights, observations, logits, values, min_rows=MIN_ROWS)
    return logits, values


@shared_kernel
def _answer_rows(first, last, weights, observations, logits, values):
    scratch = new_scratch(weights)
    for row in range(first, last):
        values[row] = answer(weights, observations[row], scratch, logits[row])


@kernel
def new_scratch(weights):
    """A `Scratch` for `answer`."""
    cells, channels = len(weights.neighbours), len(weights.bias_in)
    return Scratch(
        np.empty((cells, CELL_PLANES), np.float32),
        np.zeros((cells + 1, 2 * channels), np.float32),
        np.empty((cells, channels), np.float32),
        np.empty((1, len(weights.summary)), np.float32),
        np.empty((1, channels), np.float32),
    )


@kernel
def answer(weights, observation, scratch, logits):
    """Write the logits for one observation (float32[L]) to `logits` (float32[A]) and return its value."""
    cells, channels = len(weights.neighbours), len(weights.bias_in)
    planes, features, products, whole, summary = scratch
    game = observation[CELL_PLANES * cells :]
    for plane in range(CELL_PLANES):
        for cell in range(cells):
            planes[cell, plane] = observation[plane * cells + cell]
    whole[0, channels:] = game
    product(game.reshape((1, -1)), weights.game_in, weights.bias_in, summary)
    product(planes, weights.cell_in, summary[0], products)
    features[:, :channels] = _ZERO
    _add_rectified(products, features)
    _mean(features, whole[0, :channels])
    for number in range(len(weights.mix)):
        product(whole, weights.mix_board[number], weights.mix_bias[number], summary)
        _sum_neighbours(weights.neighbours, features)
        product(features[:cells], weights.mix[number], summary[0], products)
        _add_rectified(products, features)
        _mean(features, whole[0, :channels])
    product(features[:cells], weights.placement_in, weights.placement_in_bias, products)
    for cell in range(cells):
        logits[cell] = _last_layer(products[cell], weights.placement)
    product(whole, weights.summary, weights.summary_bias, summary)
    logits[cells] = _last_layer(summary[0], weights.draw)
    return _last_layer(summary[0], weights.value)


@kernel
def _rectified(x):
    return _ZERO if x < _ZERO else x  # so that nan stays nan


@kernel
def _add_rectified(products, features):
    """To every cell's own features."""
    for cell in range(len(products)):
        added, own = products[cell], features[cell]
        for c in range(len(added)):
            own[c] += _rectified(added[c])


@kernel
def _mean(features, mean):
    """Of the cells' own features."""
    cells = len(features) - 1
    mean[:] = _ZERO
    for cell in range(cells):
        own = features[cell]
        for c in range(len(mean)):
            mean[c] += own[c]
    for c in range(len(mean)):
        mean[c] *= np.float32(1 / cells)


@kernel
def _sum_neighbours(neighbours, features):
    """Write to the second half of every cell's features the sum of its neighbours' own."""
    channels = features.shape[1] // 2
    for cell in range(len(neighbours)):
        n0, n1 = features[neighbours[cell, 0]], features[neighbours[cell, 1]]
        n2, n3 = features[neighbours[cell, 2]], features[neighbours[cell, 3]]
        total = features[cell, channels:]
        for c in range(channels):
            total[c] = (n0[c] + n1[c]) + (n2[c] + n3[c])


@kernel
def _last_layer(inputs, weights):
    """The weighted sum of rectified inputs: float32[C], [C + 1] -> float32."""
    total = weights[len(inputs)]
    for c in range(len(inputs)):
        total += _rectified(inputs[c]) * weights[c]
    return total
