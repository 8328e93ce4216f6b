"""Quantiles against SciPy's."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import ndtri, stdtrit

from storlab.analysis.quantiles import normal, student_t


@given(st.floats(0.5, 1 - 1e-9), st.floats(0.5, 1e12))
@example(0.5, 3.0)
@example(0.975, 1.0)
@example(0.975, 1e4)
@example(0.975, math.nextafter(1e4, math.inf))
@example(1 - 1e-9, 1.0)
@example(1 - 1e-9, 0.5)
def test_student_t_is_that_of_scipy(probability: float, freedom: float) -> None:
    expected = float(stdtrit(freedom, probability))
    # The probability is a double: the effect of its next value on the quantile is not our error.
    between = abs(float(stdtrit(freedom, math.nextafter(probability, 1))) - expected)
    assert student_t(probability, freedom) == pytest.approx(
        expected, rel=1e-10, abs=1e-12 + 4 * between
    )


@given(st.floats(1e-9, 1 - 1e-9))
def test_the_normal_quantile_is_that_of_scipy(probability: float) -> None:
    assert normal(probability) == pytest.approx(float(ndtri(probability)), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    ("freedom", "printed"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042)]
)
def test_student_t_is_that_of_printed_tables(freedom: int, printed: float) -> None:
    assert round(student_t(0.975, freedom), 3) == printed
