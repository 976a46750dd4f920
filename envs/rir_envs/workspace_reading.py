"""The words of the workspace read back into values: the inverse of the wording in ``workspace_tools``.

An action and its observation become files as they are believed to be, by where their contents came from, and answers
about the files as they lay at the start. Whatever cannot be read is skipped. Nothing here knows an environment, a
memory or what is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rir_envs.workspace_commands import Command, parsed
from rir_envs.workspace_goal import Content, Message, added, typed
from rir_envs.workspace_tools import GONE, REFUSED
from rir_envs.workspace_world import ACCEPTED, REJECTED
from rir_gym.base import Step

__all__ = ["Answer", "Believed", "key_of", "read"]

_LISTED = re.compile(r"(\S+) \(\d+ bytes\)")
_PUT = re.compile(r"(Moved|Copied) (\S+) to (\S+)\.")
_DELETED = re.compile(r"Deleted (\S+)\.")
_WROTE = re.compile(r"Wrote \d+ bytes to (\S+)\.")
_APPENDED = re.compile(r"Appended a line to (\S+)\.")
_POSTED = re.compile(r"Posted (\S+ \S+ \S+) to (\S+)\.")
_SENT = re.compile(r"Sent (\S+) to (\S+)\. This cannot be taken back\.")
_WHOLE = "\n(cut: "


@dataclass(frozen=True, slots=True)
class Believed:
    """The world after a step, as text tells it.

    Args:
        files: the content at each path.
        sent: what was sent.
        verdict: "" while the episode goes on, else ``ACCEPTED`` or ``REJECTED``.
        replaced: whether the step replaced what lay at a path.
    """

    files: Mapping[str, Content]
    sent: tuple[Message, ...] = ()
    verdict: str = ""
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answered about the files at the start, and the step of the observation that shows it."""

    key: str
    text: str
    step: int


def read(history: Sequence[Step]) -> tuple[list[Believed], list[Answer], frozenset[str]]:
    """The believed world after each step, the answers about the start, and the keys of all that was asked."""
    first = history[0].observation if history else ""
    start = {path: Content(path) for path in _LISTED.findall(first)} if isinstance(first, str) else {}
    worlds, answers, tried = [Believed(start)], list[Answer](), set[str]()
    for i, step in enumerate(history[1:], 1):
        before, said = worlds[-1], step.observation
        command = parsed(step.action) if isinstance(step.action, str) else ""
        if not isinstance(said, str) or not isinstance(command, Command) or said.startswith(REFUSED):
            worlds.append(replace(before, replaced=False))
            continue
        worlds.append(_after(before, command, said))
        if (key := _asked(command, before)) is not None:
            tried.add(key)
            text = _about_start(command, said, before, start)
            if text is not None:
                answers.append(Answer(key, text, i))
    return worlds, answers, frozenset(tried)


def key_of(command: str) -> str:
    """One spelling of a command that asks."""
    known = parsed(command)
    return command if isinstance(known, str) else " ".join([known.tool, *filter(None, known.arguments.values())])


def _asked(command: Command, before: Believed) -> str | None:
    """The key of a command that asks, the path being where the content lay at the start."""
    if command.tool == "search":
        return f"search {command['text']}"
    if command.tool not in ("read", "query") or (content := before.files.get(command["path"])) is None:
        return None
    if not content.origin or content.more:
        return None
    return f"query {content.origin} {command['sql']}" if command.tool == "query" else f"read {content.origin}"


def _about_start(command: Command, said: str, before: Believed, start: Mapping[str, Content]) -> str | None:
    """What the answer says of the files as they lay at the start; None where it cannot say all of it."""
    if _WHOLE in said or command.arguments.get("line", "") not in ("", "1"):
        return None
    if command.tool != "search":
        return said
    origins = {path: content for path, content in before.files.items() if content.origin}
    if {content.origin for content in origins.values()} != set(start):
        return None  # something was lost before it could be found
    found = dict[str, None]()
    for line in said.splitlines()[1:]:
        path, _, text = line.partition(": ")
        content = origins.get(path)
        if content is not None and text not in content.more:
            found[f"{content.origin}: {text}"] = None
    return "\n".join([said.splitlines()[0], *sorted(found)])


def _after(before: Believed, command: Command, said: str) -> Believed:
    files, sent, verdict = dict(before.files), before.sent, before.verdict
    if (put := _PUT.match(said)) and put[2] in files:
        files[put[3]] = files[put[2]]
        if put[1] == "Moved" and put[2] != put[3]:
            del files[put[2]]
    elif met := _DELETED.match(said):
        files.pop(met[1], None)
    elif (met := _WROTE.match(said)) and command.tool == "write":
        text = command["text"]
        files[met[1]] = typed(text if text.endswith("\n") else f"{text}\n")
    elif (met := _APPENDED.match(said)) and command.tool == "append":
        files[met[1]] = added(files.get(met[1], typed("")), command["text"].removesuffix("\n"))
    elif (met := _POSTED.match(said)) and met[2] in files:
        files[met[2]] = added(files[met[2]], met[1])
    elif (met := _SENT.match(said)) and met[1] in files:
        sent = (*sent, (met[2], files[met[1]]))
    elif said in (ACCEPTED, REJECTED):
        verdict = said
    return Believed(files, sent, verdict, said.endswith(GONE))
