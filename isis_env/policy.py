"""The registry of agents by spec, such as `greedy` or `mcts:simulations=800`."""

import importlib
import inspect
import math
import re
from collections.abc import Callable
from typing import Any, get_type_hints

from isis_env.agent import Agent
from isis_env.baselines import Greedy, Random, Uniform
from isis_env.config import shown
from isis_env.secrecy import check_recall


class AgentSpecError(ValueError):
    """A spec that names no agent or gives it wrong arguments; the message says what was allowed."""


_REGISTRY: dict[str, Callable[..., Agent]] = {"uniform": Uniform, "random": Random, "greedy": Greedy}

# Agents of the repository's package `agents`, which is not part of the installed one
_OF_THE_REPOSITORY = ("exact", "expectimax", "flat_mc", "mcts", "ppo", "remember")

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")
_MAX_WHOLE = 2**53  # up to here every whole number is a float


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
    """Name -> factory of all agents known by now; importing `agents` adds those of the repository."""
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
    elif name in _OF_THE_REPOSITORY:
        raise AgentSpecError(
            f"agent {shown(spec, 300)}: {name!r} comes with the package `agents` of the repository; "
            "run `import agents` in a checkout first"
        )
    else:
        allowed = ", ".join(sorted([*_REGISTRY, "python"]))
        raise AgentSpecError(f"agent {shown(spec, 300)}: {shown(name)} must be one of {allowed}")
    try:
        agent = factory(**_convert(spec, factory, main, arguments))
    except Exception as error:
        if isinstance(error, ValueError) and not isinstance(error, UnicodeError):
            if type(error) is not ValueError:  # one that says more
                raise
            raise AgentSpecError(f"agent {shown(spec, 300)}: {' '.join(str(error).split())}") from error
        raise AgentSpecError(f"agent {shown(spec, 300)}: {_one_line(error)}") from error
    if not isinstance(agent, Agent):
        raise AgentSpecError(f"agent {shown(spec, 300)}: {shown(agent)} must have `recall` and `act(decisions)`")
    check_recall(agent.recall, f"agent {shown(spec, 300)}: recall")
    return agent


def _parse_spec(spec: str) -> tuple[str, str | None, dict[str, str]]:
    """`name:main,key="a,b"` -> name, main argument or None, key -> value."""
    if not isinstance(spec, str) or not spec:
        raise AgentSpecError(f"agent {shown(spec, 300)}: must be text like name:key=value,key=value")
    name, _, rest = spec.partition(":")
    if rest.count('"') % 2:
        raise AgentSpecError(f"agent {shown(spec, 300)}: a quotation mark is not closed")
    parts = re.findall(r'(?:"[^"]*"|[^,"])+', rest)
    main, arguments = None, {}
    for index, part in enumerate(parts):
        key, equals, value = part.partition("=")
        if equals and re.fullmatch(r"\w+", key):
            if key in arguments:
                raise AgentSpecError(f"agent {shown(spec, 300)}: {key} is given twice")
            arguments[key] = value.strip('"')
        elif index == 0:
            main = part.strip('"')
        else:
            raise AgentSpecError(f"agent {shown(spec, 300)}: {shown(part)} must be key=value")
    return name, main, arguments


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _import_factory(spec: str, main: str | None) -> Callable[..., Agent]:
    module, _, attribute = (main or "").partition(":")
    if not module or not attribute:
        raise AgentSpecError(f"agent {shown(spec, 300)}: must be python:package.module:factory")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever somebody else's module raises
        raise AgentSpecError(f"agent {shown(spec, 300)}: {_one_line(error)}") from error
    if not callable(factory):
        raise AgentSpecError(f"agent {shown(spec, 300)}: {module}.{attribute} must be callable")
    return factory


def _convert(
    spec: str, factory: Callable[..., Agent], main: str | None, arguments: dict[str, str]
) -> dict[str, int | float | bool | str]:
    """The spec's text values as what the factory's annotations ask for."""
    parameters = inspect.signature(factory).parameters
    hints = get_type_hints(factory.__init__ if inspect.isclass(factory) else factory)
    if main is not None:
        if not parameters:
            raise AgentSpecError(f"agent {shown(spec, 300)}: takes no arguments")
        first = next(iter(parameters))
        if first in arguments:
            raise AgentSpecError(f"agent {shown(spec, 300)}: {first} is given twice")
        arguments = {first: main, **arguments}
    converted = {}
    for key, text in arguments.items():
        if key not in parameters:
            allowed = ", ".join(parameters) or "no keys"
            raise AgentSpecError(f"agent {shown(spec, 300)}: key {shown(key)} must be one of: {allowed}")
        converted[key] = _convert_value(spec, key, text, hints.get(key, str))
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in converted]
    if missing:
        raise AgentSpecError(f"agent {shown(spec, 300)}: needs {', '.join(missing)}")
    return converted


def _convert_value(spec: str, key: str, text: str, kind: Any) -> int | float | bool | str:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise AgentSpecError(f"agent {shown(spec, 300)}: {key}={shown(text)} must be true or false")
        return text.lower() == "true"
    if kind is int:
        number = float(text) if _NUMBER.fullmatch(text) else 0.5
        if _INTEGER.fullmatch(text):
            return int(text)
        if number.is_integer() and abs(number) <= _MAX_WHOLE:  # 1e6 is how people write a million
            return int(number)
        raise AgentSpecError(f"agent {shown(spec, 300)}: {key}={shown(text)} must be of type int")
    if kind is float:
        if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        raise AgentSpecError(f"agent {shown(spec, 300)}: {key}={shown(text)} must be of type float, and finite")
    if kind not in (str, inspect.Parameter.empty):
        raise AgentSpecError(
            f"agent {shown(spec, 300)}: {key} takes {kind}, which a spec cannot give; use int, float, bool or str"
        )
    return text
