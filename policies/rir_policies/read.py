"""Reply -> value or UNPARSED: tolerant readers of free text, all pure.

Tolerated: code fences, JSON with an ``action``, bold labels, think tags (also a stray closing one), prompt marks,
any script. Never guessed: what cannot be read is a Decision of kind UNPARSED, None, or left out. A choice among
options needs no reading. This module knows no view, model or environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from rir_gym.base import Decision, DecisionKind
from rir_gym.memory import Channel, Fact

__all__ = ["read_action", "read_facts", "read_final", "read_reflection", "read_text"]

_THINK = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_THINK_OPEN = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"```(?:[\w+-]*[ \t]*(?=\n)|(?:json|text)(?=\s))?", re.IGNORECASE)
_LABEL = re.compile(r"(?:next\s+)?(?:action|command)\s*\d*\s*[:：]\s*(.*)", re.IGNORECASE)
_FINAL = re.compile(r"final(?:\s+(?:answer|response))?\s*[:：]\s*(.*)", re.IGNORECASE)
_THOUGHT = re.compile(r"(?:thoughts?|thinking|reason(?:ing)?|plan)\s*\d*\s*[:：]\s*(.*)", re.IGNORECASE)
_REQUEST = re.compile(r"rollback(?:\s*:)?(?:\s+(?:to\s+)?(?:step\s+)?(\d{1,9}))?[.!]?", re.IGNORECASE)
_FACT = re.compile(r"[\s\-*•>.)\d]*(fact|elimination|affordance)s?\s*\d*\s*[:：]\s*(.+)", re.IGNORECASE)
_REFLECTION = re.compile(r"(?:failure\s+)?(?:cause|reflection|reason|diagnosis|lesson)\s*[:：]\s*", re.IGNORECASE)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*|[.!?。！？]+")
_LOOP = re.compile(r"(.{3,80}?)\1{4,}", re.DOTALL)
_STATE = re.compile(
    r"\b(?:currently|right now|at the moment|at present)\b"
    r"|^(?:you|i|we|the agent|agent)\s+(?:are|am|is|now|have|has|holds?|carry|carries)\b|^(?:you're|i'm|we're)\b",
    re.IGNORECASE,
)
_MAX_FACTS = 4
_MAX_FACT_CHARS = 200
_MIN_LOOP_CHARS = 60
_ECHO_WORDS = 4
_MAX_REPLY_CHARS = 20_000
_MAX_TEXT_CHARS = 4_000


def read_action(reply: str, *, can_submit: bool) -> Decision:
    """The agent's decision in a free reply: the first line that holds one, labelled lines before bare ones.

    ``rollback`` or ``rollback <int>`` as the whole line is a request; ``final: <text>`` a final response where the
    environment has one. Of several decisions in one reply the first counts.
    """
    lines = [line for line in map(_bare, _clean(_from_json(_clean(reply))).splitlines()) if line]
    for i, line in enumerate(lines):
        if _FINAL.fullmatch(line):
            return _decide(lines[i:], lines[:i], can_submit=can_submit)
        if found := _LABEL.fullmatch(line):
            rest = [_bare(found[1]), *lines[i + 1 :]] if found[1].strip() else lines[i + 1 :]
            return _decide(rest, lines[:i], can_submit=can_submit)
    for i, line in enumerate(lines):
        if not _THOUGHT.fullmatch(line):
            return _decide(lines[i:], lines[:i], can_submit=can_submit)
    return Decision(DecisionKind.UNPARSED, thought=" ".join(lines))


def read_final(reply: str) -> Decision:
    """A final response that was asked for: the whole reply, without a label; empty is UNPARSED."""
    text = _clean(reply)
    found = re.match(_FINAL.pattern, text, re.IGNORECASE | re.DOTALL)
    text = (found[1] if found else text).strip()
    return Decision(DecisionKind.FINAL, text) if text else Decision(DecisionKind.UNPARSED)


def read_text(reply: str, *, max_chars: int = 600) -> str:
    """Free text without fences and think tags; a repetition loop ends it, and so does a sentence near ``max_chars``."""
    seen: set[str] = set()
    kept: list[str] = []
    text = " ".join(_clean(reply).replace("**", "").split())[:_MAX_TEXT_CHARS]
    for sentence in _SENTENCE.findall(text[: _loop(text)]):
        key = " ".join(sentence.casefold().split())
        if len(key) > 3 and any(earlier.startswith(key) for earlier in seen):
            break
        seen.add(key)
        kept.append(sentence)
    return _bounded("".join(kept).strip(), max_chars)


def read_reflection(reply: str, *, echoes: Iterable[str] = (), question: str = "", max_chars: int = 600) -> str | None:
    """A cause or diagnosis in words; None (UNPARSED) where it is empty, a number, under three words or an echo.

    Args:
        reply: what the model said.
        echoes: texts that are no reflection, such as the commands: a model that solves instead of reflecting.
        question: what it was asked; a piece of that is no reflection either.
        max_chars: the bound; the text ends at a sentence end where there is one.
    """
    text = read_text(reply, max_chars=max_chars)
    label = _REFLECTION.match(text)
    text = text[label.end() if label else 0 :].strip(" \"'`")
    if len(_WORD.findall(text)) < 3 or _LABEL.fullmatch(text) or _FINAL.fullmatch(text):
        return None
    return None if _key(text) in _key(question) or _key(text) in {_key(echo) for echo in echoes} else text


def read_facts(reply: str, *, step: int, question: str = "") -> tuple[Fact, ...]:
    """ΔE: lines "fact: ...", "elimination: ..." or "affordance: ...", at most four; every other line is dropped.

    Dropped too: fewer than two words, placeholders, repetitions, lines that share four words in a row with the
    question (small models say it again), and claims about the current state, which no memory may hold.
    """
    facts: dict[tuple[str, str], Fact] = {}
    for line in _clean(reply).replace("**", "").splitlines():
        found = _FACT.fullmatch(line.strip())
        if not found:
            continue
        text = read_text(found[2], max_chars=_MAX_FACT_CHARS)
        if len(_WORD.findall(text)) < 2 or text.startswith("<") or _STATE.search(text) or _parrots(text, question):
            continue
        channel = _channel(found[1])
        facts.setdefault((channel, _key(text)), Fact(channel, text, step))
    return tuple(facts.values())[:_MAX_FACTS]


def _decide(lines: list[str], before: list[str], *, can_submit: bool) -> Decision:
    thought = " ".join(found[1] if (found := _THOUGHT.fullmatch(line)) else line for line in before)
    unparsed = Decision(DecisionKind.UNPARSED, thought=thought)
    if not lines:
        return unparsed
    line = lines[0]
    if final := _FINAL.fullmatch(line):
        end = next((i for i, later in enumerate(lines) if i and _LABEL.fullmatch(later)), len(lines))
        text = "\n".join([final[1], *lines[1:end]]).strip()
        return Decision(DecisionKind.FINAL, text, thought) if text and can_submit else unparsed
    if request := _REQUEST.fullmatch(line):
        target = int(request[1]) if request[1] else None
        return Decision(DecisionKind.REQUEST, thought=thought, target=target)
    if _LABEL.fullmatch(line) or len(line) > _MAX_TEXT_CHARS or _loop(line) is not None:
        return unparsed
    return Decision.act(line, thought=thought)


def _clean(reply: str) -> str:
    text = _THINK.sub("", reply[:_MAX_REPLY_CHARS])
    text = _THINK_END.split(text)[-1]
    text = _THINK_OPEN.split(text)[0]
    return _FENCE.sub("", text).strip()


def _from_json(text: str) -> str:
    if not text.startswith("{"):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    action = value.get("action") if isinstance(value, dict) else None
    return action if isinstance(action, str) else text


def _bare(line: str) -> str:
    line = re.sub(r"^(?:[>•-]\s+)+", "", line.strip().replace("**", "")).strip()
    while len(line) > 1 and line[0] == line[-1] and line[0] in "`'\"":
        line = line[1:-1].strip()
    return line


def _loop(text: str) -> int | None:
    """Where the first unit of a repetition loop ends; what follows a loop is not text any more. None without one."""
    return next((loop.end(1) for loop in _LOOP.finditer(text) if len(loop[0]) >= _MIN_LOOP_CHARS), None)


def _bounded(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    head = text[:max_chars]
    end = max(head.rfind(mark) for mark in ".!?。！？")
    return head[: end + 1] if end > 0 else head.rsplit(" ", 1)[0]


def _parrots(text: str, question: str) -> bool:
    words, asked = _WORD.findall(text.casefold()), f" {' '.join(_WORD.findall(question.casefold()))} "
    return any(f" {' '.join(words[i : i + _ECHO_WORDS])} " in asked for i in range(len(words) - _ECHO_WORDS + 1))


def _key(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!?。！？\"'`")


def _channel(word: str) -> Channel:
    kinds: dict[str, Channel] = {"fact": "fact", "elimination": "elimination", "affordance": "affordance"}
    return kinds[word.casefold()]
