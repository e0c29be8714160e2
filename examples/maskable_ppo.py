"""sb3-contrib's MaskablePPO against greedy opponents, in 30 lines (`pip install '.[sb3]'`).

python -m examples.maskable_ppo --steps 100_000
"""

import argparse

import numpy as np
from sb3_contrib import MaskablePPO

from isis_env import GameConfig
from isis_env.envs.sb3 import IsisOsirisVecEnv

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=100_000)
options = parser.parse_args()

games = IsisOsirisVecEnv(GameConfig(players=2), num_envs=64, opponents=["random", "greedy"], seed=0)
model = MaskablePPO("MlpPolicy", games, n_steps=32, batch_size=512, n_epochs=4, seed=0)
model.learn(options.steps)

# Opponents are drawn anew for every game; here the games of the evaluation are all against `random`.
evaluation = IsisOsirisVecEnv(GameConfig(players=2), num_envs=64, opponents=["random"], seed=1_000_000)
observations = evaluation.reset()
shares = []
while len(shares) < 100:
    masks = np.stack(evaluation.env_method("action_masks"))
    actions, _ = model.predict(observations, action_masks=masks, deterministic=True)
    observations, rewards, dones, infos = evaluation.step(actions)
    shares += [infos[game]["win_share"] for game in np.flatnonzero(dones)]
print(f"share of wins against random in {len(shares)} games: {np.mean(shares):.2f}")
