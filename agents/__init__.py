"""Agents of the checkout. Importing this package registers them under the specs of `isis_env.policy`."""

from agents import remember  # noqa: F401  (registers it, as the next lines do)
from agents.learned import agent  # noqa: F401
from agents.search import endgame, expectimax, flat_mc, mcts  # noqa: F401
