"""Intervals against the literature and their own laws; summaries from episodes and from records alike."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_gym.bench.metrics import COUNTS, Row, paired_difference, row_of, row_of_record, summary_of, wilson
from rir_gym.data.records import episode_record, header_of
from rir_gym.errors import UsageError


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(successes, n, low, high):
    rate, found_low, found_high = wilson(successes, n)
    assert rate == successes / n
    assert (round(found_low, 4), round(found_high, 4)) == (low, high)


@given(st.integers(1, 500), st.data())
def test_wilson_holds_the_rate_mirrors_and_solves_its_equation(n, data):
    successes = data.draw(st.integers(0, n))
    rate, low, high = wilson(successes, n)
    assert 0 <= low <= rate <= high <= 1
    assert low < high
    _, mirrored_low, mirrored_high = wilson(n - successes, n)
    assert math.isclose(low, 1 - mirrored_high, abs_tol=1e-12)
    assert math.isclose(high, 1 - mirrored_low, abs_tol=1e-12)
    for p in (low, high):
        if 0 < p < 1:
            assert math.isclose(abs(rate - p), 1.959963984540054 * math.sqrt(p * (1 - p) / n), rel_tol=1e-9)


@pytest.mark.parametrize(
    ("successes", "n", "z"), [(0, 0, 2.0), (-1, 3, 2.0), (4, 3, 2.0), (1, 3, 0.0), (1, 3, math.inf)]
)
def test_wilson_refuses_what_is_no_rate(successes, n, z):
    with pytest.raises(UsageError, match=f"successes={successes}, n={n}"):
        wilson(successes, n, z=z)


def test_a_paired_difference_by_hand():
    mean, low, high = paired_difference([True, True, True, False], [False, True, False, False])
    half = 1.959963984540054 * math.sqrt(1 / 3) / 2
    assert mean == 0.5
    assert math.isclose(low, 0.5 - half)
    assert math.isclose(high, 0.5 + half)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_a_paired_difference_turns_its_sign_with_its_arguments(pairs):
    a, b = zip(*pairs, strict=True)
    mean, low, high = paired_difference(a, b)
    assert low <= mean <= high
    assert paired_difference(b, a) == pytest.approx((-mean, -high, -low))
    assert paired_difference(a, a) == (0, 0, 0)


def test_pairing_takes_out_what_the_seeds_share():
    draw = random.Random(0)
    a = [draw.gauss(0, 10) for _ in range(100)]
    b = [x - 1 + draw.gauss(0, 0.1) for x in a]
    _, low, high = paired_difference(a, b)
    assert low < 1 < high
    assert high - low < 0.1
    shuffled = draw.sample(b, len(b))
    _, low, high = paired_difference(a, shuffled)
    assert high - low > 1


@pytest.mark.parametrize(("a", "b"), [([1], [1]), ([], []), ([1, 0], [1])])
def test_a_paired_difference_needs_the_same_seeds_and_two_of_them(a, b):
    with pytest.raises(UsageError, match=f"a={len(a)}, b={len(b)}"):
        paired_difference(a, b)


def test_a_summary_is_the_mean_of_its_rows_in_any_order():
    rows = [Row(i % 4 == 0, i / 100, dict.fromkeys(COUNTS, i) | {"coarse": 1}) for i in range(101)]
    summary = summary_of(rows)
    assert (summary.n, summary.success[0], summary.score) == (101, 26 / 101, 0.5)
    assert {getattr(summary, name) for name in COUNTS} == {50}
    assert summary.success == wilson(26, 101)
    assert summary_of(random.Random(1).sample(rows, len(rows))) == summary
    assert summary.to_json()["success"] == list(summary.success)


def test_an_episode_and_its_record_give_the_same_row(story):
    episode = story.run()
    record = episode_record(episode, header_of(story.env, story.mechanism, agent="script"))
    assert row_of(episode) == row_of_record(record)
    summary = summary_of([row_of(episode)])
    assert (summary.success[0], summary.score, summary.agent_calls, summary.steps) == (1, 1, 7, 4)
    assert (summary.reviews, summary.rollbacks, summary.corrections, summary.auxiliary) == (4, 1, 1, 10)
    assert (summary.prompt_tokens, summary.reused_tokens, summary.generated_tokens) == (200, 50, 30)


def test_a_recorded_score_that_is_no_number_is_nan():
    record = {"result": {"success": False, "score": {"$float": "nan"}}, "ledger": {}}
    assert math.isnan(row_of_record(record).score)


def test_no_episodes_are_no_summary():
    with pytest.raises(UsageError, match="rows"):
        summary_of([])
