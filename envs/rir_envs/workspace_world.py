"""The rules of the workspace as values and pure functions: a task, a state, and what a command makes of it.

This module knows neither disk nor Gymnasium, no plans and no agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from rir_envs.workspace_answers import same_answer
from rir_envs.workspace_commands import Command, parsed
from rir_envs.workspace_goal import Content, Goal, Message, done, typed
from rir_envs.workspace_tables import entries
from rir_envs.workspace_tools import Files, Refusal, asked, changed, listing, paths_refused

__all__ = [
    "ACCEPTED",
    "REJECTED",
    "State",
    "Task",
    "advance",
    "contents",
    "description",
    "first",
    "messages",
    "success",
]

ACCEPTED, REJECTED = "Accepted.", "Not accepted."
_CHANGING = ("write", "append", "move", "copy", "delete", "post")
_SENT_MOST = 64
_STAMP = 16  # bytes of a stamp, its line break included


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What no command can change.

    Args:
        name: what it is called in ``info``.
        objective: g, with the rules of the task.
        files: what lies there at the start.
        recipients: to whom something can be sent.
        goal: what must hold in the end.
    """

    name: str
    objective: str
    files: Files
    recipients: tuple[str, ...]
    goal: Goal

    @property
    def start(self) -> Mapping[str, Content]:
        """The files at the start as contents."""
        return contents(self, self.files)


@dataclass(frozen=True, slots=True)
class State:
    """What commands change; ``answer`` is None until one is submitted. Its values are never changed in place."""

    files: Files
    sent: tuple[tuple[str, bytes], ...] = ()
    answer: str | None = None


def first(task: Task) -> str:
    """What is shown at the start."""
    return listing(task.files)


def advance(task: Task, state: State, action: str) -> tuple[State, str, bool]:
    """The state after ``action``, what the agent is told, and whether something went out that cannot be taken back."""
    command = parsed(action)
    if isinstance(command, str):
        return state, str(Refusal(command)), False
    if command.tool == "submit":
        after = replace(state, answer=command["answer"])
        return after, ACCEPTED if success(task, after) else REJECTED, False
    if command.tool == "send":
        return _sent(task, state, command)
    if command.tool not in _CHANGING:
        return state, str(asked(state.files, command)), False
    result = changed(state.files, command)
    if isinstance(result, Refusal):
        return state, str(result), False
    return replace(state, files=result[0]), result[1], False


def success(task: Task, state: State) -> bool:
    """Whether the right answer was submitted and all else that was asked for holds."""
    if state.answer is None or not same_answer(state.answer, task.goal.answer):
        return False
    return done(task.goal, contents(task, state.files), messages(task, state))


def messages(task: Task, state: State) -> tuple[Message, ...]:
    """What was sent, as contents."""
    return tuple([(to, contents(task, {"sent.x": data})["sent.x"]) for to, data in state.sent])


def contents(task: Task, files: Files) -> dict[str, Content]:
    """Where what lies in each file came from."""
    known = _stamps(task)
    return {path: _content(data, known) for path, data in files.items()}


def description(task: Task, state: State) -> str:
    """σ: what differs from the start, as the agent could know it; nothing of what is right."""
    new = sorted(state.files.keys() - task.files.keys())
    gone = sorted(task.files.keys() - state.files.keys())
    other = sorted(path for path in state.files.keys() & task.files.keys() if state.files[path] != task.files[path])
    parts = [f"{word} {_few(paths)}" for word, paths in (("new", new), ("gone", gone), ("changed", other)) if paths]
    parts += [f"sent to {', '.join(to for to, _ in state.sent)}"] if state.sent else []
    parts += ["answer submitted"] if state.answer is not None else []
    return "; ".join(parts) or "as at the start"


def _sent(task: Task, state: State, command: Command) -> tuple[State, str, bool]:
    refusal = paths_refused(state.files, command)
    to, path = command["to"], command["path"]
    if refusal is None and to not in task.recipients:
        known = ", ".join(task.recipients) or "nobody"
        refusal = Refusal(f"there is no recipient {to[:40]!a}; there is {known}")
    if refusal is None and len(state.sent) >= _SENT_MOST:
        refusal = Refusal(f"at most {_SENT_MOST} files can be sent")
    if refusal is not None:
        return state, str(refusal), False
    after = replace(state, sent=(*state.sent, (to, state.files[path])))
    return after, f"Sent {path} to {to}. This cannot be taken back.", True


_Known = Mapping[bytes, tuple[str, bytes]]


@lru_cache(maxsize=64)
def _stamps(task: Task) -> _Known:
    """The beginning of every file at the start that no command can type, with its path and all of it."""
    return {
        data[:_STAMP] if _stamped(data) else data: (path, data) for path, data in task.files.items() if _special(data)
    }


def _stamped(data: bytes) -> bool:
    return data.startswith(b"\xff")


def _special(data: bytes) -> bool:
    return _stamped(data) or data.startswith(b"SQLite format 3\0")


def _content(data: bytes, known: _Known) -> Content:
    if _stamped(data):
        origin, start = known.get(data[:_STAMP], ("", b""))
        if origin and data.startswith(start):
            return Content(origin, tuple(data[len(start) :].decode(errors="replace").split("\n")[:-1]))
    elif _special(data):
        rows = entries(data)
        for origin, start in known.values() if rows is not None else ():
            base = entries(start) if _special(start) and not _stamped(start) else None
            if base is not None and rows is not None and rows[: len(base)] == base:
                return Content(origin, rows[len(base) :])
    return typed(data.decode("latin-1") if _special(data) else data.decode(errors="replace"))


def _few(paths: list[str]) -> str:
    return ", ".join(paths[:6]) + (f" and {len(paths) - 6} more" if len(paths) > 6 else "")
