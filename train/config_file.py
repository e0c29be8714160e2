"""Reading a training config: a YAML file with `--key value` pairs of the command line on top."""

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from train.config import ConfigError, TrainConfig, check_values

COMMAND_LINE = "command line"

# A config says a few dozen things; whatever is longer is no config.
MAX_BYTES = 2**20

# Longer values are cut in messages.
MAX_SHOWN = 80


def read_config(file: Path, overrides: Sequence[str]) -> TrainConfig:
    """The config of a YAML file with `--key value` pairs of the command line on top.

    Raises:
        ConfigError: the file cannot be read, or a key is unknown, given twice, of the wrong type or out of range.
    """
    in_file = _flatten(_load_file(file), str(file))
    named = _flatten(_read_overrides(overrides), COMMAND_LINE)

    def source_of(key: str) -> str:
        if key in named:
            return COMMAND_LINE
        return (
            str(file) if any(name == key or name.startswith(key + ".") for name in in_file) else f"{file}, by default"
        )

    _typed(in_file, str(file))
    config = _typed(in_file | named, COMMAND_LINE)
    check_values(config, source_of)
    return config


def dump_config(config: TrainConfig) -> str:
    """The whole config, defaults included, as YAML that `read_config` takes."""
    return yaml.safe_dump(asdict(config), sort_keys=False)


def help_text() -> str:
    """Every key with its meaning, type and default."""
    parser = _parser()
    parser.usage = "python -m train CONFIG.yaml [--key value ...]"
    return parser.format_help()


