"""An agent of one's own, in a tournament with those that there are.

    python -m examples.own_agent_in_a_tournament --games 200

On the command line the same agent has the spec `python:examples.own_agent_in_a_tournament:StoneFirst`:

    python -m train.evaluate python:examples.own_agent_in_a_tournament:StoneFirst,draw=0.1 random --games 200
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

from isis_env.batch import Decisions


class StoneFirst:
    """Places stones on random cells, and draws a tile with probability `draw` or where no stone is left."""

    recall = 1  # what the agent is to be shown: an integer, or "full"

    def __init__(self, draw: float = 0.5) -> None:
        self.draw = draw

    def act(self, decisions: Decisions) -> np.ndarray:
        """One legal action for each of the n pending decisions: int[n].

        All chance comes from `decisions.seeds`, so that the same game is played again under the same seed.
        """
        masks = decisions.action_masks.astype(bool)
        actions = np.empty(len(decisions), np.int64)
        for row, seed in enumerate(decisions.seeds):
            rng = np.random.default_rng(int(seed))
            cells = np.flatnonzero(masks[row, :-1])
            no_stone = decisions.states[row].held == 0 and decisions.states[row].stones[decisions.seats[row]] == 0
            draws = masks[row, -1] and (no_stone or rng.random() < self.draw)
            actions[row] = masks.shape[1] - 1 if draws else rng.choice(cells)
        return actions


def main() -> None:
    """Play the tournament; its tables are left in the folder `--out`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=200, help="at each table (default: %(default)s)")
    parser.add_argument("--out", default="results/own_agent", help="folder (default: %(default)s)")
    options = parser.parse_args()
    mine = "python:examples.own_agent_in_a_tournament:StoneFirst"
    specs = ["random", "greedy", mine, f"{mine},draw=0.1"]
    command = [sys.executable, "-m", "train.tournament", *specs, "--games", str(options.games), "--out", options.out]
    raise SystemExit(subprocess.run(command, cwd=Path(__file__).parent.parent).returncode)


if __name__ == "__main__":
    main()
