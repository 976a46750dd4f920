"""One test for each memory rule of the method, section "The memory"."""

import json

import pytest

from rir_gym.memory import Attempt, Fact, Failure, Memory, ReflectionMemory


@pytest.fixture
def memory():
    return ReflectionMemory("brew the potion")


def test_reflection_memory_is_a_memory(memory):
    assert isinstance(memory, Memory)


def test_objective_never_changes(memory):
    after = memory.learn([Fact("fact", "x")]).abandon(resumed_at=0, ended_at=3, failure=Failure("y"))
    assert after.objective == memory.objective == "brew the potion"


def test_environment_grows_by_learning_and_keeps_three_channels(memory):
    facts = [Fact("fact", "a"), Fact("elimination", "b"), Fact("affordance", "c")]
    after = memory.learn(facts[:2]).learn(facts[2:])
    assert after.environment == tuple(facts)
    assert memory.environment == ()


def test_same_statement_is_kept_once_as_seen_last(memory):
    after = memory.learn([Fact("fact", "a", step=1)]).learn([Fact("fact", "a", step=4)])
    assert after.environment == (Fact("fact", "a", step=4),)


def test_an_invariant_fact_is_not_weakened_by_a_later_sighting(memory):
    known = Fact("fact", "the book says ash", step=1, invariant=True)
    assert memory.learn([known]).learn([Fact("fact", "the book says ash", step=9)]).environment == (known,)


def test_facts_after_the_restore_point_are_marked_reverify_and_keep_their_provenance(memory):
    before, after, fixed = (
        Fact("fact", "a", step=2),
        Fact("fact", "b", step=3),
        Fact("fact", "c", step=5, invariant=True),
    )
    learned = memory.learn([before, after, fixed]).abandon(resumed_at=2, ended_at=6)
    assert learned.environment == (before, Fact("fact", "b", step=3, reverify=True), fixed)
    assert "b (seen at step 3 of an undone attempt; re-verify)" in learned.render()


def test_seeing_it_again_clears_the_mark(memory):
    marked = memory.learn([Fact("fact", "b", step=3)]).abandon(resumed_at=2, ended_at=6)
    assert marked.learn([Fact("fact", "b", step=4)]).environment == (Fact("fact", "b", step=4),)


def test_attempts_enter_only_when_abandoned_and_are_worded_as_history(memory):
    running = memory.learn([Fact("fact", "a")])
    assert running.attempts == ()
    ended = running.abandon(resumed_at=1, ended_at=4, route=("go lab", "pour ash"), milestones=("had ash",))
    assert ended.attempts == (Attempt(1, 4, ("had ash",), ("go lab", "pour ash")),)
    assert "attempt 1, steps 1 to 4, abandoned; had reached: had ash; did: go lab, pour ash" in ended.render()


def test_a_correction_adds_no_attempt(memory):
    corrected = memory.abandon(resumed_at=4, ended_at=4, failure=Failure("wrong herb"))
    assert corrected.attempts == ()
    assert corrected.failure == Failure("wrong herb")


def test_failure_is_replaced_and_history_grows(memory):
    twice = memory.abandon(resumed_at=0, ended_at=3, failure=Failure("first")).abandon(
        resumed_at=1, ended_at=5, failure=Failure("second", conditions="pot full")
    )
    assert twice.failure == Failure("second", conditions="pot full")
    assert len(twice.attempts) == 2
    assert "first" not in twice.render()
    assert "second (then: pot full)" in twice.render()


def test_an_unreadable_reflection_keeps_the_old_failure(memory):
    kept = memory.abandon(resumed_at=0, ended_at=3, failure=Failure("first")).abandon(resumed_at=0, ended_at=2)
    assert kept.failure == Failure("first")
    assert len(kept.attempts) == 2


def test_a_pattern_seen_across_attempts_is_promoted_to_the_environment(memory):
    once = memory.abandon(resumed_at=0, ended_at=3, failure=Failure("Poured  ash"))
    assert once.environment == ()
    twice = once.abandon(resumed_at=0, ended_at=3, failure=Failure("poured ash"))
    assert [fact.channel for fact in twice.environment] == ["elimination"]
    assert "poured ash" in twice.environment[0].text


def test_a_pattern_is_counted_apart_from_its_wording(memory):
    once = memory.abandon(resumed_at=0, ended_at=3, failure=Failure("the pot turned black", pattern="pour ash"))
    twice = once.abandon(resumed_at=0, ended_at=3, failure=Failure("it went dark", pattern="pour ash"))
    assert len(twice.environment) == 1


def test_render_is_empty_without_anything_to_say_and_json_is_plain(memory):
    assert memory.render() == ""
    full = memory.learn([Fact("fact", "a")]).abandon(resumed_at=0, ended_at=1, failure=Failure("b"))
    assert json.loads(json.dumps(full.to_json())) == full.to_json()
