"""OpenSpiel's C++ MCTSBot on connect_four, in an environment of its own: prints one JSON object.

From the empty board, one random rollout per leaf. Run by `tests.benchmarks`, not by itself.
"""

import json
import random
import sys
import time

import pyspiel

SIMULATIONS = int(sys.argv[1])
GAMES = 2000


def main() -> None:
    """Measure one search, and the mean length of a random game."""
    game = pyspiel.load_game("connect_four")
    memory_mb = 2000
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    bot = pyspiel.MCTSBot(game, evaluator, 2.0, SIMULATIONS, memory_mb, False, 0, False)
    state = game.new_initial_state()
    begin = time.perf_counter()
    bot.mcts_search(state)
    seconds = time.perf_counter() - begin

    rng = random.Random(0)
    moves = 0
    for _ in range(GAMES):
        state = game.new_initial_state()
        while not state.is_terminal():
            state.apply_action(rng.choice(state.legal_actions()))
            moves += 1
    print(json.dumps({"simulations_per_second": SIMULATIONS / seconds, "moves_per_game": moves / GAMES}))


if __name__ == "__main__":
    main()
