"""Instruments have the quality they say: delay, recall, false alarms and exactness, measured."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_gym import ReflectionMemory, RestorePoint, Step, UsageError, VerdictKind, View
from rir_gym.base import OracleView
from rir_policies.instruments import DelayedReviewer, instruments, lost_for
from rir_policies.scripted import ExactReviewer

INF = float("inf")


def view(distances, *, left=10, seed=0, terminal=False, calls=0, exact=True):
    history = tuple([Step(None if i == 0 else f"a{i}", f"o{i}") for i in range(len(distances))])
    points = tuple([RestorePoint(i, i) for i in range(len(distances))])
    least = tuple([distance or 0 for distance in distances]) if exact else ()
    oracle = OracleView(success=False, failed=False, score=0.0, distances=tuple(distances), least=least)
    return View(
        seed, "win", history, ReflectionMemory("win"), restorable=points, agent_calls=calls, agent_calls_left=left,
        terminal=terminal, oracle=oracle,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("distances", "left", "age"),
    [
        ((3, 2, 1), 10, None),
        ((3, 2, INF), 10, 0),
        ((3, INF, INF, INF), 10, 2),
        ((INF, INF), 10, 1),
        ((5, None, INF), 10, 0),
        ((8, 8, 8), 6, 1),  # lost by the budget: two steps ago there were 8 calls left
        ((9, 9, 9), 6, 2),
        ((INF, 3, INF), 10, 0),
    ],
)
def test_how_long_a_loss_is_old(distances, left, age):
    assert lost_for(view(distances, left=left)) == age


def test_an_upper_bound_that_is_too_long_proves_no_loss():
    assert lost_for(view((9, 9, 9), left=6, exact=False)) is None
    assert lost_for(view((9, 9, INF), left=6, exact=False)) == 0


@given(st.integers(0, 6), st.integers(1, 6))
def test_a_loss_is_seen_when_it_is_old_enough(delay, lost_steps):
    seen = view((2, *[INF] * lost_steps))
    [verdict] = DelayedReviewer(ExactReviewer(), delay=delay)([seen])
    assert (verdict.kind is VerdictKind.ROLLBACK) == (lost_steps - 1 >= delay)
    [verdict] = DelayedReviewer(ExactReviewer(), delay=delay)([replace(seen, terminal=True)])
    assert verdict.kind is VerdictKind.ROLLBACK


def rate(reviewer, distances):
    views = [view(distances, seed=seed) for seed in range(1000)]
    return sum(verdict.kind is VerdictKind.ROLLBACK for verdict in reviewer(views)) / len(views)


def test_recall_and_false_alarms_are_what_was_asked_for():
    reviewer, _ = instruments(recall=0.8, false_alarm=0.1, delay=2)
    assert rate(reviewer, (2, INF, INF, INF)) == pytest.approx(0.8, abs=0.04)
    assert rate(reviewer, (2, INF)) == pytest.approx(0.1, abs=0.03)  # not seen yet: judged as if nothing were lost
    assert rate(reviewer, (3, 2, 1)) == pytest.approx(0.1, abs=0.03)


def test_exactness_is_what_was_asked_for():
    reviewer, localizer = instruments(exactness=0.5)
    views = [view((5, 4, 3, INF, INF), seed=seed) for seed in range(1000)]
    found = [restore.point.t for restore in localizer(views, reviewer(views))]
    assert found.count(2) / 1000 == pytest.approx(0.5 + 0.5 / 5, abs=0.05)
    assert set(found) == {0, 1, 2, 3, 4}


def test_without_delay_it_is_the_exact_reviewer_and_nothing_depends_on_the_batch():
    assert isinstance(instruments()[0], ExactReviewer)
    reviewer, _ = instruments(recall=0.5, false_alarm=0.5, delay=1)
    views = [view((2, INF, INF), seed=seed) for seed in range(20)]
    assert list(reviewer(views)) == [reviewer([each])[0] for each in views]


@pytest.mark.parametrize("delay", [-1, 1.5, True, None])
def test_a_delay_is_a_number_of_steps(delay):
    with pytest.raises(UsageError, match=r"delay="):
        DelayedReviewer(ExactReviewer(), delay=delay)


def test_who_reads_the_oracle_needs_one():
    with pytest.raises(UsageError, match="uses_oracle"):
        DelayedReviewer(ExactReviewer(), delay=1)([replace(view((1,)), oracle=None)])
