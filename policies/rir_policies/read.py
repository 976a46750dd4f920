"""Reply -> value or UNPARSED: tolerant readers of free text, all pure.

Tolerated: code fences, JSON (also damaged, or in prose), bold labels, think tags (also a stray closing one), prompt
marks, observations that the model invents after its action, any script. Never guessed: what cannot be read, or may go
on where the reply was cut off at its limit of tokens (``cut``), is a Decision of kind UNPARSED, None, or left out.
Choices that are scored need no reading; ``read_choice`` reads those that are written. This module knows no view, model
or environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rir_gym.base import Decision, DecisionKind
from rir_gym.memory import Channel, Fact
from rir_policies.pointed import read_choice
from rir_policies.tidy import bare, clean, from_json, key, loop_end, unfinished

__all__ = ["MAX_FACTS", "read_action", "read_choice", "read_facts", "read_final", "read_reflection", "read_text"]

_LABEL = re.compile(
    r"(?:next\s+)?(?:action|command|aktion|befehl|acción|acci[oó]n|ação|azione|comando|commande|действие|команда|行动|"
    r"动作|命令|アクション|行動|행동)\s*\d*\s*[:：]\s*(.*)",
    re.IGNORECASE,
)
_OBSERVED = re.compile(r"(?:obs(?:ervation)?\s*\d*\s*[:：]|<observation).*", re.IGNORECASE)
_FINAL = re.compile(r"final(?:\s+(?:answer|response))?\s*[:：]\s*(.*)", re.IGNORECASE)
_THOUGHT = re.compile(r"(?:thoughts?|thinking|reason(?:ing)?|plan)\s*\d*\s*[:：]\s*(.*)", re.IGNORECASE)
_REQUEST = re.compile(r"rollback(?:\s*:)?(?:\s+(?:to\s+)?(?:step\s+)?(\d{1,9}))?[.!]?", re.IGNORECASE)
_FACT = re.compile(
    r"[\s\-*•>.)\d]*(?:learned\s*[:：]\s*)?(fact|elimination|affordance)s?\s*\d*\s*[:：]\s*(.+)", re.IGNORECASE
)
_REFLECTION = re.compile(r"(?:failure\s+)?(?:cause|reflection|reason|diagnosis|lesson)\s*[:：]\s*", re.IGNORECASE)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*|[.!?。！？]+")
_STATE = re.compile(
    r"\b(?:currently|right now|at the moment|at present)\b"
    r"|^(?:you|i|we|the agent|agent)\s+(?:are|am|is|now|have|has|holds?|carry|carries)\b|^(?:you're|i'm|we're)\b",
    re.IGNORECASE,
)
MAX_FACTS = 4
_MAX_FACT_CHARS = 200
_ECHO_WORDS = 4
_MAX_TEXT_CHARS = 4_000


def read_action(reply: str, *, can_submit: bool, cut: bool = False) -> Decision:
    """The agent's decision in a free reply: the first line that holds one, labelled lines before bare ones.

    ``rollback`` or ``rollback <int>`` as the whole line is a request; ``final: <text>`` a final response where the
    environment has one. Of several decisions in one reply the first counts, and nothing after an observation that the
    model invented. A line that was cut off is no decision; a final response that was is one, unless a number ends it.
    """
    lines, open_end = _lines(reply, cut=cut)
    if lines is None:
        return Decision(DecisionKind.UNPARSED)
    for i, line in enumerate(lines):
        if _FINAL.fullmatch(line):
            return _decide(lines[i:], lines[:i], can_submit=can_submit, open_end=open_end)
        if found := _LABEL.fullmatch(line):
            rest = [bare(found[1]), *lines[i + 1 :]] if found[1].strip() else lines[i + 1 :]
            return _decide(rest, lines[:i], can_submit=can_submit, open_end=open_end)
    for i, line in enumerate(lines):
        if not _THOUGHT.fullmatch(line):
            return _decide(lines[i:], lines[:i], can_submit=can_submit, open_end=open_end)
    return Decision(DecisionKind.UNPARSED, thought=" ".join(lines))


def read_final(reply: str, *, cut: bool = False) -> Decision:
    """A final response that was asked for: the whole reply, without a label; UNPARSED where it is empty.

    UNPARSED too is JSON without a value that is labelled as final, and a number at the end of a reply that was cut off.
    """
    text, open_end = clean(reply), unfinished(reply, cut=cut)
    pairs = from_json(text) if text.startswith("{") else None
    if pairs is not None:
        text = next((value for name, value in pairs if _FINAL.fullmatch(f"{name}:") or name == "answer"), "").strip()
        open_end = False
    found = re.match(_FINAL.pattern, text, re.IGNORECASE | re.DOTALL)
    text = (found[1] if found else text).strip()
    unread = not text or (open_end and text[-1].isdigit())
    return Decision(DecisionKind.UNPARSED) if unread else Decision(DecisionKind.FINAL, text)


def read_text(reply: str, *, max_chars: int = 600) -> str:
    """Free text without fences and think tags; a repetition loop ends it, and so does a sentence near ``max_chars``."""
    seen: set[str] = set()
    kept: list[str] = []
    text = " ".join(clean(reply).replace("**", "").split())[:_MAX_TEXT_CHARS]
    for sentence in _SENTENCE.findall(text[: loop_end(text)]):
        key = " ".join(sentence.casefold().split())
        if len(key) > 3 and any(earlier.startswith(key) for earlier in seen):
            break
        seen.add(key)
        kept.append(sentence)
    return _bounded("".join(kept).strip(), max_chars)


def read_reflection(
    reply: str, *, echoes: Iterable[str] = (), question: str = "", max_chars: int = 600, cut: bool = False
) -> str | None:
    """A cause or diagnosis in words; None (UNPARSED) where it is empty, a number, under three words or an echo.

    Args:
        reply: what the model said.
        echoes: texts that are no reflection, such as the commands: a model that solves instead of reflecting.
        question: what it was asked; a piece of that is no reflection either.
        max_chars: the bound; the text ends at a sentence end where there is one.
        cut: the reply ended at the limit of its tokens: a last sentence without an end goes, or its last word.
    """
    pairs = from_json(clean(reply))
    if pairs is not None:
        reply, cut = next((value for name, value in pairs if _REFLECTION.match(f"{name}:")), ""), False
    text = read_text(reply, max_chars=max_chars)
    if unfinished(reply, cut=cut):
        text = _whole(text)
    label = _REFLECTION.match(text)
    text = text[label.end() if label else 0 :].strip(" \"'`")
    if len(_WORD.findall(text)) < 3 or _LABEL.fullmatch(text) or _FINAL.fullmatch(text):
        return None
    return None if key(text) in key(question) or key(text) in {key(echo) for echo in echoes} else text


def read_facts(reply: str, *, step: int, question: str = "", cut: bool = False) -> tuple[Fact, ...]:
    """ΔE: lines "fact: ...", "elimination: ..." or "affordance: ...", at most four; every other line is dropped.

    Dropped too: fewer than two words, placeholders, repetitions, lines that share four words in a row with the
    question (small models say it again), claims about the current state, which no memory may hold, and a last line that
    was cut off. A JSON object gives its values of these names.
    """
    facts: dict[tuple[str, str], Fact] = {}
    text = clean(reply)
    lines = text.splitlines()
    pairs = from_json(text)
    if pairs is not None:
        lines = [f"{name}: {value}" for name, value in pairs]
    elif unfinished(reply, cut=cut):
        lines = lines[:-1]
    for line in (line.replace("**", "") for line in lines):
        found = _FACT.fullmatch(line.strip())
        if not found:
            continue
        text = read_text(found[2], max_chars=_MAX_FACT_CHARS)
        if len(_WORD.findall(text)) < 2 or text.startswith("<") or _STATE.search(text) or _parrots(text, question):
            continue
        channel = _channel(found[1])
        facts.setdefault((channel, key(text)), Fact(channel, text, step))
    return tuple(facts.values())[:MAX_FACTS]


def _lines(reply: str, *, cut: bool) -> tuple[list[str] | None, bool]:
    """The reply's lines, and whether the last one may go on; None for JSON without a decision."""
    text, open_end = _before_observed(clean(reply)), unfinished(reply, cut=cut)
    pairs = from_json(text)
    if pairs is not None and not any(_decides(line) for line in map(bare, text.partition("{")[0].splitlines())):
        told = [f"{name}: {value}" for name, value in pairs]
        if any(_LABEL.match(line) or _FINAL.match(line) for line in told):
            return [line for line in map(bare, "\n".join(told).splitlines()) if line], False
        if text.startswith(("{", "[{")):
            return None, False
    open_end = open_end and text == clean(reply)
    return [line for line in map(bare, text.splitlines()) if line], open_end


