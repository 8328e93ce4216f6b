"""Laws that hold for every set of repeats."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.analysis.stats import mean_interval, ratio_interval
from storlab.model.decision import Interval

positive = st.floats(min_value=1e-3, max_value=1e9)
repeats = st.lists(positive, min_size=2, max_size=8)


def bounds(interval: Interval) -> tuple[float, float]:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high


@given(repeats)
def test_mean_lies_inside_its_interval(values: list[float]) -> None:
    found = mean_interval(values)
    low, high = bounds(found)
    assert low <= found.estimate <= high
    assert found.estimate == pytest.approx(statistics.fmean(values))


@given(repeats, st.floats(min_value=1e-2, max_value=1e2))
def test_mean_interval_scales_with_the_unit(values: list[float], factor: float) -> None:
    plain = mean_interval(values)
    scaled = mean_interval([v * factor for v in values])
    tolerance = 1e-9 * max(values) * factor
    assert bounds(scaled) == pytest.approx(
        tuple(b * factor for b in bounds(plain)), rel=1e-9, abs=tolerance
    )


@given(repeats, repeats)
def test_ratio_turned_over_is_the_reciprocal(above: list[float], below: list[float]) -> None:
    first, other = ratio_interval(above, below), ratio_interval(below, above)
    assert first.estimate * other.estimate == pytest.approx(1)
    low, high = bounds(first)
    other_low, other_high = bounds(other)
    if high < 1e300 and other_high < 1e300:
        assert low * other_high == pytest.approx(1)
        assert high * other_low == pytest.approx(1)


@given(repeats, repeats, st.floats(min_value=1e-2, max_value=1e2))
def test_ratio_ignores_the_unit(above: list[float], below: list[float], factor: float) -> None:
    plain = ratio_interval(above, below)
    scaled = ratio_interval([v * factor for v in above], [v * factor for v in below])
    assert scaled.estimate == pytest.approx(plain.estimate, rel=1e-9)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Check that about 95 % of 2,000 intervals from three repeats hold the true ratio."""
    draw = random.Random(7)
    hits = 0
    for _ in range(2000):
        above = [draw.lognormvariate(1.0, 0.05) for _ in range(3)]
        below = [draw.lognormvariate(0.0, 0.05) for _ in range(3)]
        hits += not ratio_interval(above, below).excludes(2.718281828459045)
    assert 0.935 <= hits / 2000 <= 0.98
