"""The roles on a backend that writes its choices: what could not be read is UNPARSED, never a default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rir_gym.base import DecisionKind, RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.memory import ReflectionMemory
from rir_policies.act import ModelActor
from rir_policies.model import Choice, Completion, FunctionModel, Prompt
from rir_policies.pointed import read_choice
from rir_policies.prompts import load_prompts
from rir_policies.when import ModelReviewer
from rir_policies.where import CoarseToFine

PROMPTS = load_prompts()


class Writer:
    """Answers from a list, choices and texts alike, and keeps what it was asked."""

    name = "writer"

    def __init__(self, *replies: str) -> None:
        self.replies, self.asked = list(replies), list[Prompt]()

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        self.asked += prompts
        return FunctionModel(replies=lambda _: self.replies.pop(0)).generate(prompts)

    def choose(self, prompts: Sequence[Prompt], options: Sequence[Sequence[str]]) -> Sequence[Choice]:
        self.asked += prompts
        said = [self.replies.pop(0) for _ in prompts]
        return [
            Choice(read_choice(text, row), generated_tokens=3, text=text)
            for text, row in zip(said, options, strict=True)
        ]


def view(*, can_submit: bool = False) -> View:
    info = {"admissible": ["go lab", "wait"]}
    history = tuple(Step(f"a{i}" if i else None, f"o{i}", info=info) for i in range(5))
    points = tuple(RestorePoint(i, i, f"p{i}") for i in range(5))
    memory = ReflectionMemory("g")
    return View(1, "g", history, memory, restorable=points, agent_calls_left=9, rollbacks_left=1, can_submit=can_submit)


def test_a_command_is_read_and_the_reply_recorded_as_it_was_written() -> None:
    [decision] = ModelActor(Writer("**Action:** Wait."), PROMPTS)([view()])
    assert (decision.kind, decision.action) == (DecisionKind.ACTION, "wait")
    [call] = decision.calls
    assert (call.text, call.options, call.scores) == ("**Action:** Wait.", ("go lab", "wait", "rollback"), None)
    assert call.generated_tokens == 3


def test_an_unreadable_command_is_asked_for_once_more_as_a_line() -> None:
    model = Writer("sing", "Action: go lab")
    [decision] = ModelActor(model, PROMPTS)([view()])
    assert (decision.kind, decision.action) == (DecisionKind.ACTION, "go lab")
    assert [call.kind for call in decision.calls] == ["first", "reask"]
    assert PROMPTS.texts["act.reask"] in model.asked[1].messages[-1].content
    [decision] = ModelActor(Writer("sing", "dance"), PROMPTS)([view()])
    assert decision.kind is DecisionKind.UNPARSED
    [decision] = ModelActor(Writer("sing", "rollback"), PROMPTS)([view()])
    assert decision.kind is DecisionKind.REQUEST


def test_a_final_response_after_a_re_ask_is_still_written() -> None:
    [decision] = ModelActor(Writer("hm", "final", "Paris"), PROMPTS)([view(can_submit=True)])
    assert (decision.kind, decision.action) == (DecisionKind.FINAL, "Paris")
    assert [call.kind for call in decision.calls] == ["first", "reask", "sub"]
    [decision] = ModelActor(Writer("hm", "final", ""), PROMPTS)([view(can_submit=True)])
    assert decision.kind is DecisionKind.UNPARSED


@pytest.mark.parametrize(
    ("verdict", "urgency", "kind"),
    [
        ("CONTINUE", "0.75", VerdictKind.CONTINUE),
        ("CONTINUE", "quite", VerdictKind.UNPARSED),
        ("perhaps", "0.75", VerdictKind.UNPARSED),
        ("ROLLBACK", "0.75", VerdictKind.ROLLBACK),
        ("ROLLBACK", "quite", VerdictKind.ROLLBACK),
    ],
)
def test_verdict_and_urgency(verdict: str, urgency: str, kind: VerdictKind) -> None:
    rest = ["none", "the ash was poured early"]
    [found] = ModelReviewer(Writer(verdict, urgency, *rest), PROMPTS)([view()])
    assert found.kind is kind
    if kind is VerdictKind.CONTINUE:
        assert found.urgency == 0.75
    assert (found.diagnosis != "") == (kind is VerdictKind.ROLLBACK)


@pytest.mark.parametrize(
    ("replies", "interval", "point", "unread"),
    [
        (["1", "3", "Step 2."], (1, 3), 2, False),
        (["perhaps", "2"], (0, 4), 2, True),
        (["1", "perhaps", "0"], (0, 4), 0, True),
        (["1", "3", "perhaps"], (1, 3), None, False),
        (["9", "9"], (0, 4), None, True),
    ],
)
def test_interval_and_restore_point(replies: list[str], interval: Any, point: int | None, unread: bool) -> None:
    model = Writer(*replies)
    [found] = CoarseToFine(model, PROMPTS)([view()], [Verdict(VerdictKind.ROLLBACK)])
    assert model.replies == []
    assert (found.interval, found.interval_unread) == (interval, unread)
    assert (found.point.t if found.point else None) == point
    assert found.confidence is None
    assert found.stages == ("coarse", "fine")
    assert len(found.calls) == len(replies)
