"""Digits follow the interval; uncertain digits are not printed."""

from __future__ import annotations

import pytest

from storlab.analysis import digits
from storlab.model.decision import Interval


def of(estimate: float, low: float | None, high: float | None) -> Interval:
    return Interval(estimate, low, high, 3)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (of(5.41, 1.49, 19.7), "at least 1.4×"),  # 1.5 would overstate
        (of(1_500, 518.91, 4_000), "at least 518×"),
        (of(3.0, 1.04, 8.7), "at least 1.04×"),  # a decided ratio is not called no difference
        (of(0.017, 0.0074, 0.11), "at most 0.11×"),
        (of(0.0005, 0.0001, 0.0016), "at most 0.0016×"),
        (of(0.3, 0.1, 0.996), "at most 0.996×"),
        (of(0.2, -0.1, 0.5), "at most 0.50×"),  # 0 cannot be excluded
        (of(0.5, 0.4, 0.62), "0.50×"),
        (of(0.5, 0.2, 1.1), "0.50×"),
        (of(1.47, 1.43, 1.51), "1.47×"),
        (of(1.45, 1.02, 3.3), "1.5×"),  # half of it is above 1: the last digit would be the first
        (of(2.65, 2.4, 2.93), "2.7×"),
        (of(3.66, 3.4, 3.94), "3.7×"),
        (of(1.86, 1.6, 2.2), "1.9×"),
        (of(1.02, 0.97, 1.08), "1.02×"),
        (of(1.2, 0.3, 4.8), "too noisy"),
        (of(3.31, None, None), "3.3×"),
        (of(120.0, 110.0, 131.0), "120×"),
    ],
)
def test_a_ratio_says_what_is_known_of_it(ratio: Interval, text: str) -> None:
    assert digits.times(ratio) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (of(2.0, 1.04, 4.0), "1.04–4.0"),
        (of(2.0, 1.004, 4.0), "1.004–4.0"),
        (of(0.6, 0.3, 0.96), "0.30–0.96"),
        (of(1.4, 0.8, 2.2), "0.80–2.2"),
        (of(1.47, 1.43, 1.51), "1.43–1.51"),
    ],
)
def test_an_end_that_is_not_1_is_not_rounded_to_1(ratio: Interval, text: str) -> None:
    assert digits.ends_text(ratio) == text


@pytest.mark.parametrize("ratio", [of(3.1, 1.54, 6.4), of(0.32, 0.156, 0.65), of(1.2, 0.3, 4.8)])
def test_bounds_of_a_ratio_whose_size_is_not_known_are_not_printed(ratio: Interval) -> None:
    assert digits.ends_text(ratio) == ""
