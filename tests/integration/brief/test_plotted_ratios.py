"""The forest plot draws each ratio at its value, however far from 1."""

from __future__ import annotations

from itertools import cycle

import pytest

from storlab.figures import ratios
from support.made_comparisons import comparison_of, study_of

KEY = "throughput_mb_s.all"


@pytest.mark.parametrize("factor", [3.3e-5, 0.5, 1.0, 3e4])
def test_ratios_are_drawn_where_they_are_and_whether_they_are_decided(factor: float) -> None:
    noise = cycle([0.99, 1.0, 1.01])
    made = comparison_of(
        study_of(["a", "b"], mixes=(100,)),
        lambda target, _: {KEY: next(noise) * (factor if target == "b" else 1.0) * 1e4},
    )
    (figure, *_) = ratios.draw(made, made.sections)
    data = figure.spec["datasets"]["ratios"]
    (other,) = made.others
    by_size = [row.ratios[other][KEY].interval for row in made.rows.values()]
    assert len(data) == len(by_size)
    for datum, interval in zip(data, by_size, strict=True):
        assert datum["ratio"] == pytest.approx(interval.estimate, rel=1e-5)
        assert datum["low"] == pytest.approx(interval.low, rel=1e-5)
        assert datum["high"] == pytest.approx(interval.high, rel=1e-5)
        assert datum["state"] == (ratios.OPEN if factor == 1.0 else ratios.DECIDED)
