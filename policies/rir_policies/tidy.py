"""What surrounds an answer in a free reply, taken away: fences, think tags, bold, JSON, repetition, a cut end.

Pure functions of text. This module knows no decision, option or fact; ``read`` and ``pointed`` do.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["bare", "clean", "from_json", "key", "loop_end", "unfinished"]

_THINK = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_THINK_OPEN = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"```(?:[\w+-]*[ \t]*(?=\n)|(?:json|text)(?=\s))?", re.IGNORECASE)
_LOOP = re.compile(r"(.{3,80}?)\1{4,}", re.DOTALL)
_OBJECT = re.compile(r"\{\s*[\"'{}]|\[\s*\{")
_PAIR = re.compile(
    r"[\"'](?P<name>\w{1,40})[\"']\s*:\s*"
    r"(?:\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[-\w.]+)\s*[,}\n])"
)
_MIN_LOOP_CHARS = 60
_MAX_REPLY_CHARS = 20_000
_MAX_TRIES = 16
_MAX_PAIRS = 64


def clean(reply: str) -> str:
    """The reply without fences and thinking (a stray closing tag ends that; an opening one may take all the rest)."""
    text = _THINK.sub("", reply[:_MAX_REPLY_CHARS])
    text = _THINK_END.split(text)[-1]
    text = _THINK_OPEN.split(text)[0]
    return _FENCE.sub("", text).strip()


def unfinished(reply: str, *, cut: bool) -> bool:
    """Whether the reply's last line may go on: ``cut`` says that it ended at the limit of its tokens."""
    return cut and not reply.rstrip(" \t").endswith(("\n", "```"))


def from_json(text: str) -> list[tuple[str, str]] | None:
    """The first JSON object in a text (or a list of them) as its (name, value) pairs; None where there is none.

    Lists are one pair an item, objects within are opened, names have spaces for underscores. Of an object that is
    damaged or cut off (single quotes, a comma too many, no end) the pairs that are whole are taken.

    >>> from_json('Sure: {"next_action": "go", "seen": ["ash", 2]} as asked')
    [('next action', 'go'), ('seen', 'ash'), ('seen', '2')]
    """
    starts = [found.start() for found in _OBJECT.finditer(text)]
    for start in starts[:_MAX_TRIES]:
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return _pairs("", value, 0)[:_MAX_PAIRS]
    if not starts:
        return None
    pairs = []
    for found in _PAIR.finditer(text, starts[0]):
        quoted = found["double"] if found["double"] is not None else found["single"]
        value = found["bare"] if quoted is None else quoted.replace("\\n", "\n").replace("\\", "")
        pairs.append((found["name"].replace("_", " "), value))
    return pairs[:_MAX_PAIRS]


def bare(line: str) -> str:
    """A line without bold, quotes around it, and marks of lists and prompts."""
    line = re.sub(r"^(?:[>•-]\s+)+", "", line.strip().replace("**", "")).strip()
    while len(line) > 1 and line[0] == line[-1] and line[0] in "`'\"":
        line = line[1:-1].strip()
    return line


def key(text: str) -> str:
    """What two spellings of the same text have in common."""
    return " ".join(text.casefold().split()).strip(" .!?。！？\"'`*")


def loop_end(text: str) -> int | None:
    """Where the first unit of a repetition loop ends; what follows a loop is not text any more. None without one."""
    return next((loop.end(1) for loop in _LOOP.finditer(text) if len(loop[0]) >= _MIN_LOOP_CHARS), None)


def _pairs(name: str, value: Any, depth: int) -> list[tuple[str, str]]:
    if depth > 8:
        return []
    if isinstance(value, dict):
        items = [(str(inner).replace("_", " "), each) for inner, each in value.items()]
    elif isinstance(value, list):
        items = [(name, each) for each in value]
    else:
        return [(name, value if isinstance(value, str) else json.dumps(value))]
    return [pair for inner, each in items for pair in _pairs(inner, each, depth + 1)]
