"""Ratios in figure titles: the larger side, the factor, and only certain digits."""

from __future__ import annotations

import pytest

from storlab.figures.ratio_text import MOVES, span_words
from storlab.model.decision import Decision, Interval
from support.made_comparisons import decided


def ratio(estimate: float, low: float | None, high: float | None) -> Decision:
    return decided(Interval(estimate, low, high, 3))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([(12.63, 12.1, 13.2)], "SSD moves 12.6× as much as HDD"),
        ([(0.0792, 0.0755, 0.083)], "HDD moves 12.6× as much as SSD"),
        ([(0.5, 0.4, 0.62)], "HDD moves 2.0× as much as SSD"),  # the digits follow the interval
        ([(5.41, 1.49, 19.7)], "SSD moves at least 1.5× as much as HDD"),
        ([(1.02, 0.97, 1.08)], "SSD and HDD can’t be told apart in throughput"),
        ([(0.5, None, None)], "HDD moves 2.00× as much as SSD"),  # one run
        ([(2.0, 1.98, 2.02), (4.0, 3.5, 4.6)], "SSD moves 2.00 to 4.0× as much as HDD"),
        ([(0.5, 0.495, 0.505), (0.25, 0.24, 0.26)], "HDD moves 2.00 to 4.0× as much as SSD"),
        (
            [(0.5, 0.48, 0.52), (3.0, 2.8, 3.2)],
            "SSD moves up to 3.0× as much as HDD at 1 of 2 points, and HDD moves up to 2.00× as "
            "much as SSD at 1",
        ),
        (  # states the number of points the largest was picked from
            [(3.0, 2.8, 3.2), (2.0, 1.98, 2.02), (0.5, 0.48, 0.52), (1.02, 0.97, 1.08)],
            "SSD moves up to 3.0× as much as HDD at 2 of 4 points, and HDD moves up to 2.00× as "
            "much as SSD at 1",
        ),
        (  # undecided ratios are not claimed
            [(0.66, 0.5, 0.87), (1.5, 0.6, 3.5), (0.769, 0.68, 0.87)],
            "HDD moves 1.3 to 1.5× as much as SSD at 2 of 3 points, and can’t be told apart at the "
            "others",
        ),
    ],
)
def test_the_larger_side_comes_first(
    found: list[tuple[float, float | None, float | None]], text: str
) -> None:
    assert span_words([ratio(*each) for each in found], "SSD", "HDD", "throughput", MOVES) == text


def test_of_times_the_longer_comes_first() -> None:
    assert span_words([ratio(0.4, 0.39, 0.41)], "SSD", "HDD", "energy") == (
        "HDD’s energy is 2.50× SSD’s"
    )
