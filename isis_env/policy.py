"""Things that choose moves: the agent protocol, the registry of specs, and the built-ins `random`, `uniform`, `greedy`.

An agent chooses for many games at once; a single game is a batch of one. Row i of its answer depends on row i and on
what the agent remembers for that game and seat, never on the other rows.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, get_type_hints, runtime_checkable

import numpy as np

from isis_env import game
from isis_env._jit import kernel
from isis_env._vectors import as_bits, count_bits, nth_bit
from isis_env.batch import Batch, Decisions
from isis_env.config import MAX_FACE, MAX_PLAYERS, NEIGHBOURS
from isis_env.deal import random_below, random_bits
from isis_env.game import EMPTY, FACE_SLOTS, NOTHING, TILE
from isis_env.observation import Recall, check_recall


@runtime_checkable
class Agent(Protocol):
    """What an agent must offer."""

    recall: Recall
    """Which recall it is to be given: an integer >= 1 or `"full"`."""

    def act(self, decisions: Decisions) -> np.ndarray:
        """Choose one legal action per row: integers [n]."""
        ...


@dataclass(frozen=True)
class Analysis:
    """What an agent makes of n pending decisions; agents that can tell have `analyse(decisions) -> Analysis`.

    Attributes:
        values: float64[n], the return that the seat on turn can expect; nan where the agent has no idea of it.
        action_values: float64[n, A], the same after each action; nan where the agent did not work it out.
        probabilities: float64[n, A], how the agent weighs the actions, 0 for illegal ones; rows add up to 1.
    """

    values: np.ndarray
    action_values: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def blank(cls, n: int, actions: int) -> "Analysis":
        """To be filled in: values nan, probabilities 0."""
        return cls(np.full(n, np.nan), np.full((n, actions), np.nan), np.zeros((n, actions)))

    def __getitem__(self, rows) -> "Analysis":
        """The analysis of some rows; of a slice a view."""
        return Analysis(self.values[rows], self.action_values[rows], self.probabilities[rows])

    def __setitem__(self, rows, other: "Analysis") -> None:
        self.values[rows] = other.values
        self.action_values[rows] = other.action_values
        self.probabilities[rows] = other.probabilities


def ask(agent: Agent, decisions: Decisions) -> np.ndarray:
    """An agent's answer, int64[n].

    Raises:
        TypeError: it is not one integer per decision.
    """
    answer = np.asarray(agent.act(decisions))
    if answer.shape != (len(decisions),) or answer.dtype.kind not in "iu":
        found = f"shape {answer.shape} and type {answer.dtype}"
        raise TypeError(f"{type(agent).__name__}.act() answered with {found}: must be {len(decisions)} integers")
    return answer.astype(np.int64, copy=False)


def ask_each(agents: Sequence[Agent], chooser: np.ndarray, batch: Batch, rows: np.ndarray) -> np.ndarray:
    """The actions int64[m] of the games in `rows` (int64[m]), each chosen by the agent of index `chooser` (int[m])."""
    actions = np.empty(len(rows), np.int64)
    for index in np.unique(chooser):
        mine = chooser == index
        actions[mine] = ask(agents[index], batch.decisions(rows[mine], agents[index].recall))
    return actions


class AgentSpecError(ValueError):
    """A spec that names no agent or gives it wrong arguments; the message says what was allowed."""


_REGISTRY: dict[str, Callable[..., Agent]] = {}


def register(name: str) -> Callable[[Callable[..., Agent]], Callable[..., Agent]]:
    """Class or function decorator: make a factory known to `make_agent` as `name`.

    The factory's annotated parameters (`int`, `float`, `bool`, `str`) are the keys of its spec; its first parameter
    also takes the main argument, the part before the first comma when that has no `=`.
    """

    def add(factory: Callable[..., Agent]) -> Callable[..., Agent]:
        _REGISTRY[name] = factory
        return factory

    return add


def registered() -> dict[str, Callable[..., Agent]]:
    """Name -> factory of all agents known by now; importing `agents` adds those of the checkout."""
    return dict(_REGISTRY)


def make_agent(spec: str) -> Agent:
    """The agent that a spec describes, such as `greedy`, `ppo:runs/a,sample=true` or `python:package.module:factory`.

    `python:` imports a module and calls the named factory; use it with code you trust.

    Raises:
        AgentSpecError: unknown name or key, a missing or a malformed value.
    """
    name, main, arguments = _parse_spec(spec)
    if name == "python":
        factory = _import_factory(spec, main)
        main = None
    elif name in _REGISTRY:
        factory = _REGISTRY[name]
    else:
        raise AgentSpecError(f"agent {spec!r}: {name!r} must be one of {', '.join(sorted([*_REGISTRY, 'python']))}")
    try:
        agent = factory(**_convert(spec, factory, main, arguments))
    except ValueError as error:
        if type(error) is not ValueError:  # one that says more
            raise
        raise AgentSpecError(f"agent {spec!r}: {error}") from error
    except Exception as error:
        raise AgentSpecError(f"agent {spec!r}: {type(error).__name__}: {' '.join(str(error).split())}") from error
    if not isinstance(agent, Agent):
        raise AgentSpecError(f"agent {spec!r}: {agent!r} must have `recall` and `act(decisions)`")
    check_recall(agent.recall, f"agent {spec!r}: recall")
    return agent


def _parse_spec(spec: str) -> tuple[str, str | None, dict[str, str]]:
    """`name:main,key="a,b"` -> name, main argument or None, key -> value."""
    if not isinstance(spec, str) or not spec:
        raise AgentSpecError(f"agent {spec!r}: must be text like name:key=value,key=value")
    name, _, rest = spec.partition(":")
    parts = re.findall(r'(?:"[^"]*"|[^,"])+', rest)
    main, arguments = None, {}
    for index, part in enumerate(parts):
        key, equals, value = part.partition("=")
        if equals and re.fullmatch(r"\w+", key):
            if key in arguments:
                raise AgentSpecError(f"agent {spec!r}: {key} is given twice")
            arguments[key] = value.strip('"')
        elif index == 0:
            main = part.strip('"')
        else:
            raise AgentSpecError(f"agent {spec!r}: {part!r} must be key=value")
    return name, main, arguments


def _import_factory(spec: str, main: str | None) -> Callable[..., Agent]:
    module, _, attribute = (main or "").partition(":")
    if not module or not attribute:
        raise AgentSpecError(f"agent {spec!r}: must be python:package.module:factory")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever somebody else's module raises
        raise AgentSpecError(f"agent {spec!r}: {type(error).__name__}: {' '.join(str(error).split())}") from error
    if not callable(factory):
        raise AgentSpecError(f"agent {spec!r}: {module}.{attribute} must be callable")
    return factory


def _convert(
    spec: str, factory: Callable[..., Agent], main: str | None, arguments: dict[str, str]
) -> dict[str, int | float | bool | str]:
    """The spec's text values as what the factory's annotations ask for."""
    parameters = inspect.signature(factory).parameters
    hints = get_type_hints(factory.__init__ if inspect.isclass(factory) else factory)
    if main is not None:
        if not parameters:
            raise AgentSpecError(f"agent {spec!r}: takes no arguments")
        first = next(iter(parameters))
        if first in arguments:
            raise AgentSpecError(f"agent {spec!r}: {first} is given twice")
        arguments = {first: main, **arguments}
    converted = {}
    for key, text in arguments.items():
        if key not in parameters:
            allowed = ", ".join(parameters) or "no keys"
            raise AgentSpecError(f"agent {spec!r}: key {key!r} must be one of: {allowed}")
        converted[key] = _convert_value(spec, key, text, hints.get(key, str))
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in converted]
    if missing:
        raise AgentSpecError(f"agent {spec!r}: needs {', '.join(missing)}")
    return converted


def _convert_value(spec: str, key: str, text: str, kind: Any) -> int | float | bool | str:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise AgentSpecError(f"agent {spec!r}: {key}={text} must be true or false")
        return text.lower() == "true"
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise AgentSpecError(f"agent {spec!r}: {key}={text} must be of type {kind.__name__}") from None
    if kind not in (str, inspect.Parameter.empty):
        raise AgentSpecError(
            f"agent {spec!r}: {key} takes {kind}, which a spec cannot give; use int, float, bool or str"
        )
    return text


# Kinds of built-in agents, as kernels take them; of an agent that must be asked.
ASKED, UNIFORM, RANDOM, GREEDY = range(4)


class _BuiltIn:
    """An agent that is a kernel and remembers all."""

    recall: Recall = "full"
    kind: int

    def act(self, decisions: Decisions) -> np.ndarray:
        actions = np.empty(len(decisions), np.int64)
        _choose_all(self.kind, decisions.states, decisions.action_masks, decisions.seeds, actions)
        return actions

    def analyse(self, decisions: Decisions) -> Analysis:
        """The distribution that actions are drawn from; values are not known."""
        analysis = Analysis.blank(*decisions.action_masks.shape)
        for row, state in enumerate(decisions.states):
            weights = self._weights(state, decisions.action_masks[row])
            analysis.probabilities[row] = weights / weights.sum()
        return analysis

    def _weights(self, state: np.record, mask: np.ndarray) -> np.ndarray:
        return mask


def builtin_kind(agent: Agent) -> int:
    """Which built-in agent this is, for `choose`, or `ASKED`."""
    return agent.kind if isinstance(agent, _BuiltIn) and type(agent).act is _BuiltIn.act else ASKED


@kernel
def choose(kind, s, mask, seed):
    """The action of a built-in agent in state `s`. `mask` (int8[A]) holds the legal actions and may be overwritten."""
    if kind == GREEDY:
        greedy_mask(s, mask)
    legal = as_bits(mask)
    if kind == RANDOM:
        draw = len(mask) - 1
        placements = legal & ~(np.uint64(1) << np.uint64(draw))
        cells = count_bits(placements)
        if placements != legal and (cells == 0 or random_bits(seed, 0) & np.uint64(1)):
            return draw
        return nth_bit(placements, random_below(seed, 1, cells))
    return nth_bit(legal, random_below(seed, 0, count_bits(legal)))


@kernel
def _choose_all(kind, states, masks, seeds, actions):
    mask = np.empty(masks.shape[1], np.int8)
    for row in range(len(states)):
        mask[:] = masks[row]
        actions[row] = choose(kind, states[row], mask, seeds[row])


@register("uniform")
class Uniform(_BuiltIn):
    """Uniform over all legal actions; it hardly ever draws, since drawing is one action among many."""

    kind = UNIFORM


@register("random")
class Random(_BuiltIn):
    """A fair coin between stone and tile where both are legal, then a uniform free cell."""

    kind = RANDOM

    def _weights(self, state: np.record, mask: np.ndarray) -> np.ndarray:
        weights = mask.astype(np.float64)
        weights[-1] *= max(1.0, weights[:-1].sum())  # drawing weighs as much as all cells together
        return weights


@register("greedy")
class Greedy(_BuiltIn):
    """One-ply greedy with perfect memory, the standard opponent.

    Maximises own score minus the mean of the others' after the action; drawing is worth the mean over unrevealed tiles
    of the best cell for each; a stone wins ties against drawing; equal cells are drawn from uniformly.
    """

    kind = GREEDY

    def _weights(self, state: np.record, mask: np.ndarray) -> np.ndarray:
        best = np.empty_like(mask)
        greedy_mask(state, best)
        return best


@kernel
def greedy_mask(s, best):
    """Write 1 for every action that greedy allows in the unfinished state `s` to `best` (int8[cells + 1]).

    All is counted in integers, (players - 1) times the margin, so that equal values compare equal.
    """
    cells = game.cells_of(s)
    value = np.empty(cells, np.int64)
    best[:] = 0
    if s.held != NOTHING:
        _tile_weights(s, value)
        value *= s.held
        _mark_best(s, value, best)
        return
    draws = 0  # unrevealed tiles, so that the value of drawing is draw_total / draws
    draw_total = 0
    if game.can_draw(s):
        _tile_weights(s, value)
        highest, lowest = _range_over_free(s, value)
        for slot in range(FACE_SLOTS):
            face = slot - MAX_FACE
            draws += s.unrevealed[slot]
            draw_total += int(s.unrevealed[slot]) * face * (highest if face > 0 else lowest)
    if s.stones[s.seat] > 0:
        _stone_values(s, value)
        highest, lowest = _range_over_free(s, value)
        if draws == 0 or highest * draws >= draw_total:
            _mark_best(s, value, best)
            return
    best[cells] = 1


@kernel
def _stone_values(s, value):
    """For every free cell, what a stone of the seat on turn is worth there."""
    for cell in range(game.cells_of(s)):
        total = 0
        for k in range(4):
            neighbour = NEIGHBOURS[s.side, cell, k]
            if neighbour >= 0 and s.board[neighbour] == TILE:
                total += s.face[neighbour]
        value[cell] = (s.players - 1) * total


@kernel
def _tile_weights(s, value):
    """For every free cell, what one point on a tile there is worth to the seat on turn."""
    for cell in range(game.cells_of(s)):
        weight = 0
        for k in range(4):
            neighbour = NEIGHBOURS[s.side, cell, k]
            if neighbour >= 0:
                owner = s.board[neighbour]
                if owner == s.seat:
                    weight += s.players - 1
                elif 0 <= owner < MAX_PLAYERS:
                    weight -= 1
        value[cell] = weight


@kernel
def _range_over_free(s, value):
    highest, lowest = -(2**31), 2**31
    for cell in range(game.cells_of(s)):
        if s.board[cell] == EMPTY:
            highest = max(highest, value[cell])
            lowest = min(lowest, value[cell])
    return highest, lowest


@kernel
def _mark_best(s, value, best):
    highest, _ = _range_over_free(s, value)
    for cell in range(game.cells_of(s)):
        best[cell] = s.board[cell] == EMPTY and value[cell] == highest
