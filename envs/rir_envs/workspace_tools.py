"""What the tools of the workspace do to its files, as pure functions: by path, bytes before and bytes after.

A stamped file begins with a line that is no UTF-8 text, so no command can type it again: it can be moved, copied and
added to, and it is gone for good when its last copy is overwritten or deleted. This module knows no disk, no task and
no agent; sending and submitting are not done here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rir_envs.workspace_arithmetic import calculated
from rir_envs.workspace_commands import Command
from rir_envs.workspace_names import OUTPUT, folder_problem, path_problem, size_problem
from rir_envs.workspace_tables import posted, queried

__all__ = ["GONE", "REFUSED", "Files", "Refusal", "asked", "changed", "listing", "paths_refused"]

Files = Mapping[str, bytes]

GONE = " What it held is gone."
REFUSED = "Refused: "

_KINDS = {"csv": "csv", "json": "json", "sqlite": "sqlite", "sqlite3": "sqlite", "db": "sqlite"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_AMOUNT = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that is not done, and why."""

    why: str

    def __str__(self) -> str:
        return f"{REFUSED}{self.why}."


def paths_refused(files: Files, command: Command) -> Refusal | None:
    """What is wrong with the paths of a command: no path at all, or no file where one is needed."""
    named = [command[name] for name in ("path",) if "path" in command.arguments]
    named += [command["to"]] if command.tool in ("move", "copy") else []
    for path in named:
        if (problem := path_problem(path)) is not None:
            return Refusal(problem)
    if named and command.tool not in ("write", "append") and named[0] not in files:
        return Refusal(f"there is no file {named[0]}")
    return None


def asked(files: Files, command: Command) -> str | Refusal:
    """The answer to a command that changes nothing: list, read, search, query or calculate."""
    return paths_refused(files, command) or _cut(_ASKING[command.tool](files, command))


def changed(files: Files, command: Command) -> tuple[Files, str] | Refusal:
    """The files after write, append, move, copy, delete or post, and what is said; sizes are checked."""
    if (refusal := paths_refused(files, command)) is not None:
        return refusal
    result = _CHANGING[command.tool](files, command)
    if not isinstance(result, Refusal):
        problem = size_problem(files, result[0])
        if problem is not None:
            return Refusal(problem)
    return result


def listing(files: Files, folder: str = "") -> str:
    """The paths and sizes of all files, or of those in a folder."""
    lines = [f"{path} ({len(data)} bytes)" for path, data in sorted(files.items()) if path.startswith(folder)]
    return "\n".join(["Files:", *lines] if lines else ["There are no files."])


def _list(files: Files, command: Command) -> str | Refusal:
    folder = command["folder"].removesuffix("/")
    if folder in ("", "."):
        return listing(files)
    problem = folder_problem(folder)
    return Refusal(problem) if problem is not None else listing(files, f"{folder}/")


def _read(files: Files, command: Command) -> str | Refusal:
    path, first = command["path"], command["line"] or "1"
    if not (first.isascii() and first.isdigit() and int(first[:9]) > 0 and len(first) < 10):
        return Refusal("a line is a number from 1")
    stamp, text = _text(files[path])
    if text is None:
        return Refusal(f"{path} is no text; it has {len(files[path])} bytes")
    lines = text.splitlines()[int(first) - 1 :]
    return "\n".join([f"{path}{' (stamped)' if stamp else ''}:", *lines])


def _search(files: Files, command: Command) -> str | Refusal:
    wanted = command["text"].casefold()
    if not wanted:
        return Refusal("there is nothing to search for")
    found = []
    for path in sorted(files):
        text = _text(files[path])[1]
        if text is not None and wanted in text.casefold():
            found += [f"{path}: {line}" for line in text.splitlines() if wanted in line.casefold()]
    return "\n".join([f"Found in {len(found)} lines:", *found] if found else ["Found nowhere."])


