"""A centralised critic: the actor sees observations, the critic learns values from the environment's `state()`.

    python -m examples.centralised_critic --games 1000

`state()` holds everything that has happened, with the faces that players have forgotten, but never the order of the
tiles that are still to be drawn. The critic here is a ridge regression from the state to the return of `player_0`,
while a random actor plays; a network would take its place. For comparison the same regression is given observations.
"""

import argparse

import numpy as np

from isis_env import isis_osiris_v0

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--games", type=int, default=1000)
options = parser.parse_args()

env = isis_osiris_v0.env(players=2, recall=1, reward="margin")
seen, states, returns = [], [], []
for game in range(options.games):
    env.reset(seed=game)
    rng = np.random.default_rng(game)
    decisions = 0
    while not env.terminations[agent := env.agent_selection]:
        mask = env.observe(agent)["action_mask"]  # beside the observation, all that the actor may use
        seen.append(env.observe("player_0")["observation"])
        states.append(env.state())
        decisions += 1
        env.step(int(rng.choice(np.flatnonzero(mask))))
    returns += [env.rewards["player_0"]] * decisions


def explained(inputs: np.ndarray, targets: np.ndarray, penalty: float = 300.0) -> float:
    """How much of the targets' variance a regression explains in the last fifth, which is held back from the fit."""
    fit = len(inputs) * 4 // 5
    square = inputs[:fit].T @ inputs[:fit] + penalty * np.eye(inputs.shape[1])
    weights = np.linalg.solve(square, inputs[:fit].T @ targets[:fit])
    return 1 - float(np.mean((inputs[fit:] @ weights - targets[fit:]) ** 2) / np.var(targets[fit:]))


print(f"{len(states)} decisions; share of the return's variance that a critic explains")
print(f"  from state(), {len(states[0])} entries: {explained(np.array(states), np.array(returns)):.2f}")
print(f"  from player_0's observation, {len(seen[0])} entries: {explained(np.array(seen), np.array(returns)):.2f}")
