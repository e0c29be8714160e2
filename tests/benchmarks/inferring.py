"""One forward pass of the policy network: our kernel beside torch, and `mcts` guided by it.

Both answer the same positions, from the observations to logits and values, on one core: torch all rows of a call at
once, the kernel row by row. Both have their weights at hand.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from agents.learned.checkpoint import network_metadata, save_checkpoint
from agents.learned.inference import from_network, infer
from agents.learned.network import BoardNetwork
from agents.search.mcts import Mcts
from isis_env.batch import Batch, Decisions
from isis_env.config import GameConfig
from isis_env.policy import make_agent
from tests.benchmarks.rates import Comparison, by_turns, one_core
from tests.benchmarks.searching import simulations_per_second

ROWS = (1, 16, 128, 1024)
POSITIONS = 2048  # per measurement
SIMULATIONS = 1000
DECISIONS = 10  # of the search per measurement
GUIDED = f"mcts:network=..., {SIMULATIONS:,} simulations"


def middle_of_games(n: int) -> Decisions:
    """Decisions after 20 random ones, in n games."""
    batch = Batch(GameConfig(), n, threads=1)
    batch.reset(0)
    chooser = make_agent("random")
    for _ in range(20):
        batch.step(chooser.act(batch.decisions()))
    return batch.decisions()


def positions_per_second(ask: Callable[[np.ndarray], object], observations: np.ndarray) -> float:
    """How many rows are answered when these are asked together, again and again."""
    calls = POSITIONS // len(observations)
    begin = time.perf_counter()
    for _ in range(calls):
        ask(observations)
    return calls * len(observations) / (time.perf_counter() - begin)


def guided_search(network: BoardNetwork) -> Mcts:
    """`mcts` with the network, by way of a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network"
        save_checkpoint(path, network, network_metadata(network, network.board, "full", 0))
        return Mcts(simulations=SIMULATIONS, network=str(path))


def compare() -> Comparison:
    """Measure calls of several sizes, and the search."""
    torch.manual_seed(0)
    network = BoardNetwork().eval()
    weights = from_network(network)
    decisions = middle_of_games(max(ROWS))
    agent = guided_search(network)

    @torch.inference_mode()
    def by_torch(observations: np.ndarray) -> list[np.ndarray]:
        return [part.numpy() for part in network(torch.from_numpy(observations))]

    def by_kernel(observations: np.ndarray) -> object:
        return infer(weights, observations)

    workloads: dict[str, Callable[[], float]] = {}
    for n in ROWS:
        rows = decisions.observations[:n]
        workloads[f"torch {n}"] = lambda rows=rows: positions_per_second(by_torch, rows)
        workloads[f"kernel {n}"] = lambda rows=rows: positions_per_second(by_kernel, rows)
    workloads[GUIDED] = lambda: simulations_per_second(agent, decisions[:DECISIONS])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_core():
            rates = by_turns(workloads)
    finally:
        torch.set_num_threads(threads)
    names = [f"{n:,} position{'s' if n > 1 else ''} at a time" for n in ROWS]
    rows = [_row(name, rates[f"torch {n}"], rates[f"kernel {n}"]) for name, n in zip(names, ROWS, strict=True)]
    rows.append(_row(GUIDED, None, rates[GUIDED]))
    title = "Policy network, 48 channels and 2 rounds, standard board, one core"
    return Comparison(title, rows, ["Rates are positions per second; of the search simulations per second."])


def _row(name: str, torch_rate: float | None, kernel_rate: float) -> dict[str, str | float | None]:
    return {
        "workload": name,
        "torch, 1/s": torch_rate,
        "torch, us each": torch_rate and 1e6 / torch_rate,
        "kernel, 1/s": kernel_rate,
        "kernel, us each": 1e6 / kernel_rate,
        "x torch": torch_rate and kernel_rate / torch_rate,
    }
