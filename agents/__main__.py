"""The agents there are, and what one makes of a position: `python -m agents [SPEC --position FILE]`."""

import argparse
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import agents  # noqa: F401  (registers its specs)
from isis_env import game
from isis_env.agent import Agent
from isis_env.batch import Decisions
from isis_env.command_line import ArgumentParser, run_command, whole_number
from isis_env.config import BOARDS
from isis_env.deal import check_seed, decision_seed
from isis_env.notation import NotationError, cell_name, loads
from isis_env.observation import observations
from isis_env.policy import make_agent, registered
from isis_env.secrecy import known_states

# A position takes some hundred characters.
MAX_POSITION_BYTES = 100_000

UNKNOWN = "-"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = ArgumentParser(prog="python -m agents", description=__doc__)
    parser.add_argument("agent", nargs="?", metavar="SPEC", help="an agent to ask; without one all are listed")
    parser.add_argument("--position", type=Path, help="file with a position as text (see isis_env/notation.py), or -")
    parser.add_argument("--seed", type=whole_number, default=0, help="of the agent's own chance (default: %(default)s)")
    parser.add_argument("--top", type=whole_number, default=8, help="how many actions to show (default: %(default)s)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status, see `run_command`."""
    return run_command(lambda: _list_or_explain(_arguments(argv)))


def _list_or_explain(options: argparse.Namespace) -> None:
    if options.agent is None:
        print("\n\n".join(describe(name) for name in registered()))
        return
    if options.top < 0:
        raise ValueError(f"--top {options.top}: must be 0 or more")
    if options.position is None:
        raise ValueError("--position is missing: the position to ask about")
    try:
        states = loads(read_position(options.position))
    except NotationError as error:
        raise NotationError(f"{options.position}: {error}") from None
    if game.is_over(states[0]):
        raise ValueError(f"{options.position}: the game is over")
    agent = make_agent(options.agent)
    board = getattr(agent, "board", None)  # a network's
    if board and BOARDS[board].side != states[0].side:
        raise ValueError(f"agent {options.agent!r} plays on board {board!r}, not on that of {options.position}")
    print("\n".join(explain(agent, pending(states, agent, options.seed), options.top)))


def read_position(file: Path) -> str:
    """The text in a file; of `-`, on standard input.

    Raises:
        ValueError: it cannot be read, is no text, or far too long.
    """
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(MAX_POSITION_BYTES + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(MAX_POSITION_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: byte {error.start} is no text in UTF-8") from None
    if len(content) > MAX_POSITION_BYTES:
        raise ValueError(f"{file}: must be a position in at most {MAX_POSITION_BYTES} bytes")
    return text


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
    lines.append(f"value {_signed(analysis.values[0])}")
    order = np.argsort(-analysis.probabilities[0], kind="stable")[:top]
    for action in order[analysis.probabilities[0, order] > 0]:
        value, probability = analysis.action_values[0, action], analysis.probabilities[0, action]
        lines.append(f"{name(int(action)):>5}  {probability:6.1%}  {_signed(value)}")
    if any(line.endswith(UNKNOWN) for line in lines):
        lines.append(f"({UNKNOWN}: the agent has no estimate of the return)")
    return lines


def _signed(value: float) -> str:
    return UNKNOWN if np.isnan(value) else f"{value:+.3f}"


if __name__ == "__main__":
    sys.exit(main())
