"""The patcher: the cause from the model, all else from the branch; M stays where it must."""

from dataclasses import dataclass, replace

import pytest

from rir_gym.base import Decision, DecisionKind, Restore, RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.memory import Attempt, Fact, Failure, ReflectionMemory
from rir_policies.model import FunctionModel
from rir_policies.prompts import load_prompts
from rir_policies.what import Reflect, keep

PROMPTS = load_prompts()
VERDICT = Verdict(VerdictKind.ROLLBACK, diagnosis="ash was poured")
SUMMARIES = [
    "in the lab; holding ash",
    "in the hall; holding ash",
    "in the lab; holding ash",
    "in the lab; pot: ash, salt",
]
POINTS = tuple(RestorePoint(i, i, summary) for i, summary in enumerate(SUMMARIES))
OLD = Failure("the old cause stays")
MEMORY = replace(
    ReflectionMemory("brew").learn([Fact("fact", "the book is red", 1), Fact("fact", "the pot is dark", 3)]),
    failure=OLD,
)


def view(**changes):
    actions = ("go hall", "go lab", "pour ash")
    history = (
        Step(None, "o0"),
        *(Step(action, f"o{i}", info={"admissible": ["wait"]}) for i, action in enumerate(actions, 1)),
    )
    base = View(seed=1, objective="brew", history=history, memory=MEMORY, restorable=POINTS)
    return replace(base, **changes)


def patch(reply, *, at=2, **changes):
    model = FunctionModel(replies=lambda prompt: reply)
    [result] = Reflect(model, PROMPTS)([view(**changes)], [VERDICT], [Restore(POINTS[at], "why")])
    return result


def test_the_failure_is_the_models_cause_under_the_conditions_of_the_restore_point():
    result = patch("Cause: The ash was poured before reading the book.")
    assert (result.invoked, result.unread) == (True, False)
    assert result.memory.failure == Failure(
        "The ash was poured before reading the book.",
        "in the lab; holding ash",
        "pour ash",
        "pour ash (then: in the lab; holding ash)",
    )
    [call] = result.calls
    assert (call.role, call.kind) == ("patch", "first")


def test_the_attempt_holds_milestones_and_route_of_the_suffix():
    [attempt] = patch("The ash was poured too early.", at=0).memory.attempts
    assert attempt == Attempt(
        0,
        3,
        ("in the hall", "pot: ash and salt"),
        ("go hall", "go lab", "pour ash"),
        "abandoned",
        "go hall (then: in the lab; holding ash)",
    )


def test_facts_seen_after_the_restore_point_are_marked():
    marks = {fact.text: fact.reverify for fact in patch("The ash was poured too early.").memory.environment}
    assert marks == {"the book is red": False, "the pot is dark": True}


@pytest.mark.parametrize("reply", ["", "42", "pour ash", "Wait.", "<think>", "```\n```"])
def test_an_unreadable_reflection_keeps_f_and_still_updates_e_and_h(reply):
    result = patch(reply)
    assert (result.invoked, result.unread) == (True, True)
    assert result.memory.failure == OLD
    assert len(result.memory.attempts) == 1
    assert result.memory.environment[1].reverify


def test_a_correction_adds_no_attempt_and_names_the_dropped_action():
    result = patch("The pot was not emptied first.", at=3, proposed=Decision.act("offer"))
    assert result.memory.attempts == ()
    assert result.memory.failure.action == "offer"
    asked = patch("The pot was not emptied first.", at=3, proposed=Decision(DecisionKind.REQUEST))
    assert (asked.memory.failure.action, asked.memory.failure.pattern) == ("", "")


def test_the_same_failure_in_two_attempts_is_promoted():
    first = patch("The ash was poured too early.").memory
    assert all(fact.channel == "fact" for fact in first.environment)
    second = patch("Ash went in first, again.", memory=first).memory
    [promoted] = [fact for fact in second.environment if fact.channel == "elimination"]
    assert "pour ash" in promoted.text
    assert second.failure.cause == "Ash went in first, again."
    assert "too early" not in second.render()


def test_an_ended_branch_is_worded_as_ended():
    assert patch("The potion was spoilt by ash.", terminal=True).memory.attempts[0].outcome == "ended without success"


def test_a_long_route_is_bounded_with_a_mark():
    history = (Step(None, "o"), *(Step(f"a{i}", "o") for i in range(20)))
    [attempt] = patch("The branch went in circles.", at=0, history=history).memory.attempts
    assert attempt.route == ("…", *(f"a{i}" for i in range(8, 20)))


def test_the_memory_claims_nothing_about_the_current_state():
    rendered = patch("The ash was poured too early.").memory.render()
    assert "steps 2 to 3, abandoned; had reached: pot: ash and salt; did: pour ash" in rendered
    assert rendered.startswith("Known about the environment:")


def test_keep_leaves_m_and_counts_no_patch():
    [result] = keep([view()], [VERDICT], [Restore(POINTS[0])])
    assert result.memory is MEMORY
    assert (result.invoked, result.calls) == (False, ())


@dataclass(frozen=True)
class Notes:
    def render(self):
        return ""

    def learn(self, learned):
        return self

    def to_json(self):
        return {}


def test_another_memory_and_a_restore_without_point_are_refused():
    with pytest.raises(UsageError, match="memory=Notes"):
        patch("The ash was poured too early.", memory=Notes())
    with pytest.raises(UsageError, match=r"restore\.point=None"):
        Reflect(FunctionModel(replies=lambda prompt: "one two three"), PROMPTS)([view()], [VERDICT], [Restore(None)])
