"""One command as a value: a line such as ``move inbox/a.txt old/a.txt``, or a JSON call with the same names.

    list [FOLDER]            read PATH [LINE]         search TEXT
    write PATH TEXT          append PATH TEXT         move PATH TO
    copy PATH TO             delete PATH              query PATH SQL
    post PATH ACCOUNT AMOUNT REFERENCE                calculate EXPRESSION
    send TO PATH             submit ANSWER

    {"tool": "move", "path": "inbox/a.txt", "to": "old/a.txt"}

This module knows the form of a command and nothing of what it does. Whatever is no command is a reason, not an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rir_envs.workspace_names import COMMAND

__all__ = ["TOOLS", "Command", "parsed", "submission"]

TOOLS: Mapping[str, tuple[str, ...]] = {
    "list": ("folder",),
    "read": ("path", "line"),
    "search": ("text",),
    "write": ("path", "text"),
    "append": ("path", "text"),
    "move": ("path", "to"),
    "copy": ("path", "to"),
    "delete": ("path",),
    "query": ("path", "sql"),
    "post": ("path", "account", "amount", "reference"),
    "calculate": ("expression",),
    "send": ("to", "path"),
    "submit": ("answer",),
}
"""The tools and the names of their arguments, in the order of a line. The last argument of a tool may hold spaces."""

_OPTIONAL = {"list": {"folder"}, "read": {"line"}, "submit": {"answer"}}
_FREE = ("text", "sql", "expression", "answer")
_CALL = re.compile(r"submit\((.*)\)", re.DOTALL)
_ESCAPES = {"\\n": "\n", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class Command:
    """A tool and its arguments by name, all of them texts; what may be left out and is, is ""."""

    tool: str
    arguments: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.arguments[name]


def parsed(action: str) -> Command | str:
    """The command that a text is, or the reason why it is none.

    In a line, the text of ``write`` and ``append`` reads ``\\n`` as a line break and ``\\\\`` as a backslash, and the
    text of ``search`` may stand in double quotes. The values of a JSON call are taken as they are; numbers count as
    their text.
    """
    if len(action) > COMMAND:
        return f"a command has at most {COMMAND} characters"
    text = action.strip()
    if not text:
        return "there is no command"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the command holds a character that is none (half of a surrogate pair)"
    return _call(text) if text.startswith("{") else _line(text)


def submission(answer: str) -> str:
    """The line that submits an answer."""
    return f"submit {answer}" if answer.strip() else "submit"


def _line(text: str) -> Command | str:
    if (call := _CALL.fullmatch(text)) is not None:
        return Command("submit", {"answer": call[1].strip().strip("\"'")})
    tool, *rest = text.split(None, 1)
    if tool not in TOOLS:
        return _unknown(tool)
    names = TOOLS[tool]
    found = rest[0].split(None, len(names) - 1) if rest else []
    if len(found) < len(names) and (set(names[len(found) :]) - _OPTIONAL.get(tool, set())):
        return f"{tool} needs {_form(tool)}"
    values = {**dict.fromkeys(names, ""), **dict(zip(names, found, strict=False))}
    last = names[-1]
    if last not in _FREE and len(values[last].split()) > 1:
        return f"{tool} takes no more than {_form(tool)}; one command at a time"
    if tool in ("write", "append"):
        values["text"] = re.sub(r"\\n|\\\\", lambda met: _ESCAPES[met[0]], values["text"])
    if tool == "search" and len(values["text"]) > 1 and values["text"][0] == values["text"][-1] == '"':
        values["text"] = values["text"][1:-1]
    return Command(tool, values)


def _call(text: str) -> Command | str:
    try:
        given = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return 'this is no JSON call; one is like {"tool": "read", "path": "notes/a.txt"}'
    tool = given.get("tool")
    if not isinstance(tool, str) or tool not in TOOLS:
        return _unknown(tool)
    names = TOOLS[tool]
    values = {name: given.get(name, "") for name in names}
    missing = [name for name in names if name not in given and name not in _OPTIONAL.get(tool, set())]
    if missing or set(given) - {"tool", *names}:
        return f"{tool} takes these arguments: {', '.join(names) or 'none'}"
    if not all(isinstance(value, str) for value in values.values()):
        return f"{tool}: every argument is a text"
    try:
        "".join(values.values()).encode()
    except UnicodeEncodeError:
        return "the command holds a character that is none (half of a surrogate pair)"
    return Command(tool, values)


def _form(tool: str) -> str:
    optional = _OPTIONAL.get(tool, set())
    return " ".join([tool, *(f"[{name.upper()}]" if name in optional else name.upper() for name in TOOLS[tool])])


def _unknown(tool: object) -> str:
    shown = ascii(tool if not isinstance(tool, str) or len(tool) <= 40 else tool[:37] + "...")
    return f"there is no tool {shown[:60]}; the tools are {', '.join(TOOLS)}"
