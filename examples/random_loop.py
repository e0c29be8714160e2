"""Random players in PettingZoo's loop.

python -m examples.random_loop --games 3 --players 4
"""

import argparse

from isis_env import isis_osiris_v0

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--games", type=int, default=3)
parser.add_argument("--players", type=int, default=2, choices=(2, 3, 4))
options = parser.parse_args()

env = isis_osiris_v0.env(players=options.players, render_mode="ansi")
for game in range(options.games):
    env.reset(seed=game)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        action = None  # when the game is over, PettingZoo wants one such step of every agent
        if not terminated:
            action = env.action_space(agent).sample(observation["action_mask"])
        env.step(action)
    print(f"game {game}: scores {env.scores()}, won by {env.winners()}")
print(env.render())
