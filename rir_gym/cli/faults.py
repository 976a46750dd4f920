"""What went wrong as one line with its remedy, and as an exit code. Knows errors, and no command.

0    fine
1    done, and something wrong was found (``data check``, ``doctor --deep``)
2    it cannot be done as asked: a wrong option, name, file or folder, or an extra or a model is missing
3    it was begun and ended early (a full disk, an episode that failed twice); what was finished is kept
70   a fault that nobody foresaw; ``--debug`` shows where
130  interrupted

"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import typer

from rir_gym.errors import CollectError, RirError, WorldDied

__all__ = ["EARLY", "FOUND", "INTERRUPTED", "UNFORESEEN", "WRONG", "line_of"]

FOUND, WRONG, EARLY, UNFORESEEN, INTERRUPTED = 1, 2, 3, 70, 130

# Some versions of typer bring click's exceptions along, others depend on click: this is the class in either case.
_BadCommandLine: type[Exception] = next(
    cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException" and issubclass(cls, Exception)
)
_OUT_OF_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def line_of(error: Exception, words: Sequence[str] = ()) -> tuple[str, int]:
    """The line for a person, without its end, and the exit code.

    Args:
        words: the command line, in which a wrong value is looked up.
    """
    if isinstance(error, _BadCommandLine):
        return _plain(_of_command_line(error, words)), WRONG
    if isinstance(error, RirError):
        early = isinstance(error, CollectError | WorldDied) or _out_of_room(error)
        return _plain(str(error)), EARLY if early else WRONG
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return _plain(f"{place}{error.strerror}"), EARLY if _out_of_room(error) else WRONG
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return _plain(f"{name}: {error} (nobody foresaw this; --debug shows where)"), UNFORESEEN


def _of_command_line(error: Exception, words: Sequence[str]) -> str:
    """What typer says, the value that it is about, and where to read on."""
    said = str(getattr(error, "format_message", error.__str__)()).strip()
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    reason = getattr(error, "message", "")
    if reason and parameter is not None:
        value = _value(parameter, context, words)
        if value is not None and repr(value) not in said:
            said = f"{parameter.opts[0]}={value!r}: {reason}"
    listed = getattr(getattr(context, "command", None), "commands", None)
    if said.startswith("No such command") and listed:
        said = f"{said.rstrip('.')}{' C' if said.endswith('?') else '; c'}ommands are {', '.join(sorted(listed))}"
    path = context.command_path if context is not None else "rir-gym"
    return f"{said.rstrip('.')}{' See' if said.endswith('?') else '; see'} {path} --help"


def _value(parameter: Any, context: Any, words: Sequence[str]) -> Any:
    """What was given for an option, on the command line or else in the file of settings; None where that is unknown."""
    names = (*parameter.opts, *parameter.secondary_opts)
    given = [after for word, after in pairwise([*words, ""]) if word in names]
    given += [word.partition("=")[2] for word in words if word.partition("=")[0] in names and "=" in word]
    if given:
        return given[-1]
    return (getattr(context, "default_map", None) or {}).get(parameter.name)


def _out_of_room(error: BaseException | None) -> bool:
    """Whether a full disk, or another fault of the place, is behind it."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _OUT_OF_ROOM:
            return True
        error = error.__cause__
    return False


def _plain(text: str) -> str:
    """One line that steers no terminal."""
    return "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
