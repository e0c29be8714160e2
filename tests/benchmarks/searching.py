"""Monte-Carlo tree search with random playouts: our `mcts` beside OpenSpiel's `MCTSBot`, which is C++.

Every decision is a search from the empty board, of as many simulations, on one core, from the position to the action:
ours on the standard board with two players, the peer on its `connect_four`.

Moves of a playout are filled cells on both sides, and counted in the peer's favour. Ours are counted exactly: the cells
of the board less those filled on the way down the tree; draws, decisions too, are left out. The peer's are taken to be
those of a whole random game, as if its tree had no depth.
"""

import json
import subprocess
import time
from pathlib import Path

import numpy as np

from agents.search.mcts import LEAVES, Mcts, simulate
from agents.search.position import new_positions
from agents.search.tree import NOBODY, clear, new_tree
from isis_env.batch import Batch, Decisions
from isis_env.config import GameConfig
from isis_env.reward import REWARDS
from tests.benchmarks.rates import PEER_PYTHON, Comparison, by_turns, one_core, reason

SIMULATIONS = 10_000
DECISIONS = 10  # per measurement
CONFIG = GameConfig()
OURS = "mcts:leaf=random,exact=0, standard board"
PEER = "MCTSBot, connect_four"
PEER_SCRIPT = Path(__file__).with_name("open_spiel_peer.py")


def simulations_per_second(agent: Mcts, decisions: Decisions) -> float:
    """Simulations of our search, one decision after the other."""
    begin = time.perf_counter()
    for row in range(len(decisions)):
        agent.act(decisions[row : row + 1])
    return len(decisions) * agent.simulations / (time.perf_counter() - begin)


def playout_cells(agent: Mcts, decisions: Decisions) -> float:
    """How many cells the playouts of our search fill, mean over the simulations of the first decision."""
    tree = new_tree(agent.simulations)
    clear(tree)
    simulate(
        tree,
        new_positions(decisions.states[:1]),
        decisions.seeds[0],
        0,
        agent.simulations,
        LEAVES[agent.leaf],
        agent.c,
        agent.temperature,
        REWARDS[agent.reward],
        agent.weights,
        agent.spread,
    )
    nodes, edges = tree.used
    of_choices = np.repeat(tree.seat[:nodes] != NOBODY, tree.edges[:nodes])
    placements = of_choices & (tree.action[1:edges] != CONFIG.draw_action)  # edge 0 leads to the root
    return CONFIG.cells - float(tree.visits[1:edges][placements].sum()) / agent.simulations


def peer() -> dict:
    """What `open_spiel_peer.py` prints.

    Raises:
        OSError, subprocess.CalledProcessError: the peer is not there or does not run.
    """
    command = [PEER_PYTHON, PEER_SCRIPT, str(SIMULATIONS), str(DECISIONS)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def compare() -> Comparison:
    """Measure both; without the peer ours alone."""
    agent = Mcts(simulations=SIMULATIONS, leaf="random", exact=0)
    batch = Batch(CONFIG, DECISIONS, threads=1)
    batch.reset(0)
    decisions = batch.decisions(np.arange(DECISIONS))
    workloads = {OURS: lambda: simulations_per_second(agent, decisions)}
    moves = {OURS: playout_cells(agent, decisions)}
    remarks = [
        "Moves are filled cells: ours exactly, draws left out; the peer's those of a whole random game, tree included."
    ]
    try:
        found = peer()
    except (OSError, subprocess.CalledProcessError) as error:
        remarks.append(f"{PEER} is left out: {reason(error)}")
    else:
        workloads = {PEER: lambda: peer()["simulations_per_second"], **workloads}
        moves[PEER] = found["moves_per_game"]
        remarks.append(f"{PEER}: OpenSpiel {found['version']}, RandomRolloutEvaluator of one rollout, uct_c=2.")
    with one_core():
        rates = by_turns(workloads)
    rows = []
    for name, rate in rates.items():
        row = {"workload": name, "simulations/s": rate, "moves/playout": moves[name]}
        row["moves/s"] = rate * moves[name]
        for unit in ("simulations/s", "moves/s"):
            row[f"x {unit.removesuffix('/s')}"] = row[unit] / rows[0][unit] if rows else 1.0
        rows.append(row if PEER in rates else {key: value for key, value in row.items() if not key.startswith("x ")})
    return Comparison(f"Tree search, {SIMULATIONS:,} simulations from the empty board, one core", rows, remarks)
