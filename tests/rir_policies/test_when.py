"""The schedule of Algorithm 1, line by line, and the reviewer played by a model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_gym.base import Decision, DecisionKind, Review, Step, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.memory import Fact, ReflectionMemory
from rir_policies.model import FunctionModel
from rir_policies.prompts import load_prompts
from rir_policies.when import Hybrid, ModelReviewer, Silent, due, horizon, never

PROMPTS = load_prompts()
CONTINUE = Verdict(VerdictKind.CONTINUE)


def at(t, **changes):
    history = (Step(None, "o0"), *(Step(f"a{i}", f"o{i + 1}") for i in range(t)))
    base = View(seed=1, objective="g", history=history, memory=ReflectionMemory("g"), proposed=Decision.act("x"))
    return replace(base, **changes)


def is_due(view):
    return due(view, 4, 8, 8)


def test_before_any_review_the_horizon_is_l_0_counted_from_step_0():
    assert [is_due(at(t)) for t in (0, 7, 8, 9)] == [False, False, True, True]
    assert due(at(3), 4, 8, 3)
    assert not due(at(2), 4, 8, 3)


def test_after_a_review_the_horizon_follows_the_urgency():
    assert horizon(at(5, last_review=Review(5, 0.0, "continue")), 4, 8, 9) == 8
    assert horizon(at(5, last_review=Review(5, 0.5, "continue")), 4, 8, 9) == 6
    assert horizon(at(5, last_review=Review(5, 1.0, "refused")), 4, 8, 9) == 4
    urgent = Review(5, 1.0, "continue")
    assert [is_due(at(t, last_review=urgent)) for t in (5, 8, 9)] == [False, False, True]


def test_a_recovery_resets_the_horizon_and_t_rev():
    back = Review(3, None, "rollback")
    assert [is_due(at(t, last_review=back)) for t in (3, 10, 11)] == [False, False, True]


def test_a_request_and_an_end_are_always_due():
    fresh = Review(2, 0.0, "continue")
    assert is_due(at(2, last_review=fresh, proposed=Decision(DecisionKind.REQUEST)))
    assert is_due(at(2, last_review=fresh, terminal=True, proposed=None))
    assert not is_due(at(2, last_review=fresh, proposed=Decision(DecisionKind.UNPARSED)))


@given(st.integers(0, 20), st.integers(0, 20), st.floats(0, 1), st.integers(1, 6), st.integers(0, 6))
def test_the_horizon_stays_within_its_bounds(t, since, urgency, l_min, spread):
    view = at(t, last_review=Review(max(0, t - since), urgency, "continue"))
    assert l_min <= horizon(view, l_min, l_min + spread, 1) <= l_min + spread
    if since >= l_min + spread and t >= since:
        assert due(view, l_min, l_min + spread, 1)


def test_the_reviewer_is_asked_once_and_only_about_due_views():
    seen = []

    def reviewer(views):
        seen.append([view.t for view in views])
        return [Verdict(VerdictKind.ROLLBACK, diagnosis=str(view.t)) for view in views]

    verdicts = Hybrid(reviewer)([at(8), at(1), at(9)])
    assert seen == [[8, 9]]
    assert [verdict.kind for verdict in verdicts] == [VerdictKind.ROLLBACK, VerdictKind.NOT_DUE, VerdictKind.ROLLBACK]
    assert [verdict.diagnosis for verdict in verdicts] == ["8", "", "9"]
    Hybrid(reviewer)([at(1)])
    assert len(seen) == 1


def test_l_0_is_l_max_unless_given():
    assert (
        Hybrid(lambda views: [CONTINUE] * len(views), l_min=2, l_max=3)([at(3), at(2)])[1].kind is VerdictKind.NOT_DUE
    )
    assert Hybrid(lambda views: [CONTINUE] * len(views), l_0=1)([at(1)])[0].kind is VerdictKind.CONTINUE


@pytest.mark.parametrize("bad", [{"l_min": 9}, {"l_min": 0}, {"l_max": 3}, {"l_0": 0}, {"l_max": float("nan")}])
def test_a_schedule_that_is_none_is_refused(bad):
    with pytest.raises(UsageError, match="l_"):
        Hybrid(never, **bad)


def test_a_reviewer_that_answers_too_little_is_refused():
    with pytest.raises(UsageError, match="0 verdicts for 1 views"):
        Hybrid(lambda views: [])([at(8)])


def test_never_and_silent():
    assert [verdict.kind for verdict in never([at(99), at(0)])] == [VerdictKind.NOT_DUE] * 2
    knowing = Verdict(VerdictKind.ROLLBACK, 0.25, "f", (Fact("fact", "x y"),))
    [silent] = Silent(lambda views: [knowing])([at(8)])
    assert silent == replace(knowing, learned=())


def model(verdicts, *, diagnosis="Ash was poured first.", learned="fact: the book is in the hall"):
    said = list(verdicts)

    def choices(prompt, row):
        if row[0] == "CONTINUE":
            return row.index(said.pop(0))
        return row.index("0.75")

    def replies(prompt):
        return diagnosis if prompt.messages[-1].content == PROMPTS.texts["review.diagnosis"] else learned

    return FunctionModel(replies, choices)


def test_the_model_reviewer_gives_verdict_urgency_diagnosis_and_knowledge():
    go, back = ModelReviewer(model(["CONTINUE", "ROLLBACK"]), PROMPTS)([at(4), at(6)])
    assert (go.kind, go.urgency, go.diagnosis) == (VerdictKind.CONTINUE, 0.75, "")
    assert (back.kind, back.urgency, back.diagnosis) == (VerdictKind.ROLLBACK, 0.75, "Ash was poured first.")
    assert go.learned == (Fact("fact", "the book is in the hall", 4),)
    assert back.learned == (Fact("fact", "the book is in the hall", 6),)
    assert [call.kind for call in go.calls] == ["first", "sub", "sub"]
    assert [call.kind for call in back.calls] == ["first", "sub", "sub", "sub"]
    assert {call.role for call in (*go.calls, *back.calls)} == {"review"}


def test_every_sub_request_goes_on_in_the_same_conversation():
    [back] = ModelReviewer(model(["ROLLBACK"]), PROMPTS)([at(6)])
    first = back.calls[0].messages
    for call in back.calls[1:]:
        assert call.messages[: len(first)] == first
        assert [message.role for message in call.messages[len(first) :]] == ["assistant", "user"]
        assert call.messages[len(first)].content == "ROLLBACK"


@pytest.mark.parametrize("diagnosis", ["", "a1", "7", "no idea"])
def test_an_unreadable_diagnosis_is_empty_and_the_verdict_stands(diagnosis):
    [back] = ModelReviewer(model(["ROLLBACK"], diagnosis=diagnosis, learned="rambling"), PROMPTS)([at(6)])
    assert (back.kind, back.diagnosis, back.learned) == (VerdictKind.ROLLBACK, "", ())


def test_the_model_is_not_asked_without_views():
    assert list(ModelReviewer(model([]), PROMPTS)([])) == []
