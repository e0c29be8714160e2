"""OpenSpiel's `MCTSBot` on `connect_four`, timed; prints JSON. Runs by itself under the Python that has OpenSpiel.

Usage: open_spiel_peer.py SIMULATIONS DECISIONS
"""

import json
import random
import sys
import time
from importlib.metadata import version

import pyspiel

GAMES = 2000
MEMORY_MB = 4000  # more than any tree here takes, so that nothing is ever thrown away


def main() -> None:
    """Time the decisions, and count the moves of random games."""
    simulations, decisions = map(int, sys.argv[1:])
    game = pyspiel.load_game("connect_four")
    evaluator = pyspiel.RandomRolloutEvaluator(n_rollouts=1, seed=0)
    bot = pyspiel.MCTSBot(game, evaluator, 2, simulations, MEMORY_MB, solve=False, seed=0, verbose=False)
    state = game.new_initial_state()
    bot.step(state)  # warm up
    begin = time.perf_counter()
    for _ in range(decisions):
        bot.step(state)
    seconds = time.perf_counter() - begin

    rng = random.Random(0)
    moves = 0
    for _ in range(GAMES):
        state = game.new_initial_state()
        while not state.is_terminal():
            state.apply_action(rng.choice(state.legal_actions()))
            moves += 1
    found = {
        "version": version("open_spiel"),
        "simulations_per_second": decisions * simulations / seconds,
        "moves_per_game": moves / GAMES,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
