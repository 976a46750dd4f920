"""View -> messages, for every role: pure functions. ``read`` holds the other direction, reply -> value or UNPARSED.

The layout of every conversation:

1. the system turn: instructions that are the same for all roles, the objective, and M where ``memory_position`` is
   "system" (the paper's place for it);
2. the history: o_i as user turns, numbered and between tags, a_i as assistant turns;
3. the tail, in the last user turn after o_t: M where ``memory_position`` is "tail", then the role's own instructions.

So all roles share the messages before the last one, and a model can keep them. M replaces the block of the call
before; nothing is appended. Notices of ours stand outside the observation tags, and an environment text that holds
such a tag has it escaped, so neither can pass for the other. Rewards and oracle knowledge are not read here.
This module knows no model; special tokens are the backend's care (it encodes contents as plain text).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from rir_gym.base import DecisionKind, Message, Restore, RestorePoint, Verdict, View
from rir_policies.prompts import Prompts, load_prompts

__all__ = [
    "FINAL",
    "ROLLBACK",
    "Prompts",
    "Requests",
    "act",
    "actions",
    "ask",
    "coarse",
    "decide",
    "declined",
    "diagnosed",
    "draft",
    "fine",
    "follow",
    "listed",
    "load_prompts",
    "offered",
    "options",
    "patch",
    "reask",
    "review",
    "think",
]

Requests = Literal["offered", "none"]
"""Whether the agent may ask for a review with the word ``rollback``."""

ROLLBACK = "rollback"
FINAL = "final"
_LISTED_COMMANDS = 60
_TAG = re.compile(r"<(/?\s*observation)", re.IGNORECASE)


# --- one function a role ----------------------------------------------------------------------------------------------


def act(view: View, prompts: Prompts, *, requests: Requests = "offered") -> tuple[Message, ...]:
    """The agent is asked for its action. Admissible commands stand in the prompt where they are at most 60."""
    closing = decide(view, prompts, requests=requests)
    return _conversation(view, prompts, [*_agent(view, prompts, requests), closing])


def think(view: View, prompts: Prompts, *, requests: Requests = "offered") -> tuple[Message, ...]:
    """The agent is asked for a thought first; ``follow`` with ``decide`` then asks for the action."""
    return _conversation(view, prompts, [*_agent(view, prompts, requests), prompts.fill("act.thought")])


def decide(view: View, prompts: Prompts, *, requests: Requests = "offered") -> str:
    """The last sentence of the agent's instructions: one of the options, or a line."""
    return prompts.fill("act.choose" if options(view, requests=requests) else "act.line")


def reask(messages: Sequence[Message], notice: str) -> tuple[Message, ...]:
    """The same request once more, with a notice after it. The reply that could not be read is not shown."""
    last = messages[-1]
    return (*messages[:-1], Message(last.role, f"{last.content}\n\n{notice}"))


def review(view: View, prompts: Prompts) -> tuple[Message, ...]:
    """The reviewer is asked for its verdict on the branch: CONTINUE or ROLLBACK."""
    parts = [_status(view, prompts)]
    if view.proposed is not None and view.proposed.kind is DecisionKind.REQUEST:
        parts.append(_request(view, prompts))
    return _conversation(view, prompts, [*parts, prompts.fill("review.verdict")])


def coarse(view: View, verdict: Verdict, points: Sequence[RestorePoint], prompts: Prompts) -> tuple[Message, ...]:
    """The localizer is asked for the first step of the causal interval, one of ``points``."""
    parts = [_status(view, prompts)]
    if view.proposed is not None and view.proposed.kind is DecisionKind.REQUEST:
        parts.append(_request(view, prompts))
    steps = ", ".join(str(point.t) for point in points)
    parts.append(prompts.fill("coarse.first", diagnosis=_diagnosis(verdict), steps=steps))
    return _conversation(view, prompts, parts)


def fine(view: View, verdict: Verdict, points: Sequence[RestorePoint], prompts: Prompts) -> tuple[Message, ...]:
    """The localizer is asked for the restore point: it sees g, f, M and the candidates' σ, not h_t (Algorithm 1)."""
    tail = prompts.fill("fine.point", diagnosis=_diagnosis(verdict), candidates=listed(points))
    return (_system(view, prompts), Message("user", _join([*_memory(view, prompts, "tail"), tail])))


def patch(view: View, verdict: Verdict, restore: Restore, prompts: Prompts) -> tuple[Message, ...]:
    """The patcher is asked for the cause. It sees g, M and τ_{r:t}; at k = 0, where that is o_t alone, all of h_t."""
    resumed = restore.point.t if restore.point is not None else view.t
    start = resumed if resumed < view.t else 0
    tail = prompts.fill("patch.cause", start=start, end=view.t, diagnosis=_diagnosis(verdict))
    return _conversation(view, prompts, [tail], start=start)


def ask(view: View, prompts: Prompts, section: str, *, start: int = 0, **values: object) -> tuple[Message, ...]:
    """A question of another mechanism on the branch from step ``start`` on: its own section, ``values`` filled in."""
    return _conversation(view, prompts, [_status(view, prompts), prompts.fill(section, **values)], start=start)


