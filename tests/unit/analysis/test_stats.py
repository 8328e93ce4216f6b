"""Intervals against known values and scipy."""

from __future__ import annotations

import math

import pytest
from scipy import stats as scipy_stats

from storlab.analysis.stats import mean_interval, ratio_interval
from storlab.model.decision import Interval


def test_mean_interval_agrees_with_scipy() -> None:
    values = [101.0, 99.5, 103.2, 98.7, 100.4]
    found = mean_interval(values)
    low, high = scipy_stats.t.interval(  # of the mean's logarithm, by the delta method
        0.95,
        len(values) - 1,
        loc=math.log(found.estimate),
        scale=scipy_stats.sem(values) / found.estimate,
    )
    assert found.n == 5
    assert found.estimate == pytest.approx(100.56)
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-12)


def test_values_that_are_not_all_positive_have_students_interval() -> None:
    values = [0.0, -1.5, 3.2, 1.7, 0.4]
    found = mean_interval(values)
    low, high = scipy_stats.t.interval(
        0.95, len(values) - 1, loc=found.estimate, scale=scipy_stats.sem(values)
    )
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)


def test_the_interval_of_a_positive_mean_is_positive() -> None:
    found = mean_interval([100.0, 210.0, 287.0])
    assert found.estimate == pytest.approx(199.0)
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < 100
    assert found.low * found.high == pytest.approx(199.0**2)


def test_three_repeats_use_the_wide_quantile() -> None:
    found = mean_interval([9.0, 10.0, 11.0])
    assert found.high == pytest.approx(10 * math.exp(4.30265273 / math.sqrt(3) / 10), rel=1e-7)


def test_one_value_has_no_bounds() -> None:
    assert mean_interval([7.5]) == Interval(7.5, None, None, 1)
    ratio = ratio_interval([8.0], [2.0, 2.0])
    assert (ratio.estimate, ratio.low, ratio.high, ratio.n) == (pytest.approx(4), None, None, 1)
    assert not mean_interval([7.5]).excludes(1.0)
    assert not mean_interval([7.5]).is_known


def test_equal_values_are_known_to_their_resolution_only() -> None:
    mean = mean_interval([10.0, 10.0, 10.0])
    assert mean.low is not None
    assert mean.low == pytest.approx(10 * math.exp(-4.30265273e-3 / math.sqrt(3)), rel=1e-7)
    ratio = ratio_interval([6.0, 6.0], [3.0, 3.0])
    assert ratio.low is not None
    assert ratio.low < ratio.estimate == pytest.approx(2.0)
    assert ratio.excludes(1.0)
    assert mean_interval([0.0, 0.0]) == Interval(0.0, 0.0, 0.0, 2)


@pytest.mark.parametrize("n", [2, 3, 5, 30])
def test_equal_repeats_a_digit_apart_decide_nothing(n: int) -> None:
    found = ratio_interval([10.01] * n, [10.0] * n)
    assert not found.excludes(1.0)
    assert found.estimate == pytest.approx(1.001)


def test_ordinary_spread_is_untouched_by_the_floor() -> None:
    above, below = [101.0, 99.0, 100.5], [50.0, 50.4, 49.7]
    low, high = scipy_stats.ttest_ind(
        [math.log(v) for v in above], [math.log(v) for v in below], equal_var=False
    ).confidence_interval(0.95)
    found = ratio_interval(above, below)
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-12)


def test_ratio_interval_agrees_with_scipys_welch() -> None:
    above, below = [210.0, 190.0, 205.0], [50.0, 52.0, 47.0, 55.0]
    test = scipy_stats.ttest_ind(
        [math.log(v) for v in above], [math.log(v) for v in below], equal_var=False
    )
    low, high = test.confidence_interval(0.95)
    found = ratio_interval(above, below)
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-12)
    assert found.n == 3
    assert found.excludes(1.0)
    assert not found.excludes(found.estimate)


def test_ninety_percent_is_narrower() -> None:
    wide, narrow = mean_interval([1.0, 2.0, 4.0]), mean_interval([1.0, 2.0, 4.0], 0.9)
    assert wide.low is not None
    assert narrow.low is not None
    assert narrow.low > wide.low


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_values_that_have_no_mean_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="values"):
        mean_interval(values)


def test_a_ratio_needs_positive_values() -> None:
    with pytest.raises(ValueError, match=r"denominator.* 0\.0"):
        ratio_interval([1.0, 2.0], [0.0, 1.0])


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_confidence_is_a_fraction(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        mean_interval([1.0, 2.0], confidence)
