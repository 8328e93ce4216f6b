"""Steady-state verdicts against values computed by hand."""

from __future__ import annotations

import pytest

from storlab.base.steady import five_parts, steady_verdict


def test_constant_is_steady() -> None:
    verdict = steady_verdict([100.0] * 5)
    assert verdict.steady
    assert verdict.slope_percent == 0
    assert verdict.excursion_percent == 0


def test_slope_and_excursion_are_those_of_the_best_fit_line() -> None:
    # y = 96, 98, 100, 102, 104: the line rises by 8 over the window, the mean is 100
    verdict = steady_verdict([96, 98, 100, 102, 104])
    assert verdict.mean == 100
    assert verdict.slope_percent == pytest.approx(8)
    assert verdict.excursion_percent == pytest.approx(8)
    assert verdict.steady


def test_a_drift_beyond_the_bound_is_not_steady() -> None:
    values = [94, 97, 100, 103, 106]  # the line rises by 12 %, the excursion is 12 %
    assert steady_verdict(values).verdict == "not-steady"
    assert steady_verdict(values, slope_percent=12.001).verdict == "steady"


def test_an_excursion_beyond_the_bound_is_not_steady_without_slope() -> None:
    values = [100, 100, 121, 100, 100]
    verdict = steady_verdict(values)
    assert verdict.slope_percent == pytest.approx(0)
    assert verdict.verdict == "not-steady"
    assert steady_verdict(values, excursion_percent=21).verdict == "steady"


def test_only_the_last_five_count() -> None:
    assert steady_verdict([900, 500, 100, 100, 100, 100, 100]).steady


@pytest.mark.parametrize("values", [[], [1.0] * 4])
def test_too_short(values: list[float]) -> None:
    verdict = steady_verdict(values)
    assert verdict.verdict == "too-short"
    assert not verdict.steady


def test_nothing_moved_is_not_steady() -> None:
    assert steady_verdict([0.0] * 5).verdict == "not-steady"


def test_five_parts() -> None:
    assert five_parts([1, 2, 3]) == [1, 2, 3]
    assert five_parts([1, 3, 5, 7, 9, 11, 13, 15, 17, 19]) == [2, 6, 10, 14, 18]
    assert sum(five_parts(range(13))) == pytest.approx(6.0 * 5, rel=0.1)
