"""Commands from dataclasses: the fields are the options, ``--config`` fills them from a file, examples end the help.

What stands on the command line comes before what stands in the file, and that before the default. This module knows
typer, and no command.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from rir_gym.cli.options import Json
from rir_gym.cli.settings import Setting, from_values, parse_arguments, read_settings, settings_of
from rir_gym.errors import UsageError

__all__ = ["command", "ending"]

T = TypeVar("T")
_Main = Callable[[T, bool], "int | None"]


def ending(*examples: str) -> str:
    """The end of a help text: commands that run as they stand."""
    return "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)


def command(app: typer.Typer, name: str, cls: type[T], *, examples: Sequence[str]) -> Callable[[_Main[T]], _Main[T]]:
    """Register a function of (settings, as_json) as a command; its docstring is the help, its result the exit code.

    Args:
        cls: a dataclass as ``rir_gym.cli.settings`` describes it.
    """

    def add(function: _Main[T]) -> _Main[T]:
        def called(**given: Any) -> int | None:
            values = {setting.name: _value(setting, given[setting.name]) for setting in known}
            return function(from_values(cls, values), given["as_json"])

        known = settings_of(cls)
        parameters = [*map(_parameter, known), *_common(cls, name)]
        called.__doc__, called.__name__ = function.__doc__, function.__name__
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app.command(name, epilog=ending(*examples))(called)
        return function

    return add


def _parameter(setting: Setting) -> inspect.Parameter:
    kind, default = setting.kind, setting.default
    if setting.flag is not None:
        kind, default = bool, default == setting.flag.on
    elif kind in (dict, tuple):
        kind, default = list[str] | None, None
    elif setting.optional:
        kind = kind | None
    return _keyword(setting.name, Annotated[kind, setting.option], default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    empty = inspect.Parameter.empty
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=empty if default is MISSING else default, annotation=annotation
    )


def _common(cls: type[Any], name: str) -> list[inspect.Parameter]:
    """``--config`` and ``--json``."""

    def read(context: typer.Context, file: Path | None) -> Path | None:
        if file is not None and not context.resilient_parsing:
            found = read_settings(cls, file, command=name)
            context.default_map = {each.name: _given(each, found[each.name]) for each in known if each.name in found}
        return file

    known = settings_of(cls)
    option = typer.Option(help="TOML file of settings; options given here come first.", callback=read, is_eager=True)
    return [_keyword("config", Annotated[Path | None, option], None), _keyword("as_json", Json, False)]


def _value(setting: Setting, given: Any) -> Any:
    """The value of the field for what typer gives.

    Raises:
        UsageError: a null byte, which no name and no path can have.
    """
    if isinstance(given, str | Path) and "\0" in str(given):
        raise UsageError(f"{setting.name}={str(given)!r}: a text without a null byte")
    if setting.flag is not None:
        return setting.flag.on if given else setting.flag.off
    if setting.kind is dict:
        return parse_arguments(given or ())
    return tuple(given or ()) if setting.kind is tuple else given


def _given(setting: Setting, value: Any) -> Any:
    """What the command line would have to say for a value of the field: the other way round."""
    if setting.flag is not None:
        return value == setting.flag.on
    if isinstance(value, Mapping):
        return [f"{name}={json.dumps(one)}" for name, one in value.items()]
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
