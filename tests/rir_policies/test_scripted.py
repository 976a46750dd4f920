"""Roles from the oracle: exact, degraded in the stated proportions, and repeatable."""

from dataclasses import replace

import pytest

from rir_gym.base import OracleView, Restore, RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.memory import Fact, ReflectionMemory
from rir_policies.scripted import ExactLocalizer, ExactReviewer, ScriptedPatch, rescue

INF = float("inf")
SOURCE = object()  # some oracle of the environment; these roles do not ask it
VERDICT = Verdict(VerdictKind.ROLLBACK, diagnosis="ash was poured")


def view(distances, *, left=5, steps=None, success=False, exact=True, **changes):
    t = len(distances) - 1
    history = (Step(None, "o0"), *(Step(f"a{i}", f"o{i + 1}") for i in range(t)))
    points = tuple(RestorePoint(step, step, f"σ{step}") for step in (range(t + 1) if steps is None else steps))
    least = tuple(0.0 if distance is None else float(distance) for distance in distances) if exact else ()
    oracle = OracleView(success, not success, float(success), tuple(distances), least, SOURCE)
    base = View(
        seed=1,
        objective="g",
        history=history,
        memory=ReflectionMemory("g"),
        restorable=points,
        agent_calls_left=left,
        oracle=oracle,
    )
    return replace(base, **changes)


def kind(seen, **settings):
    [verdict] = ExactReviewer(**settings)([seen])
    return verdict.kind


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (view([5, 4, 3]), None),
        (view([5, 4, INF]), 1),
        (view([5, 4, 9]), 1),
        (view([5, 6, INF]), 0),
        (view([6, 7, INF]), None),
        (view([5, 4, 5]), None),
        (view([5, 4, INF], steps=(0, 2)), 0),
        (view([5, 4, INF], steps=()), None),
        (view([None, None, None]), None),
        (view([5, None, INF]), 0),
        (view([5, 4, 3], terminal=True), 1),
        (view([5, 4, INF], terminal=True), 1),
        (view([5, 4, 0], terminal=True, success=True), None),
        (view([5, 4, None], terminal=True), 1),
    ],
)
def test_rollback_iff_success_is_out_of_reach_here_and_not_at_some_restorable_step(seen, expected):
    point = rescue(seen)
    assert (point.t if point else None) == expected
    assert kind(seen) is (VerdictKind.CONTINUE if expected is None else VerdictKind.ROLLBACK)
    if expected is not None:
        [restore] = ExactLocalizer()([seen], [VERDICT])
        assert restore.point.t == expected
        assert restore.stages == ("coarse", "fine")
        low, high = restore.interval
        assert low == expected <= high


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (view([5, 4, 9], exact=False), None),  # a longer plan than the calls left proves nothing
        (view([5, 4, INF], exact=False), 1),
        (view([9, 9, INF], exact=False), 1),  # no step is proven within reach; the latest with a plan is not hopeless
        (view([5, 9, INF], exact=False), 0),  # one that is proven within reach goes first
        (view([9, None, INF], exact=False), 0),
        (view([5, 9, 9], exact=False, terminal=True), 0),
        (view([INF, INF, INF], exact=False), None),
        (view([9, 9, INF], exact=True), None),
    ],
)
def test_a_bound_that_is_too_long_is_no_loss(seen, expected):
    point = rescue(seen)
    assert (point.t if point else None) == expected
    assert kind(seen) is (VerdictKind.CONTINUE if expected is None else VerdictKind.ROLLBACK)


def test_an_environment_that_knows_no_distance_is_named():
    blind = replace(view([None, None]), oracle=OracleView(False, False, 0.0, (None, None)))
    with pytest.raises(UsageError, match="oracle of distances"):
        ExactReviewer()([blind])


def test_what_is_learned_comes_with_every_verdict():
    def learn(seen):
        return [Fact("fact", f"seen at {seen.t}", seen.t)]

    for seen in (view([5, 4, 3]), view([5, 4, INF])):
        [verdict] = ExactReviewer(learn=learn, urgency=0.25)([seen])
        assert verdict.learned == (Fact("fact", "seen at 2", 2),)
        assert verdict.urgency == 0.25


def rate(make, hit):
    return sum(hit(make(seed)) for seed in range(400)) / 400


def test_recall_and_false_alarms_are_the_stated_probabilities():
    def alarm(seen):
        return kind(seen, recall=0.8, false_alarm=0.1) is VerdictKind.ROLLBACK

    assert 0.74 < rate(lambda seed: view([5, 4, INF], seed=seed), alarm) < 0.86
    assert 0.06 < rate(lambda seed: view([5, 4, 3], seed=seed), alarm) < 0.15
    assert kind(view([5, 4, 0], terminal=True, success=True), false_alarm=1.0) is VerdictKind.CONTINUE
    assert kind(view([5, 4, 3], steps=()), false_alarm=1.0) is VerdictKind.CONTINUE


def test_exactness_is_the_stated_probability_and_the_rest_is_uniform():
    def found(seed, exactness):
        seen = view([5, 5, 5, 4, INF], seed=seed)
        [restore] = ExactLocalizer(exactness=exactness)([seen], [VERDICT])
        return restore.point.t

    assert 0.54 < rate(lambda seed: found(seed, 0.5), lambda t: t == 3) < 0.66
    assert {found(seed, 0.0) for seed in range(100)} == {0, 1, 2, 3, 4}


def test_a_false_alarm_is_located_anywhere():
    places = {ExactLocalizer()([view([5, 4, 3], seed=seed)], [VERDICT])[0].point.t for seed in range(50)}
    assert places == {0, 1, 2}


def test_draws_depend_on_seed_and_calls_and_not_on_the_batch():
    views = [view([5, 4, INF], seed=seed, agent_calls=calls) for seed in range(6) for calls in range(6)]
    reviewer = ExactReviewer(recall=0.5)
    together = [verdict.kind for verdict in reviewer(views)]
    assert together == [reviewer([seen])[0].kind for seen in views]
    assert len({tuple(together[i : i + 6]) for i in range(0, 36, 6)}) > 1


def test_the_scripted_patch_writes_the_diagnosis_and_the_undone_action():
    seen = view([5, 4, INF])
    [patch] = ScriptedPatch()([seen], [VERDICT], [Restore(seen.restorable[1])])
    assert patch.invoked
    assert patch.memory.failure.cause == "ash was poured"
    assert (patch.memory.failure.action, patch.memory.failure.conditions) == ("a1", "σ1")
    assert patch.memory.attempts[0].route == ("a1",)
    [patch] = ScriptedPatch()([seen], [replace(VERDICT, diagnosis="")], [Restore(seen.restorable[1])])
    assert patch.memory.failure.cause


def test_without_an_oracle_and_outside_of_probabilities_they_refuse():
    blind = replace(view([5, 4]), oracle=None)
    with pytest.raises(UsageError, match="uses_oracle"):
        ExactReviewer()([blind])
    with pytest.raises(UsageError, match="uses_oracle"):
        ExactLocalizer()([blind], [VERDICT])
    for make in (lambda: ExactReviewer(recall=1.1), lambda: ExactLocalizer(exactness=-0.1)):
        with pytest.raises(UsageError, match=r"a number in \[0, 1\]"):
            make()


def test_nothing_restorable_is_no_point():
    [restore] = ExactLocalizer()([view([5, INF], steps=())], [VERDICT])
    assert (restore.point, restore.stages) == (None, ())
