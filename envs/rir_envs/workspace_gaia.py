"""GAIA's questions as tasks, read from files that the user has. Nothing of GAIA is in this distribution.

A line of the file is one question in GAIA's own form: ``Question``, ``Final answer``, and, where they are there,
``task_id``, ``Level`` (1 to 3) and ``file_name``, the name of an attachment in a folder. This module knows no tool.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rir_envs.workspace_disk import ATTACHMENT
from rir_envs.workspace_goal import Goal
from rir_envs.workspace_making import RULES
from rir_envs.workspace_names import path_problem
from rir_envs.workspace_world import Task
from rir_gym.errors import UsageError

__all__ = ["Question", "questions", "task_of"]

_HOW = (
    "Answer the question. The answer is a number, as few words as possible, or a list of such, separated by commas; a "
    "number without commas and without units, words without articles and abbreviations."
)


@dataclass(frozen=True, slots=True)
class Question:
    """One question. ``attachment`` is the file, None where there is none."""

    name: str
    text: str
    answer: str
    attachment: Path | None


def questions(path: str, attachments: str | None, *, level: int | None = None) -> tuple[Question, ...]:
    """The questions in a file of JSON lines, those of one level where one is named.

    Raises:
        UsageError: the file or an attachment cannot be read, a line is no question, or there is none.
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"gaia={path!r}: a readable file of JSON lines in UTF-8; {error}") from error
    folder = None if attachments is None else Path(attachments)
    if folder is not None and not folder.is_dir():
        raise UsageError(f"attachments={attachments!r}: a folder")
    found = [
        question
        for number, line in enumerate(lines, 1)
        if line.strip() and (question := _question(path, number, line, folder, level)) is not None
    ]
    if not found:
        raise UsageError(f"gaia={path!r}: has no question{'' if level is None else f' of level {level}'}")
    return tuple(found)


def task_of(question: Question) -> Task:
    """The task of a question, its attachment among the files under a name in the form of the workspace.

    Raises:
        UsageError: the attachment cannot be read, or is too large.
    """
    files: dict[str, bytes] = {}
    attached = ""
    if question.attachment is not None:
        name = _workspace_name(question.attachment.name)
        try:
            size = question.attachment.stat().st_size
            data = question.attachment.read_bytes() if size <= ATTACHMENT else b""
        except OSError as error:
            raise UsageError(f"attachment={str(question.attachment)!r}: a readable file; {error}") from error
        if size > ATTACHMENT:
            raise UsageError(f"attachment={str(question.attachment)!r}: at most {ATTACHMENT} bytes, it has {size}")
        files[name] = data
        attached = f" Its attachment is {name}."
    objective = f"{_HOW} The question: {question.text}{attached} {RULES}"
    return Task(f"gaia/{question.name}", objective, files, (), Goal(question.answer))


def _question(path: str, number: int, line: str, folder: Path | None, level: int | None) -> Question | None:
    where = f"gaia={path!r}, line {number}"
    try:
        given: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: JSON; {error}") from error
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: an object with Question and 'Final answer'")
    text, answer, name = (given.get(key) for key in ("Question", "Final answer", "file_name"))
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{where}: Question={text!r}: a text")
    if isinstance(answer, bool) or not isinstance(answer, str | int | float) or str(answer).strip() in ("", "?"):
        raise UsageError(f"{where}: Final answer={answer!r}: a text; questions without an answer cannot be judged")
    if level is not None and str(given.get("Level")) != str(level):
        return None
    attachment = None
    if name:
        if not isinstance(name, str) or name != os.path.basename(name) or name in (".", "..") or "\0" in name:
            raise UsageError(f"{where}: file_name={name!r}: the name of a file in the folder of attachments")
        if folder is None:
            raise UsageError(f"attachments=None: a folder; line {number} of {path!r} has the attachment {name!r}")
        attachment = folder / name
        if not attachment.is_file():
            raise UsageError(f"attachments={str(folder)!r}: has no file {name!r} ({where})")
    return Question(str(given.get("task_id", number)), text.strip(), str(answer), attachment)


def _workspace_name(name: str) -> str:
    """A name that the workspace can have: lower case, other characters made "-"."""
    plain = re.sub(r"[^a-z0-9._-]", "-", name.lower()).strip(".-_")[-100:].strip(".-_")
    plain = re.sub(r"\.{2,}", ".", plain)
    plain = plain if "." in plain else f"{plain or 'attachment'}.txt"
    return plain if path_problem(plain) is None else "attachment.dat"