class _ConfigLoader(yaml.SafeLoader):
    """A SafeLoader that takes names as keys, each once, and no aliases; `1e6` is a number as in YAML 1.2."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # a few lines of them can stand for gigabytes
            event = self.get_event()
            raise yaml.YAMLError(f"alias *{event.anchor} in line {event.start_mark.line + 1}: aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                what = repr(key.value) if isinstance(key, yaml.ScalarNode) else f"a {key.id}"
                raise yaml.YAMLError(
                    f"key {_cut(what)} in line {line} must be a name, in quotes where it looks otherwise"
                )
            if key.value in seen:
                raise yaml.YAMLError(f"key {_cut(repr(key.value))} stands twice, again in line {line}")
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > MAX_SHOWN:
            raise yaml.YAMLError(f"a number of {len(node.value)} digits in line {node.start_mark.line + 1}")
        return super().construct_yaml_int(node)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        number = super().construct_yaml_float(node)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number  # 1e6 is a whole number


_ConfigLoader.add_constructor("tag:yaml.org,2002:int", _ConfigLoader.construct_yaml_int)
_ConfigLoader.add_constructor("tag:yaml.org,2002:float", _ConfigLoader.construct_yaml_float)
_ConfigLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _load_yaml(text: str) -> Any:
    """What a YAML text says.

    Raises:
        ValueError: it says nothing that a config could; the message is one line.
    """
    try:
        return yaml.load(text, _ConfigLoader)
    except RecursionError:
        raise ValueError("nested too deep") from None
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, TypeError) as error:
        raise ValueError(_cut(" ".join(str(error).split()), 300)) from None


def _load_file(file: Path) -> dict:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"{file}: no config, it is longer than {MAX_BYTES} bytes")
        given = _load_yaml(data.decode())
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: no UTF-8 text") from None
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{file}: no YAML: {error}") from None
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise ConfigError(f"{file}: must hold keys and values, not {_show(given)}")
    return given


def _read_overrides(arguments: Sequence[str]) -> dict[str, Any]:
    """`--key value` and `--key=value` as a dict; where a key comes twice the last one counts."""
    texts, named = _text_keys(), {}
    rest = list(arguments)
    while rest:
        name, equals, text = rest.pop(0).partition("=")
        if not name.startswith("--") or name == "--":
            raise ConfigError(
                f"{COMMAND_LINE}: {_show(name + equals + text)} must be a key with two dashes, --key value"
            )
        key = name[2:]
        if not equals:
            if not rest or rest[0].startswith("--"):
                _flatten({key: ""}, COMMAND_LINE)  # an unknown key is the greater mistake
                raise ConfigError(f"{COMMAND_LINE}: key {key!r} has no value")
            text = rest.pop(0)
        try:
            named[key] = text if key in texts else _load_yaml(text)
        except ValueError as error:
            raise ConfigError(f"{COMMAND_LINE}: {key}={_show(text)} is no YAML: {error}") from None
    return named


def _flatten(given: dict[str, Any], source: str) -> dict[str, Any]:
    """Settings as dotted keys.

    Raises:
        ConfigError: a key does not exist (the message names the nearest one that does), has no value or stands twice.
    """
    flat: dict[str, Any] = {}
    _add_flat(flat, given, _keys(TrainConfig), source)
    return flat


def _add_flat(flat: dict[str, Any], given: dict[str, Any], known: dict[str, Any], source: str, path: str = "") -> None:
    for key, value in given.items():
        head, _, rest = key.partition(".")
        if head not in known:
            near = difflib.get_close_matches(head, known, 1, 0.5)
            hint = f"did you mean {path + near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{source}: unknown key {_show(path + head)}; {hint}")
        if value is None:
            raise ConfigError(f"{source}: key {path + key!r} has no value")
        if known[head] is None:
            if rest:
                raise ConfigError(f"{source}: unknown key {_show(path + key)}; {path + head!r} has no keys of its own")
            if path + head in flat:
                raise ConfigError(f"{source}: key {path + head!r} stands twice")
            flat[path + head] = value
        elif rest or isinstance(value, dict):
            _add_flat(flat, {rest: value} if rest else value, known[head], source, f"{path}{head}.")
        else:
            raise ConfigError(f"{source}: {path + head}={_show(value)} must hold keys: {', '.join(known[head])}")


def _typed(flat: dict[str, Any], source: str) -> TrainConfig:
    """The config of dotted keys, each of the type that its class says."""
    parser = _parser()
    try:
        parsed = parser.parse_object(_nest(flat))
    except ArgumentError as error:
        text = " ".join(str(error).split())
        key = next((key for key in flat if f'"{key}"' in text), None)
        if key is None:
            raise ConfigError(f"{source}: {_cut(text, 300)}") from None
        raise ConfigError(f"{source}: {key}={_show(flat[key])} must be {_allowed(_leaf_types()[key])}") from None
    # jsonargparse's restricted numbers are classes of their own; dumped and read again they are plain ones.
    return _build(TrainConfig, json.loads(parser.dump(parsed, format="json")))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(TrainConfig, None)
    return parser


def _nest(flat: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested dicts."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *groups, name = key.split(".")
        inner = nested
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = value
    return nested


def _build(cls: type, values: dict[str, Any]) -> Any:
    """A settings class of a dict with all its keys."""
    types = get_type_hints(cls)
    made = {name: _build(types[name], value) if is_dataclass(types[name]) else value for name, value in values.items()}
    return cls(**made)


def _keys(cls: type) -> dict[str, Any]:
    """Every key of a settings class, with the keys below it where it is a class itself."""
    types = get_type_hints(cls)
    return {f.name: _keys(types[f.name]) if is_dataclass(types[f.name]) else None for f in fields(cls)}


def _leaf_types(cls: Any = TrainConfig, path: str = "") -> dict[str, Any]:
    """The types of all settings by dotted key."""
    leaves: dict[str, Any] = {}
    for name, kind in get_type_hints(cls).items():
        leaves |= _leaf_types(kind, f"{path}{name}.") if is_dataclass(kind) else {path + name: kind}
    return leaves


def _text_keys() -> set[str]:
    """The keys whose values on the command line are taken as they stand."""
    return {key for key, kind in _leaf_types().items() if kind is str}


def _allowed(kind: Any) -> str:
    """What a type allows, in words."""
    if hasattr(kind, "allowed"):
        return kind.allowed
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin in (Union, UnionType):
        return ", or ".join(map(_allowed, arguments))
    if origin is list:
        return f"a list, each entry {_allowed(arguments[0])}"
    if origin is dict:
        return f"names, each with {_allowed(arguments[1])}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[kind]


def _show(value: object) -> str:
    """A value in a message."""
    try:
        return _cut(repr(value))
    except ValueError:  # Python does not turn numbers of more than 4,300 digits into text
        return "a number of thousands of digits"


def _cut(text: str, length: int = MAX_SHOWN) -> str:
    return text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"
