"""A dataclass as settings: its fields from a TOML file or plain values, and back to a file that gives the same fields.

A field can be set where its type is ``Annotated`` with an option of typer; a field that is itself a dataclass stands
for its own fields, so a file is flat. Keys are the names of the fields. This module knows no command.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from rir_gym.errors import StoreError, UsageError

__all__ = [
    "SETTINGS",
    "OnOff",
    "Setting",
    "from_values",
    "keep_settings",
    "parse_arguments",
    "read_settings",
    "settings_of",
    "toml_text",
    "values_of",
]

T = TypeVar("T")

SETTINGS = "settings.toml"
"""The name of the file in a run folder."""


@dataclass(frozen=True, slots=True)
class OnOff:
    """A field of two values that is a flag on the command line: what it is with the flag, and without."""

    on: str
    off: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One field that can be set.

    Args:
        kind: its type; ``one_of`` are the values of a literal, () of any other.
        option: what typer is told about it.
        default: ``dataclasses.MISSING`` where it must be given.
        flag: where it is a flag on the command line.
    """

    name: str
    kind: Any
    option: Any
    default: Any
    optional: bool = False
    one_of: tuple[str, ...] = ()
    flag: OnOff | None = None

    @property
    def allowed(self) -> str:
        """What a value may be, in words."""
        if self.one_of:
            return f"one of {', '.join(self.one_of)}"
        words = {
            bool: "true or false",
            int: "a whole number",
            float: "a number",
            str: "a text",
            Path: "a text (a path)",
            tuple: "a list of texts",
            dict: "a table, or a list of texts 'name=JSON'",
        }
        return words[self.kind]


def settings_of(cls: type[Any]) -> tuple[Setting, ...]:
    """Every field of a dataclass that can be set, those of inner dataclasses in their place."""
    return tuple(_settings(cls))


def _settings(cls: type[Any]) -> Iterator[Setting]:
    hints = get_type_hints(cls, include_extras=True)
    for each in fields(cls):
        hint = hints[each.name]
        if is_dataclass(hint):
            yield from _settings(hint)  # type: ignore[arg-type]
        elif get_origin(hint) is Annotated:
            kind, option, *more = get_args(hint)
            default = each.default_factory() if each.default_factory is not MISSING else each.default
            some = [one for one in (get_args(kind) if _is_union(kind) else (kind,)) if one is not NoneType]
            literal = get_args(some[0]) if get_origin(some[0]) is Literal else ()
            yield Setting(
                each.name,
                str if literal else (get_origin(some[0]) or some[0]),
                option,
                default,
                optional=_is_union(kind),
                one_of=literal,
                flag=next((one for one in more if isinstance(one, OnOff)), None),
            )


def _is_union(kind: Any) -> bool:
    return NoneType in get_args(kind)


# --- values to a dataclass and back -----------------------------------------------------------------------------------


def from_values(cls: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass with these values by name; inner dataclasses take theirs."""
    hints = get_type_hints(cls)
    given: dict[str, Any] = {}
    for each in fields(cls):  # type: ignore[arg-type]
        if is_dataclass(hints[each.name]):
            given[each.name] = from_values(hints[each.name], values)
        elif each.name in values:
            given[each.name] = values[each.name]
    return cls(**given)


def values_of(settings: Any) -> dict[str, Any]:
    """The values by name: what ``from_values`` takes."""
    values: dict[str, Any] = {}
    for each in fields(settings):
        value = getattr(settings, each.name)
        values |= values_of(value) if is_dataclass(value) else {each.name: value}
    return values


def parse_arguments(pairs: Iterable[str]) -> dict[str, Any]:
    """``["level=2", "name=text"]`` → ``{"level": 2, "name": "text"}``: values are JSON, anything else is text.

    Raises:
        UsageError: no "=" in a pair.
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name.isidentifier():
            raise UsageError(f"env-arg={pair!r}: name=value")
        try:
            arguments[name] = json.loads(value)
        except (json.JSONDecodeError, RecursionError):
            arguments[name] = value
    return arguments


# --- files ------------------------------------------------------------------------------------------------------------


def read_settings(cls: type[Any], file: Path, *, command: str) -> dict[str, Any]:
    """The values that a TOML file sets, by name, checked against the fields of ``cls``.

    Raises:
        UsageError: it cannot be read, is no TOML, is of another command, has an unknown key or a value of the wrong
            type; the message names the file, the key and what is allowed.
    """
    try:
        table = tomllib.loads(file.read_bytes().decode("utf-8", "surrogateescape").replace("\r\n", "\n"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else f"not TOML: {error}"
        raise UsageError(f"config={str(file)!r}: cannot be read ({why}); a TOML file of settings") from error
    if (said := table.pop("command", command)) != command:
        raise UsageError(f"{file}: command={said!r}: these are no settings of rir-gym {command}")
    known = {setting.name: setting for setting in settings_of(cls)}
    return {name: _checked(known, name, value, file) for name, value in table.items()}


def _checked(known: Mapping[str, Setting], name: str, value: Any, file: Path) -> Any:
    if name not in known:
        close = get_close_matches(name.replace("-", "_"), known, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"{file}: {name}={value!r}: unknown key; {hint}known are {', '.join(sorted(known))}")
    setting = known[name]
    try:
        return _converted(setting, value)
    except (TypeError, ValueError, UsageError) as error:
        raise UsageError(f"{file}: {name}={value!r}: {setting.allowed} is required") from error


def _converted(setting: Setting, value: Any) -> Any:
    """The value of the field for a value of TOML; ValueError or TypeError where there is none."""
    if setting.kind is dict:
        return parse_arguments(map(_text, _pairs(value) if isinstance(value, Mapping) else list(value)))
    if setting.kind is tuple:
        return tuple(map(_text, value)) if isinstance(value, list) else _text(None)
    if setting.kind is bool:
        if not isinstance(value, bool):
            raise TypeError
        return value
    if setting.kind in (int, float):
        if isinstance(value, bool) or not isinstance(value, int | setting.kind):
            raise TypeError
        return setting.kind(value)
    if setting.one_of and value not in setting.one_of:
        raise ValueError
    return setting.kind(_text(value))


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{name}={json.dumps(value)}" for name, value in table.items()]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def toml_text(settings: Any, *, command: str, without: Iterable[str] = ()) -> str:
    """The settings as a TOML file; ``read_settings`` gives the same values. What is None is left out."""
    lines = [f"command = {_toml(command)}"]
    left_out = set(without)
    for setting in settings_of(type(settings)):
        value = values_of(settings)[setting.name]
        if value is None or setting.name in left_out:
            continue
        try:
            lines.append(f"{setting.name} = {_toml(value)}")
        except TypeError:  # a null somewhere in a table: TOML has none
            lines.append(f"{setting.name} = {_toml(_pairs(value))}")
    return "\n".join(lines) + "\n"


def keep_settings(folder: Path, settings: Any, *, command: str) -> None:
    """Write them as ``settings.toml`` of a run folder, without the name of the folder; as a whole or not at all.

    Raises:
        StoreError: it cannot be written.
    """
    text = toml_text(settings, command=command, without=("out", "overwrite"))
    work = folder / f"{SETTINGS}.partial"
    try:
        work.write_bytes(text.encode("utf-8", "surrogateescape"))
        os.replace(work, folder / SETTINGS)
    except OSError as error:
        with suppress(OSError):
            work.unlink()
        raise StoreError(f"path={str(folder)!r}: cannot be written ({error.strerror or error})") from error


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(str(key))} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    raise TypeError(f"{value!r}: no value of TOML")