def _query(files: Files, command: Command) -> str | Refusal:
    path = command["path"]
    kind = _KINDS.get(path.rpartition(".")[2])
    if kind is None:
        return Refusal(f"{path} is no table; {', '.join(_KINDS)} are")
    rows, why = queried(files[path], kind, command["sql"])
    return "\n".join(["Rows:", *rows]) if rows is not None else Refusal(why.rstrip("."))


def _calculate(files: Files, command: Command) -> str | Refusal:
    value, why = calculated(command["expression"])
    return f"= {value}" if value is not None else Refusal(why)


def _write(files: Files, command: Command) -> tuple[Files, str] | Refusal:
    path, text = command["path"], command["text"]
    if _CONTROL.search(text):
        return Refusal("a text holds no control characters")
    data = text.encode() + (b"" if text.endswith("\n") else b"\n")
    return {**files, path: data}, f"Wrote {len(data)} bytes to {path}." + (GONE if path in files else "")


def _append(files: Files, command: Command) -> tuple[Files, str] | Refusal:
    path, text = command["path"], command["text"].removesuffix("\n")
    if _CONTROL.search(text) or "\n" in text:
        return Refusal("append adds one line, without control characters")
    before = files.get(path, b"")
    if _text(before)[1] is None:
        return Refusal(f"{path} is no text")
    before += b"" if before.endswith(b"\n") or not before else b"\n"
    return {**files, path: before + text.encode() + b"\n"}, f"Appended a line to {path}."


def _move(files: Files, command: Command) -> tuple[Files, str] | Refusal:
    return _put(files, command, "Moved", keep=False)


def _copy(files: Files, command: Command) -> tuple[Files, str] | Refusal:
    return _put(files, command, "Copied", keep=True)


def _put(files: Files, command: Command, verb: str, *, keep: bool) -> tuple[Files, str] | Refusal:
    path, to = command["path"], command["to"]
    if path == to:
        return Refusal("both paths are the same")
    after = {at: data for at, data in files.items() if keep or at != path}
    return {**after, to: files[path]}, f"{verb} {path} to {to}." + (GONE if to in files else "")


def _delete(files: Files, command: Command) -> tuple[Files, str] | Refusal:
    path = command["path"]
    return {at: data for at, data in files.items() if at != path}, f"Deleted {path}."


def _post(files: Files, command: Command) -> tuple[Files, str] | Refusal:
    path, account, amount, reference = (command[name] for name in ("path", "account", "amount", "reference"))
    if not (_ACCOUNT.fullmatch(account) and _ACCOUNT.fullmatch(reference) and _AMOUNT.fullmatch(amount)):
        return Refusal("post takes an account, an amount like -12.50 and a reference, in a-z 0-9 -")
    after = posted(files[path], account, amount, reference)
    if after is None:
        return Refusal(f"{path} is no ledger")
    return {**files, path: after}, f"Posted {account} {amount} {reference} to {path}."


def _text(data: bytes) -> tuple[bytes, str | None]:
    """The stamp, where there is one, and the text after it; None where that is no text."""
    stamp, rest = b"", data
    if data.startswith(b"\xff"):
        stamp, _, rest = data.partition(b"\n")
    try:
        text = rest.decode()
    except UnicodeDecodeError:
        return stamp, None
    return stamp, None if "\0" in text else text


def _cut(text: str | Refusal) -> str | Refusal:
    if isinstance(text, Refusal) or len(text) <= OUTPUT:
        return text
    return text[:OUTPUT] + f"\n(cut: this is the beginning of {len(text)} characters)"


_ASKING: Mapping[str, Callable[[Files, Command], str | Refusal]] = {
    "list": _list,
    "read": _read,
    "search": _search,
    "query": _query,
    "calculate": _calculate,
}
_CHANGING: Mapping[str, Callable[[Files, Command], tuple[Files, str] | Refusal]] = {
    "write": _write,
    "append": _append,
    "move": _move,
    "copy": _copy,
    "delete": _delete,
    "post": _post,
}
