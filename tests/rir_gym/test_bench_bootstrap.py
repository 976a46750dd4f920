"""Resampled intervals against closed cases, numpy, and their own laws."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym.bench.bootstrap import Figure, interquartile_mean, iqm_figure, paired_bootstrap, ratio_figures
from rir_gym.bench.metrics import paired_difference
from rir_gym.errors import UsageError

numbers = st.floats(-1e6, 1e6, allow_nan=False)


def ratio(tops, bottoms):
    return ratio_figures([[x] for x in tops], [[x] for x in bottoms])[0]


@given(st.lists(numbers, min_size=1, max_size=80))
def test_the_interquartile_mean_is_that_of_numpy(values):
    ordered, cut = np.sort(np.array(values)), len(values) // 4
    assert interquartile_mean(values) == pytest.approx(ordered[cut : len(values) - cut].mean())
    assert min(values) - 1e-9 <= interquartile_mean(values) <= max(values) + 1e-9


def test_the_interquartile_mean_of_known_arrays():
    assert interquartile_mean([1]) == 1
    assert interquartile_mean([1, 2, 3]) == 2  # a quarter of three is none
    assert interquartile_mean(range(100)) == 49.5
    assert interquartile_mean([0] * 25 + [1] * 50 + [1000] * 25) == 1
    assert interquartile_mean([*range(99), 10**9]) == np.arange(25, 75).mean()


def test_a_constant_difference_has_no_width():
    assert paired_bootstrap([1, 1, 1], [0, 0, 0]) == Figure(1, 1, 1, 3)
    assert paired_bootstrap([True, False], [True, False]) == Figure(0, 0, 0, 2)


def test_two_seeds_give_the_whole_range():
    # The mean of two draws of {0, 1} is 0 or 1 with a quarter each: beyond both tails of 2.5 %.
    assert paired_bootstrap([1, 0], [0, 0]) == Figure(0.5, 0, 1, 2)


def test_one_seed_is_a_value_without_an_interval():
    assert paired_bootstrap([1], [0]) == Figure(1, None, None, 1)
    assert ratio([3], [4]) == Figure(0.75, None, None, 4)
    assert iqm_figure([[2.0]]) == Figure(2, None, None, 1)


def test_the_binomial_case_has_the_quantiles_of_the_binomial():
    figure = paired_bootstrap([1] * 50 + [0] * 50, [0] * 100)
    # Quantiles 2.5 % and 97.5 % of Binomial(100, 1/2) / 100.
    assert figure.low == pytest.approx(0.40, abs=0.015)
    assert figure.high == pytest.approx(0.60, abs=0.015)


def test_the_bootstrap_agrees_with_the_normal_interval_where_both_hold():
    draw = random.Random(3)
    a = [draw.gauss(1, 1) for _ in range(400)]
    b = [draw.gauss(0, 1) for _ in range(400)]
    figure, normal = paired_bootstrap(a, b), paired_difference(a, b)
    assert (figure.value, figure.low, figure.high) == pytest.approx(normal, abs=0.02)


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    draw = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        figure = ratio(draw.integers(0, 2, 60), [1] * 60)
        hits += figure.low <= 0.5 <= figure.high
    assert 0.89 <= hits / 200 <= 0.99


@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_pairing_turns_its_sign_and_holds_its_value(pairs):
    a, b = zip(*pairs, strict=True)
    figure, turned = paired_bootstrap(a, b), paired_bootstrap(b, a)
    assert figure.value == pytest.approx(-turned.value)
    assert figure == paired_bootstrap(a, b)
    if figure.low is not None:
        assert -1 <= figure.low <= figure.value <= figure.high <= 1
        assert figure.low == pytest.approx(-turned.high, abs=0.05)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40))
def test_a_ratio_is_sum_over_sum_and_nothing_over_nothing_is_unknown(rows):
    tops, bottoms = [min(a, b) for a, b in rows], [b for _, b in rows]
    figure = ratio(tops, bottoms)
    if not sum(bottoms):
        assert figure == Figure(None, None, None, 0)
        return
    assert figure.value == pytest.approx(sum(tops) / sum(bottoms))
    assert figure.n == sum(bottoms)
    if len(rows) > 1:
        assert 0 <= figure.low <= figure.value <= figure.high <= 1


def test_episodes_are_resampled_whole():
    # Ten episodes of a hundred equal reviews are ten things, not a thousand.
    clustered = ratio([100] * 5 + [0] * 5, [100] * 10)
    apart = ratio([1] * 500 + [0] * 500, [1] * 1000)
    assert clustered.n == apart.n == 1000
    assert clustered.high - clustered.low > 5 * (apart.high - apart.low)


def test_all_columns_at_once_are_each_column_alone():
    draw = np.random.default_rng(1)
    tops, bottoms = draw.random((30, 4)), draw.integers(0, 3, (30, 4))
    together = ratio_figures(tops, bottoms)
    for at, figure in enumerate(together):
        alone = ratio(tops[:, at], bottoms[:, at])
        assert (alone.value, alone.low, alone.high) == pytest.approx((figure.value, figure.low, figure.high))
        assert alone.n == figure.n


def test_strata_keep_their_sizes():
    # Resampled within strata, a mean over two constant strata cannot move.
    figure = iqm_figure([[0.0] * 10, [1.0] * 10])
    assert (figure.value, figure.low, figure.high) == (0.5, 0.5, 0.5)
    loose = iqm_figure([[0.0] * 10 + [1.0] * 10])
    assert loose.low < 0.5 < loose.high


@pytest.mark.parametrize(
    "call",
    [
        lambda: ratio_figures([], []),
        lambda: ratio_figures([[1.0]], [[1.0, 2.0]]),
        lambda: ratio_figures([[1.0], [1.0, 2.0]], [[1.0], [1.0]]),
        lambda: ratio_figures([[math.nan]], [[1]]),
        lambda: ratio_figures([[1.0]], [[-1]]),
        lambda: paired_bootstrap([1], [1, 0]),
        lambda: paired_bootstrap([], []),
        lambda: paired_bootstrap([math.inf], [0]),
        lambda: interquartile_mean([]),
        lambda: iqm_figure([]),
        lambda: iqm_figure([[1.0], []]),
        lambda: paired_bootstrap(["a"], [1]),
    ],
)
def test_what_is_no_sample_is_refused(call):
    with pytest.raises((UsageError, ValueError)):
        call()
