"""Number of repeats needed for a decision, against simulated crosschecks."""

from __future__ import annotations

import math
import random

import pytest

from storlab.analysis.repeats import MOST, POWER, repeats_to_decide
from storlab.analysis.stats import ratio_interval
from storlab.model.decision import equivalence

FAMILY = 0.95  # of a crosscheck with one metric


def spread(middle: float, each: float) -> list[float]:
    """Return three values with this geometric mean and log standard deviation."""
    return [middle * math.exp(each * step) for step in (-1, 0, 1)]


@pytest.mark.parametrize(
    ("ratio", "each", "repeats"),
    [
        (1.0, 0.03, 4),
        (1.0, 0.10, 27),
        (1.0, 0.30, 232),
        (1.64, 0.30, 7),
        (1.06, 0.05, 7),
        (1.0, 2.0, None),  # more than is practical
    ],
)
def test_how_many(ratio: float, each: float, repeats: int | None) -> None:
    found = repeats_to_decide(spread(ratio, each), spread(1, each), 0.05, 0.95, FAMILY)
    assert found == repeats


def test_without_a_spread_there_is_no_number() -> None:
    assert repeats_to_decide([1.0], [1.0, 1.1], 0.05, 0.95, FAMILY) is None


def test_more_noise_and_a_stricter_family_want_more() -> None:
    def needed(each: float, family: float) -> int:
        return repeats_to_decide(spread(1.3, each), spread(1, each), 0.05, 0.95, family) or MOST

    assert needed(0.1, 0.95) <= needed(0.2, 0.95) <= needed(0.2, 0.999)
    assert needed(0.1, 0.95) < needed(0.4, 0.999)


@pytest.mark.parametrize(("ratio", "each"), [(1.0, 0.1), (1.64, 0.4), (1.06, 0.05), (1.2, 0.2)])
def test_that_many_decide_four_of_five(ratio: float, each: float) -> None:
    repeats = repeats_to_decide(spread(ratio, each), spread(1, each), 0.05, 0.95, FAMILY)
    assert repeats is not None
    draw = random.Random(16)
    decided, rounds = 0, 400
    for _ in range(rounds):
        native, reference = (
            [math.exp(draw.gauss(math.log(middle), each)) for _ in range(repeats)]
            for middle in (ratio, 1.0)
        )
        found = ratio_interval(native, reference)
        decided += equivalence(found, found, 0.05) != "within noise"
    # the spread is random too, so the needed number varies: three standard errors
    assert decided / rounds > POWER - 0.08
