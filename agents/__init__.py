"""Agents of the checkout. Importing this package registers them under the specs of `isis_env.policy`."""

from agents import endgame, expectimax, flat_mc, learned, mcts, remember  # noqa: F401  (registers them)
