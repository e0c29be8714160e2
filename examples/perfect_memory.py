"""Perfect memory, for environments and for agents.

    python -m examples.perfect_memory --games 100

Under `recall=1` a player sees the face of a tile for one of its own turns; remembering is its own job. The wrapper
`PerfectMemory` remembers for whoever reads the observations of an environment, and the agent `remember:AGENT` does so
for another agent. Neither is told more than what lay open on the table.
"""

import argparse

import agents  # noqa: F401  (makes `remember` known)
from isis_env import GameConfig, isis_osiris_v0
from isis_env.envs.wrappers import PerfectMemory
from isis_env.observation import layout
from isis_env.policy import make_agent
from train.evaluate import evaluate

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--games", type=int, default=100)
options = parser.parse_args()

forgetful = isis_osiris_v0.env(recall=1)
remembering = PerfectMemory(isis_osiris_v0.env(recall=1))
faces = layout("standard")["faces"].slice
for env in (forgetful, remembering):
    env.reset(seed=7)
    while not env.terminations[agent := env.agent_selection]:
        seen = env.observe(agent)
        env.step(int(seen["action_mask"].nonzero()[0][-1]))  # draw where possible
    print(f"faces visible at the last decision: {(seen['observation'][faces] != 0).sum()}")

specs = ["remember:greedy", "random"]
result = evaluate([make_agent(spec) for spec in specs], specs, GameConfig(players=2), options.games, seed=0)
for agent in result.agents:
    print(f"{agent.agent}: score rate {agent.score_rate:.3f} over {result.games} games")