def diagnosed(verdict: Verdict) -> str:
    """The diagnosis as it stands in a prompt."""
    return _diagnosis(verdict)


def draft(view: View) -> str:
    """The proposed action as a critic of drafts reads it."""
    proposed = view.proposed
    return _plain(str(proposed.action)) if proposed is not None and proposed.kind is DecisionKind.ACTION else "none"


def listed(points: Sequence[RestorePoint]) -> str:
    """One line a restore point: its step and its summary σ."""
    return "\n".join(f"step {point.t}: {_plain(' '.join(point.summary.split())) or '-'}" for point in points)


def follow(messages: Sequence[Message], reply: str, question: str) -> tuple[Message, ...]:
    """The conversation goes on: the reply as an assistant turn and the next question, which keeps the prefix."""
    return (*messages, Message("assistant", reply), Message("user", question))


# --- what the agent may choose ----------------------------------------------------------------------------------------


def declined(view: View) -> bool:
    """Whether a request for a rollback was declined at this very step."""
    last = view.last_review
    if last is None or last.step != view.t or not last.requested:
        return False
    return last.outcome in ("continue", "refused", "abandoned", "unparsed")


def offered(view: View, *, requests: Requests) -> bool:
    """Whether the agent is told that it may ask for a rollback now.

    Not before the first action, not with the rollback budget spent, and not again at a step where it was declined
    (ours: such a call could only repeat itself).
    """
    return requests == "offered" and view.t > 0 and view.rollbacks_left > 0 and not declined(view)


def options(view: View, *, requests: Requests) -> tuple[str, ...]:
    """The admissible commands, then ``rollback`` and ``final`` where offered; empty where none are listed.

    A keyword that is itself an admissible command stays that command and is not offered in its other sense. Empty
    commands and repetitions are left out, since no model can choose among them.
    """
    commands = tuple(dict.fromkeys(command for command in view.admissible or () if command))
    if not commands:
        return ()
    words = [ROLLBACK] * offered(view, requests=requests) + [FINAL] * view.can_submit
    return (*commands, *(word for word in words if word not in commands))


def actions(view: View) -> tuple[str, ...]:
    """Every action taken on the branch and every admissible command: texts that are no reflection."""
    return (*(str(step.action) for step in view.history[1:]), *(view.admissible or ()))


# --- the parts of a conversation --------------------------------------------------------------------------------------


def _conversation(view: View, prompts: Prompts, tail: Sequence[str], *, start: int = 0) -> tuple[Message, ...]:
    messages = [_system(view, prompts)]
    for i, step in enumerate(view.history[start:], start):
        if i > start:
            messages.append(Message("assistant", str(step.action)))
        messages.append(Message("user", _observation(i, step.observation)))
    last = _join([messages[-1].content, *_memory(view, prompts, "tail"), *tail])
    return (*messages[:-1], Message("user", last))


def _agent(view: View, prompts: Prompts, requests: Requests) -> list[str]:
    words = options(view, requests=requests)
    parts = [_status(view, prompts), prompts.fill("act.agent")]
    if 0 < len(words) <= _LISTED_COMMANDS:
        parts.append(prompts.fill("act.listed", commands=" | ".join(_plain(word) for word in words)))
    if ROLLBACK in words or (not words and offered(view, requests=requests)):
        parts.append(prompts.fill("act.request"))
    if FINAL in words or (not words and view.can_submit):
        parts.append(prompts.fill("act.final" if words else "act.final_free"))
    return parts


def _system(view: View, prompts: Prompts) -> Message:
    text = prompts.fill("system.system", objective=_plain(view.objective))
    return Message("system", _join([text, *_memory(view, prompts, "system")]))


def _memory(view: View, prompts: Prompts, position: Literal["system", "tail"]) -> list[str]:
    block = view.memory.render() if view.memory_position == position else ""
    return [prompts.fill("system.memory", memory=_plain(block))] if block.strip() else []


def _observation(i: int, observation: Any) -> str:
    return f'<observation step="{i}">\n{_plain(str(observation).strip())}\n</observation>'


def _status(view: View, prompts: Prompts) -> str:
    signals = view.signals
    lines = [prompts.fill("status.status", t=view.t, calls=view.agent_calls_left)]
    if signals.repeated_actions > 1:
        lines.append(prompts.fill("status.repeated", count=signals.repeated_actions))
    if view.t in signals.no_effect_steps:
        lines.append(prompts.fill("status.no_effect"))
    elif signals.cycle_length:
        lines.append(prompts.fill("status.cycle", count=signals.cycle_length))
    if view.terminal:
        lines.append(prompts.fill("status.over"))
    if declined(view) and view.proposed is None:
        lines.append(prompts.fill("status.declined"))
    return " ".join(lines)


def _request(view: View, prompts: Prompts) -> str:
    target = view.proposed.target if view.proposed is not None else None
    return prompts.fill("status.requested") if target is None else prompts.fill("status.target", target=target)


def _diagnosis(verdict: Verdict) -> str:
    return _plain(verdict.diagnosis) or "none was given"


def _plain(text: str) -> str:
    return _TAG.sub(r"<\\\1", text)


def _join(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)
