"""Moments of a record: the views are those of the loop, and worded again they are the requests that were sent."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from rir_envs import apothecary_policies as apothecary
from rir_gym.base import Call, Decision, DecisionKind, Message, Patch, Restore, Verdict, VerdictKind, View
from rir_gym.cli.worlds import make
from rir_gym.data.exports.moments import Moment, moments
from rir_gym.data.exports.turns import turns_of
from rir_gym.data.records import episode_record, header_of
from rir_gym.jsonable import encode
from rir_gym.ledger import Budget
from rir_gym.loop import run
from rir_gym.memory import ReflectionMemory
from rir_policies.mechanisms import MECHANISMS, model_roles
from rir_policies.model import FunctionModel, Prompt
from rir_policies.prompts import load_prompts
from rir_policies.rendering import Renderer
from rir_policies.scripted import ScriptedPatch

Seen = list[tuple[str, View, Any]]

_ELSE = ("expel", "reflact")  # need a rule book, a model
PAPER = ("react", "reflection_only", "restart", "rir", "rollback_only")


def _spied(seen: Seen, name: str, role: Callable[..., Any]) -> Callable[..., Any]:
    def spy(views: Sequence[View], *answers: Any) -> Any:
        said = role(views, *answers)
        seen.extend((name, view, value) for view, value in zip(views, said, strict=True))
        return said

    return spy


def _model(seed: int) -> FunctionModel:
    """Draws every reply: choices at random, texts readable or not."""
    draw = random.Random(seed)
    texts = ("", "take lamp", "the tea was spoilt by the wrong leaf", "fact: the book lies in the attic\nhm", "42")

    def reply(prompt: Prompt) -> str:
        return draw.choice(texts)

    def choice(prompt: Prompt, options: Sequence[str]) -> int:
        if "rollback" in options and draw.random() < 0.2:
            return list(options).index("rollback")
        return draw.randrange(len(options))

    return FunctionModel(reply, choice)


def _played(
    mechanism: str, seed: int, *, position: Any = "system", thought_tokens: int = 0, scripted: bool = False
) -> tuple[dict[str, Any], Seen]:
    """A record of an episode and all that its roles saw and said, in the order of the calls."""
    seen: Seen = []
    if scripted:
        pieces: dict[str, Any] = {
            "act": apothecary.Expert(trust=1.0, slip=0.3),
            "reviewer": apothecary.evidence_reviewer,
            "where": apothecary.evidence_localizer,
            "what": ScriptedPatch(),
        }
    else:
        pieces = dict(model_roles(_model(seed), thought_tokens=thought_tokens))
    built = MECHANISMS[mechanism](**pieces, l_min=1, l_max=3, memory_position=position)
    spied = replace(
        built,
        act=_spied(seen, "act", built.act),
        when=_spied(seen, "review", built.when),
        where=_spied(seen, "where", built.where),
        what=_spied(seen, "patch", built.what),
    )
    env = make("rir_gym/Apothecary-v0", {})
    [episode] = run([env], spied, budget=Budget(24, 3), seeds=[seed])
    record = episode_record(episode, header_of(env, spied, agent="test"))
    env.close()
    due = [(name, view, value) for name, view, value in seen if getattr(value, "kind", None) != VerdictKind.NOT_DUE]
    return record, due


def _plain(view: View) -> dict[str, Any]:
    """What of a view can be compared: observations and infos in JSON terms."""
    said = {
        part.name: getattr(view, part.name) for part in fields(view) if part.name not in ("run", "oracle", "history")
    }
    said["proposed"] = None if view.proposed is None else (view.proposed.kind, str(view.proposed.action))
    said["can_submit"] = False
    return {**said, "history": [encode((step.action, step.observation, dict(step.info))) for step in view.history]}


@pytest.mark.parametrize(
    ("mechanism", "scripted"),
    [(name, scripted) for name in sorted(MECHANISMS) for scripted in (True, False) if name not in _ELSE],
)
def test_every_moment_has_the_view_that_the_role_had(mechanism: str, scripted: bool) -> None:
    recoveries = 0
    for seed in range(16 if scripted else 6):
        record, seen = _played(mechanism, seed, scripted=scripted)
        told = list(moments(record))
        assert [moment.kind for moment in told] == [name for name, _, _ in seen]
        for moment, (_, view, value) in zip(told, seen, strict=True):
            there, here = _plain(moment.view), _plain(view)
            if not moment.renderable:
                del there["memory"], here["memory"]
            assert there == here
            assert moment.view.oracle is None
            assert all(step.oracle is None for step in moment.view.history)
            assert type(moment.value) is type(value)
        recoveries += record["ledger"]["rollbacks"] + record["ledger"]["corrections"]
    assert recoveries > 1 or mechanism not in PAPER or mechanism == "react"


@pytest.mark.parametrize("thought_tokens", [0, 16])
@pytest.mark.parametrize("position", ["system", "tail"])
@pytest.mark.parametrize("mechanism", PAPER)
def test_worded_again_every_request_is_the_one_that_was_sent(
    mechanism: str, position: Any, thought_tokens: int
) -> None:
    render, compared = Renderer(load_prompts()), 0
    for seed in range(4):
        record, _ = _played(mechanism, seed, position=position, thought_tokens=thought_tokens)
        for moment in moments(record):
            calls = moment.value.calls
            if not calls:
                continue
            turns = render(moment)
            assert [turn.messages for turn in turns] == [call.messages for call in calls]
            assert [turn.text for turn in turns] == [call.text for call in calls]
            compared += len(calls)
    assert compared > 50


@pytest.mark.parametrize("position", ["system", "tail"])
def test_memory_moves_and_nothing_else_changes(position: Any) -> None:
    other: Any = "tail" if position == "system" else "system"
    moved = 0
    render = Renderer(load_prompts())
    for seed in range(6):
        record, _ = _played("rir", seed, position=position)
        asked_elsewhere, _ = _played("rir", seed, position=other)
        assert [event["kind"] for event in asked_elsewhere["events"]] == [event["kind"] for event in record["events"]]
        there = list(moments(asked_elsewhere))
        for moment, elsewhere in zip(moments(record), there, strict=True):
            turns = turns_of(moment, render=render, placement=other)
            sent = turns_of(elsewhere, render=render)
            assert turns is not None and sent is not None  # noqa: PT018
            assert [turn.messages for turn in turns] == [turn.messages for turn in sent]
            assert {turn.source for turn in turns} <= {"rendered"} and {turn.source for turn in sent} <= {"sent"}  # noqa: PT018
            moved += bool(moment.view.memory.render())
    assert moved > 10


def test_scripted_roles_are_worded_as_a_model_would_be_asked() -> None:
    """The model role on the same view asks the same question; the reply is the scripted decision."""
    render, prompts, roles = Renderer(load_prompts()), list[str](), set[tuple[str, str]]()
    for seed in range(8):
        record, seen = _played("rir", seed, scripted=True)
        for moment, (name, view, value) in zip(moments(record), seen, strict=True):
            turns = turns_of(moment, render=render)
            assert turns is not None
            roles |= {(turn.role, turn.part) for turn in turns}
            assert {turn.source for turn in turns} <= {"scripted"}
            if name == "act" and isinstance(value, Decision) and value.kind is DecisionKind.ACTION:
                [turn] = turns
                [asked] = model_roles(FunctionModel())["act"]([view])
                assert turn.messages == asked.calls[0].messages
                assert turn.text == value.action
            if name == "review" and isinstance(value, Verdict):
                [judged] = model_roles(FunctionModel())["reviewer"]([view])
                assert turns[0].messages == judged.calls[0].messages
                assert turns[0].text == value.kind.name
            if name == "where" and isinstance(value, Restore) and value.point is not None:
                fine = [turn for turn in turns if turn.part == "point"]
                assert [turn.text for turn in fine] in ([], [str(value.point.t)])
            if name == "patch" and isinstance(value, Patch):
                assert [turn.text for turn in turns] == [value.memory.failure.cause]  # type: ignore[attr-defined]
            prompts += [message.content for turn in turns for message in turn.messages]
    assert {("act", "action"), ("review", "verdict"), ("review", "diagnosis"), ("fine", "point")} <= roles
    assert {("coarse", "first"), ("patch", "cause")} <= roles


def test_unreadable_replies_are_no_turns() -> None:
    kinds = set()
    for seed in range(12):
        record, _ = _played("rir", seed, thought_tokens=16)
        for moment in moments(record):
            turns = turns_of(moment, render=Renderer(load_prompts()))
            assert turns is not None
            if isinstance(moment.value, Decision):
                kinds |= {turn.part for turn in turns}
                assert all(turn.text.strip() for turn in turns)
                assert bool(moment.value.thought) == ("thought" in [turn.part for turn in turns])
            if isinstance(moment.value, Verdict):
                assert bool(moment.value.learned) == ("learned" in [turn.part for turn in turns])
            if isinstance(moment.value, Patch) and moment.value.unread:
                assert turns == []
    assert {"thought", "action"} <= kinds


def test_a_moment_of_calls_that_are_not_ours_is_not_worded() -> None:
    record, _ = _played("rir", 3)
    moment: Moment = next(moment for moment in moments(record) if moment.kind == "review")
    odd = replace(moment, value=replace(moment.value, calls=moment.value.calls * 3))
    assert turns_of(odd, render=Renderer(load_prompts()), placement="tail") is None
    assert turns_of(replace(odd, value=moment.value, renderable=False), render=Renderer(load_prompts())) is not None


@pytest.mark.parametrize("thought_tokens", [0, 16])
@pytest.mark.parametrize("mechanism", [name for name in sorted(MECHANISMS) if name != "expel"])
def test_of_every_decision_one_reply_is_its_action(mechanism: str, thought_tokens: int) -> None:
    """Drafts, critiques, other samples and re-asked replies are no turns, whatever the mechanism asks besides."""
    decided = 0
    for seed in range(3):
        record, _ = _played(mechanism, seed, thought_tokens=thought_tokens)
        for moment in moments(record):
            value = moment.value
            if isinstance(value, Decision) and value.kind is DecisionKind.ACTION and value.calls:
                turns = turns_of(moment, render=Renderer(load_prompts()))
                assert turns is not None
                assert [turn.text for turn in turns if turn.part == "action"] == [value.action]
                thoughts = [turn.text for turn in turns if turn.part == "thought"]
                assert len(thoughts) == bool(value.thought and thought_tokens) or mechanism == "reflact"
                assert all(value.thought in " ".join(text.split()) for text in thoughts)
                assert len(turns) == 1 + len(thoughts)
                decided += 1
    assert decided > 10


def test_a_final_response_is_the_word_and_then_the_answer() -> None:
    """Also where either was asked for twice, or a thought came first."""

    def call(text: str, kind: Any = "first", options: Any = None) -> Call:
        return Call("act", (Message("user", f"before {text}"),), text, kind, options=options)

    words = ("go", "final")
    for calls, parts in (
        ([call("final", options=words), call("42", "sub")], ["action", "answer"]),
        ([call("hm"), call("final", "sub", words), call("42", "sub")], ["thought", "action", "answer"]),
        ([call("fnal", options=words), call("final", "reask"), call("42", "sub")], ["action", "answer"]),
        ([call("final", options=words), call("", "sub"), call("42", "reask")], ["action", "answer"]),
        ([call("final: 42")], ["action"]),
        ([call("", "first"), call("final: 42", "reask")], ["action"]),
    ):
        thought = "hm" if "thought" in parts else ""
        said = Decision(DecisionKind.FINAL, "42", thought, calls=tuple(calls))
        turns = turns_of(Moment(0, "act", 0, _ANY, said, "submitted"), render=lambda moment: [])
        assert turns is not None
        assert [turn.part for turn in turns] == parts
        assert turns[-1].text in ("42", "final: 42")


_ANY = View(0, "g", (), ReflectionMemory("g"))
