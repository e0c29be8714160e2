"""A learner against `random` inside the step, 1,024 games: the Gymnasium and SB3 vector environments beside the engine.

A step of a vector environment is a decision of the learner in every game and all that its opponents decide until it is
on turn again. The engine takes as many decisions, each with its choice, observation and mask; it is what a user would
write who did without the vector environment. The learner's choices are uniform over its legal actions everywhere; SB3's
masks are fetched at every step, and its infos are made.
"""

import time
from collections.abc import Callable

import numpy as np

from isis_env import game
from isis_env.batch import Batch
from isis_env.config import GameConfig
from isis_env.envs.sb3 import IsisOsirisVecEnv
from isis_env.envs.vector import IsisOsirisVectorEnv
from isis_env.kernels.threads import available_cores, run_shared
from isis_env.learner_batch import LearnerBatch
from tests.benchmarks.batches import choose_rows, make_seeds
from tests.benchmarks.rates import Comparison, by_turns, one_core

GAMES = 1024
SECONDS = 0.5  # per measurement
COUNTED = 300  # steps in which the opponents' decisions are counted
ENGINE, VECTOR, SB3 = "Batch, as many decisions", "IsisOsirisVectorEnv", "IsisOsirisVecEnv (SB3), masks fetched"

Masks = np.ndarray


def steps_per_second(step: Callable[[np.ndarray], Masks], masks: Masks, threads: int) -> float:
    """Steps of all games with random choices."""
    seeds = make_seeds(GAMES)
    actions = np.empty(GAMES, np.int64)
    steps = 0
    begin = time.perf_counter()
    while (seconds := time.perf_counter() - begin) < SECONDS:
        run_shared(choose_rows, GAMES, threads, masks, seeds[steps % len(seeds)], actions)
        masks = step(actions)
        steps += 1
    return steps / seconds


def decisions_per_step() -> float:
    """How many decisions of all seats there are to one of the learner's, over games that have ended."""
    games = LearnerBatch(GameConfig(), GAMES, opponents=["random"])
    step = games.reset(0)
    rng = np.random.default_rng(0)
    all_seats = learner = 0
    for _ in range(COUNTED):
        scores = rng.random(step.action_masks.shape) * step.action_masks
        step = games.step(scores.argmax(axis=1))
        final = games.batch.final_states[step.ended.rows]
        all_seats += sum(int(game.decisions_taken(state)) for state in final)
        learner += int(step.ended.lengths.sum())
    return all_seats / learner


def workloads(threads: int) -> dict[str, Callable[[], float]]:
    """Steps per second of each, on so many threads."""
    batch = Batch(GameConfig(), GAMES, threads=threads)
    batch.reset(0)
    vector = IsisOsirisVectorEnv(GAMES, opponents=["random"], threads=threads)
    vector.reset(seed=0)
    sb3 = IsisOsirisVecEnv(GameConfig(), GAMES, opponents=["random"], threads=threads, seed=0)
    sb3.reset()

    def step_sb3(actions: np.ndarray) -> Masks:
        sb3.step(actions)
        return sb3.env_method("action_masks")

    def run(step: Callable[[np.ndarray], Masks], masks: Callable[[], Masks]) -> Callable[[], float]:
        def measure() -> float:
            if threads > 1:
                return steps_per_second(step, masks(), threads)
            with one_core():
                return steps_per_second(step, masks(), threads)

        return measure

    return {
        ENGINE: run(lambda actions: batch.step(actions).action_masks, lambda: batch.look().action_masks),
        VECTOR: run(lambda actions: vector.step(actions)[0]["action_mask"], lambda: vector.games.look().action_masks),
        SB3: run(step_sb3, lambda: sb3.env_method("action_masks")),
    }


def compare() -> Comparison:
    """Measure all of them, on one core and on all."""
    ratio = decisions_per_step()
    rows: list[dict[str, str | float | None]] = []
    for threads in sorted({1, available_cores()}):
        rates = by_turns(workloads(threads))
        milliseconds = {name: 1e3 / rate for name, rate in rates.items()}
        milliseconds[ENGINE] *= ratio
        for name, taken in milliseconds.items():
            rows.append(
                {
                    "workload": f"{name}, {threads} {'cores' if threads > 1 else 'core'}",
                    "ms/step": taken,
                    "x engine": taken / milliseconds[ENGINE],
                    "ms over VectorEnv": taken - milliseconds[VECTOR] if name == SB3 else None,
                }
            )
    remarks = [f"To one decision of the learner there are {ratio:.2f} of all seats, its own included."]
    return Comparison(f"{GAMES:,} games of a learner against random", rows, remarks)
