"""The agents there are, and what one makes of a position: `python -m agents [SPEC --position FILE]`."""

import argparse
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import agents  # noqa: F401  (registers its specs)
from agents.search.exact import BudgetExceededError
from isis_env import game
from isis_env.agent import Agent
from isis_env.batch import Decisions
from isis_env.config import BOARDS
from isis_env.deal import check_seed, decision_seed
from isis_env.notation import cell_name, loads
from isis_env.observation import observations
from isis_env.policy import make_agent, registered
from isis_env.secrecy import known_states


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; 0, or 2 with one line on stderr where an argument cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m agents", description=__doc__)
    parser.add_argument("agent", nargs="?", metavar="SPEC", help="an agent to ask; without one all are listed")
    parser.add_argument("--position", type=Path, help="file with a position as text (see isis_env/notation.py), or -")
    parser.add_argument("--seed", type=int, default=0, help="of the agent's own chance (default: %(default)s)")
    parser.add_argument("--top", type=int, default=8, help="how many actions to show (default: %(default)s)")
    options = parser.parse_args(argv)
    if options.agent is None:
        print("\n\n".join(describe(name) for name in registered()))
        return 0
    try:
        if options.position is None:
            raise ValueError("--position is missing: the position to ask about")
        text = sys.stdin.read() if str(options.position) == "-" else options.position.read_text()
        states = loads(text)
        if game.is_over(states[0]):
            raise ValueError(f"{options.position}: the game is over")
        agent = make_agent(options.agent)
        board = getattr(agent, "board", None)  # a network's
        if board and BOARDS[board].side != states[0].side:
            raise ValueError(f"agent {options.agent!r} plays on board {board!r}, not on that of {options.position}")
        print("\n".join(explain(agent, pending(states, agent, options.seed), options.top)))
    except (ValueError, OSError, BudgetExceededError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def describe(name: str) -> str:
    """An agent's arguments with their defaults, and its docstring."""
    factory = registered()[name]
    parameters = inspect.signature(factory).parameters.values()
    arguments = ",".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters)
    text = inspect.cleandoc(factory.__doc__ or "")
    return f"{name}{':' if arguments else ''}{arguments}\n" + "\n".join(
        f"    {line}".rstrip() for line in text.splitlines()
    )


def pending(states: np.ndarray, agent: Agent, seed: int) -> Decisions:
    """The decision in `states[0]` (`STATE[1]`), as the agent is to be given it."""
    seats = states["seat"].astype(np.int64)
    mask = np.empty((1, game.cells_of(states[0]) + 1), np.int8)
    game.legal_mask(states[0], mask[0])
    return Decisions(
        states=known_states(states, seats, agent.recall),
        observations=observations(states, seats, agent.recall),
        action_masks=mask,
        seats=seats,
        games=np.zeros(1, np.int64),
        first=np.ones(1, np.bool_),
        seeds=np.array([decision_seed(np.uint64(check_seed(seed)), np.uint64(0), seats[0], 0)], np.uint64),
    )


def explain(agent: Agent, decisions: Decisions, top: int) -> list[str]:
    """The agent's choice and, where it can tell, its value and the actions it likes best."""
    side = int(decisions.states[0].side)

    def name(action: int) -> str:
        return "draw" if action == side * side else cell_name(action, side)

    lines = [f"seat {decisions.seats[0]} plays {name(int(agent.act(decisions)[0]))}"]
    if not hasattr(agent, "analyse"):
        return lines
    analysis = agent.analyse(decisions)
    lines.append(f"value {analysis.values[0]:+.3f}")
    order = np.argsort(-analysis.probabilities[0], kind="stable")[:top]
    for action in order[analysis.probabilities[0, order] > 0]:
        value, probability = analysis.action_values[0, action], analysis.probabilities[0, action]
        lines.append(f"{name(int(action)):>5}  {probability:6.1%}  {value:+.3f}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
