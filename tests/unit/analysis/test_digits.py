"""Digits follow the interval; uncertain digits are not printed."""

from __future__ import annotations

import pytest

from storlab.analysis import digits
from storlab.model.decision import Interval


def of(estimate: float, low: float | None, high: float | None) -> Interval:
    return Interval(estimate, low, high, 3)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (of(1234.4, 1200.0, 1260.0), "1,230 [1,200–1,260]"),
        (of(1234.4, 1233.9, 1234.9), "1,234 [1,234–1,235]"),
        (of(5.0, 4.0, 6.0), "5 [4–6]"),
        (of(1.4689, 1.41, 1.53), "1.47 [1.41–1.53]"),
        (of(1.47, 1.2, 1.8), "1.5 [1.2–1.8]"),
        (of(0.4122, 0.4119, 0.4126), "0.412 [0.412–0.413]"),
        (of(85.13, 85.1, 85.2), "85.1 [85.1–85.2]"),
        (of(7.5, None, None), "7.50"),
        (of(2.0, 0.6, 5.9), "2 [0.6–6]"),
        (of(199.0, 62.4, 635.0), "not decided"),
        (of(199.0, 0.0, 430.0), "at most 430"),
        (of(0.0, 0.0, 0.0), "0"),
    ],
)
def test_the_last_digit_is_one_that_the_interval_carries(interval: Interval, text: str) -> None:
    assert digits.text(interval) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (of(5.41, 1.49, 19.7), "at least 1.5×"),
        (of(1_500, 518.91, 4_000), "at least 519×"),  # 520 would overstate
        (of(3.0, 1.04, 8.7), "at least 1.04×"),  # a decided ratio is not called no difference
        (of(0.017, 0.0074, 0.11), "at most 0.11×"),
        (of(0.0005, 0.0001, 0.0016), "at most 0.0016×"),
        (of(0.3, 0.1, 0.996), "at most 0.996×"),
        (of(0.2, -0.1, 0.5), "at most 0.50×"),  # 0 cannot be excluded
        (of(0.5, 0.4, 0.62), "0.5×"),
        (of(0.5, 0.2, 1.1), "0.5×"),
        (of(1.47, 1.43, 1.51), "1.47×"),
        (of(1.45, 1.02, 3.3), "1.4×"),  # half of it is above 1: the last digit would be the first
        (of(1.02, 0.97, 1.08), "1.02×"),
        (of(1.2, 0.3, 4.8), "not decided"),
        (of(3.31, None, None), "3.31×"),
        (of(120.0, 110.0, 131.0), "120×"),
    ],
)
def test_a_ratio_says_what_is_known_of_it(ratio: Interval, text: str) -> None:
    assert digits.times(ratio) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (of(2.0, 1.04, 4.0), "1.04–4"),
        (of(2.0, 1.004, 4.0), "1.004–4"),
        (of(0.6, 0.3, 0.96), "0.3–0.96"),
        (of(1.4, 0.8, 2.2), "0.8–2.2"),
        (of(1.47, 1.43, 1.51), "1.43–1.51"),
    ],
)
def test_an_end_that_is_not_1_is_not_rounded_to_1(ratio: Interval, text: str) -> None:
    assert digits.ends_text(ratio) == text


def test_the_end_that_at_least_names_is_the_same_in_the_interval() -> None:
    more = of(3.1, 1.54, 6.4)  # with one digit, as for its half: 2-6
    assert digits.times(more, "") == "at least 1.5" and digits.ends_text(more) == "1.5–6"
    less = of(0.32, 0.156, 0.65)
    assert digits.times(less, "") == "at most 0.65" and digits.ends_text(less) == "0.2–0.65"


def test_a_number_is_never_rounded_to_nothing() -> None:
    latency = of(4_657_200.0, 3_000_000.0, 24_500_000.0)  # its half is of another power of ten
    assert digits.text(latency, 1_000.0) == "5,000 [3,000–24,000]"
