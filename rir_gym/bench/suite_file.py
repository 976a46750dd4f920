"""Suites from TOML files: those that come along (``suites/``) by name, any other by its path.

A mistake is one error that says where it stands. This module knows no mechanism and no environment.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from rir_gym.bench.suite import Reviewer, Section, Suite, World
from rir_gym.errors import UnknownName, UsageError

__all__ = ["load_suite", "suite_names", "suite_of"]


def suite_names() -> tuple[str, ...]:
    """The suites that come along."""
    found = (Path(str(item)) for item in files("rir_gym.bench").joinpath("suites").iterdir())
    return tuple(sorted(item.stem for item in found if item.suffix == ".toml"))


def load_suite(name: str) -> Suite:
    """The suite of a name that comes along, or of the path of a TOML file.

    Raises:
        UnknownName: neither.
        UsageError: the file is not what it should be; the message says where.
    """
    if name in suite_names():
        text = files("rir_gym.bench").joinpath("suites", f"{name}.toml").read_text("utf-8")
        return suite_of(_parsed(text, name))
    path = Path(name)
    if path.suffix != ".toml":
        raise UnknownName("suite", name, [*suite_names(), "the path of a .toml file"])
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"suite={name!r}: cannot be read ({error})") from error
    return suite_of(_parsed(text, name))


def suite_of(table: Mapping[str, Any]) -> Suite:
    """A suite from plain values, as they stand in TOML or JSON.

    Raises:
        UsageError: something is missing, unknown, of another type or out of range.
    """
    made = dict(table)
    for name, cls in (("worlds", World), ("reviewers", Reviewer), ("sections", Section)):
        rows = made.get(name, [])
        if not isinstance(rows, Sequence) or isinstance(rows, str):
            raise UsageError(f"{name}={rows!r}: a list of tables")
        made[name] = tuple([_built(cls, row, f"{name}[{number}]") for number, row in enumerate(rows)])
    suite: Suite = _built(Suite, made, "suite")
    return suite


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"suite={name!r}: not TOML ({error})") from error


_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}


def _built(cls: type[Any], row: Any, where: str) -> Any:
    """An instance of one of our dataclasses; lists become tuples."""
    if not isinstance(row, Mapping):
        raise UsageError(f"{where}={row!r}: a table")
    known = {each.name: each for each in fields(cls)}
    if unknown := sorted(row.keys() - known.keys()):
        raise UnknownName(f"{where}", unknown[0], known)
    given: dict[str, Any] = {}
    for name, each in known.items():
        needed = each.default is MISSING and each.default_factory is MISSING
        if name not in row:
            if needed:
                raise UsageError(f"{where}.{name}: missing")
            continue
        value = _tupled(row[name])
        kind = str(each.type)
        plain = _KINDS.get(kind)
        if plain is not None and (not isinstance(value, plain) or isinstance(value, bool) != (kind == "bool")):
            raise UsageError(f"{where}.{name}={value!r}: {kind} is required")
        if kind.startswith("tuple") and not isinstance(value, tuple):
            raise UsageError(f"{where}.{name}={value!r}: a list is required")
        if kind == "tuple[str, ...]" and not all(isinstance(one, str) for one in value):
            raise UsageError(f"{where}.{name}={list(value)!r}: a list of names")
        if kind.startswith("Mapping") and not isinstance(value, Mapping):
            raise UsageError(f"{where}.{name}={value!r}: a table is required")
        given[name] = value
    try:
        return cls(**given)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error


def _tupled(value: Any) -> Any:
    return tuple([_tupled(one) for one in value]) if isinstance(value, list) else value
