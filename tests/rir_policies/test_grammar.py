"""Replies held to a pattern: whatever the weights, every reply has the form and can be read."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from rir_gym.base import DecisionKind, Message, Step, View
from rir_gym.errors import MissingDependency, ModelError, UsageError
from rir_gym.memory import ReflectionMemory
from rir_policies.act import ModelActor
from rir_policies.grammar import FACTS_PATTERN, command_pattern
from rir_policies.model import FunctionModel, Prompt
from rir_policies.prompts import load_prompts
from rir_policies.read import read_action, read_facts
from rir_policies.when import ModelReviewer

PROMPTS = load_prompts()


def user(text: str, **fields: Any) -> Prompt:
    return Prompt((Message("user", text),), **fields)


@pytest.fixture(scope="module")
def tiny_model() -> Any:
    pytest.importorskip("torch")
    pytest.importorskip("llguidance", reason="the extra 'grammar'")
    from tiny_models import tiny

    return tiny(context=4096)


def many(pattern: str, tokens: int) -> list[Prompt]:
    return [
        user(f"hello {i}", seed=i, temperature=temperature, max_new_tokens=tokens, pattern=pattern)
        for i in range(4)
        for temperature in (0.0, 1.0, 5.0)
    ]


@pytest.mark.parametrize("can_submit", [False, True])
def test_a_random_model_writes_only_readable_commands(tiny_model: Any, can_submit: bool) -> None:
    pattern = command_pattern(can_submit=can_submit)
    for reply in tiny_model.generate(many(pattern, 300)):
        assert reply.stop_reason == "end"
        decision = read_action(reply.text, can_submit=can_submit)
        assert decision.kind is not DecisionKind.UNPARSED, reply.text
        assert decision.thought == ""


def test_a_random_model_writes_only_typed_lines_or_none(tiny_model: Any) -> None:
    replies = tiny_model.generate(many(FACTS_PATTERN, 300))
    assert {reply.text == "none" for reply in replies} == {True, False}
    for reply in replies:
        cut = reply.stop_reason == "length"
        lines = [] if reply.text == "none" else reply.text.splitlines()
        whole = lines[:-1] if cut else lines
        assert all(re.match("(fact|elimination|affordance): .", line) for line in whole)
        facts = read_facts(reply.text, step=1, cut=cut)
        assert len(facts) == len(whole), reply.text


def test_any_pattern_is_kept_and_the_end_comes_only_where_it_is_complete(tiny_model: Any) -> None:
    for pattern in ("yes|no|maybe", "[a-f]{3}-[0-9]{2}", "(去北方|go (north|south))!"):
        for reply in tiny_model.generate(many(pattern, 40)):
            assert re.fullmatch(pattern, reply.text), reply.text
            assert reply.stop_reason == "end"
            assert len(reply.log_probs) == reply.generated_tokens
    assert len({reply.text for reply in tiny_model.generate(many("[a-f]{3}", 40))}) > 3


def test_log_probs_stay_those_of_the_model_itself(tiny_model: Any) -> None:
    (free,) = tiny_model.generate([user("a", max_new_tokens=1)])
    (held,) = tiny_model.generate([user("a", max_new_tokens=1, pattern="q")])
    assert held.log_probs[0] < free.log_probs[0] < 0


def test_neighbours_with_and_without_a_pattern_do_not_touch_each_other(tiny_model: Any) -> None:
    from tiny_models import tiny

    prompts = [user("a", max_new_tokens=9), user("b", max_new_tokens=9, pattern="[xyz]+"), user("c", max_new_tokens=9)]
    together = tiny(deterministic=False, batch_size=3).generate(prompts)
    assert [reply.text for reply in together] == [tiny_model.generate([prompt])[0].text for prompt in prompts]


def test_a_pattern_that_cannot_be_followed_is_one_error(tiny_model: Any) -> None:
    with pytest.raises(ModelError, match="cannot be followed"):
        tiny_model.generate([user("a", pattern=r"(a)\1")])
    with pytest.raises(UsageError, match="pattern="):
        user("a", pattern="(")
    assert tiny_model.generate([user("a", pattern="x")])[0].text == "x"


def test_without_the_extra_the_refusal_names_it(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiny_models import tiny

    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(MissingDependency, match=r"rir-gym\[grammar\]"):
        tiny().generate([user("a", pattern="x")])


def test_roles_ask_for_a_pattern_only_where_constrained() -> None:
    asked: list[Prompt] = []
    model = FunctionModel(replies=lambda prompt: (asked.append(prompt), "sing")[1])
    view = View(seed=1, objective="g", history=(Step(None, "o"),), memory=ReflectionMemory("g"), rollbacks_left=1)
    for constrained in (False, True):
        ModelActor(model, PROMPTS, thought_tokens=5, constrained=constrained)([view])
        ModelReviewer(model, PROMPTS, constrained=constrained)([view])
    assert [prompt.pattern for prompt in asked] == ["", "", "", "", command_pattern(can_submit=False), FACTS_PATTERN]