def _decides(line: str) -> bool:
    found = _LABEL.fullmatch(line) or _FINAL.fullmatch(line)
    return found is not None and found[1].strip() not in ("", "[")


def _before_observed(text: str) -> str:
    """The text before an observation that the model invents after something of its own."""
    lines = text.splitlines()
    for i, line in enumerate(map(bare, lines)):
        own = (bare(earlier) for earlier in lines[:i])
        if _OBSERVED.fullmatch(line) and any(each and not _THOUGHT.fullmatch(each) for each in own):
            return "\n".join(lines[:i])
    return text


def _decide(lines: list[str], before: list[str], *, can_submit: bool, open_end: bool) -> Decision:
    thought = " ".join(found[1] if (found := _THOUGHT.fullmatch(line)) else line for line in before)
    unparsed = Decision(DecisionKind.UNPARSED, thought=thought)
    if not lines:
        return unparsed
    line = lines[0]
    if final := _FINAL.fullmatch(line):
        end = next((i for i, later in enumerate(lines) if i and _LABEL.fullmatch(later)), len(lines))
        text = "\n".join([final[1], *lines[1:end]]).strip()
        if open_end and end == len(lines) and text[-1:].isdigit():
            return unparsed
        return Decision(DecisionKind.FINAL, text, thought) if text and can_submit else unparsed
    if open_end and len(lines) == 1:
        return unparsed
    if request := _REQUEST.fullmatch(line):
        target = int(request[1]) if request[1] else None
        return Decision(DecisionKind.REQUEST, thought=thought, target=target)
    if _LABEL.fullmatch(line) or len(line) > _MAX_TEXT_CHARS or loop_end(line) is not None:
        return unparsed
    return Decision.act(line, thought=thought)


def _bounded(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    head = text[:max_chars]
    end = max(head.rfind(mark) for mark in ".!?。！？")
    return head[: end + 1] if end > 0 else head.rsplit(" ", 1)[0]


def _whole(text: str) -> str:
    """A text that was cut off, to its last sentence end; without one, to its last whole word."""
    end = max(text.rfind(mark) for mark in ".!?。！？")
    return text[: end + 1] if end > 0 else text.rpartition(" ")[0]


def _parrots(text: str, question: str) -> bool:
    words, asked = _WORD.findall(text.casefold()), f" {' '.join(_WORD.findall(question.casefold()))} "
    return any(f" {' '.join(words[i : i + _ECHO_WORDS])} " in asked for i in range(len(words) - _ECHO_WORDS + 1))


def _channel(word: str) -> Channel:
    kinds: dict[str, Channel] = {"fact": "fact", "elimination": "elimination", "affordance": "affordance"}
    return kinds[word.casefold()]
