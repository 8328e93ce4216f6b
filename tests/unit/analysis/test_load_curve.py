"""The knee of latency against offered load."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.analysis.load_curve import KNEE_FACTOR, Knee, LoadPoint, knee_of
from storlab.model.decision import Interval

NOTHING: Any = None
LOADS = range(10, 111, 10)


@dataclass(frozen=True)
class Made(LoadPoint):
    """Point of a curve with a given latency."""

    p99: Interval | None = None
    over: bool = False

    @property
    def overloaded(self) -> bool:
        return self.over

    def latency(self, statistic: str, operation: str, fewest: int = 0) -> Interval | None:
        assert (statistic, operation, fewest) == ("p99", "read", 0)
        return self.p99


def curve(p99: Sequence[float], spread: float = 0.01, over: int = 0) -> list[LoadPoint]:
    """Return a curve, of which the last ``over`` points are overloaded."""
    return [
        Made(
            NOTHING, NOTHING, float(load),
            Interval(value, value / (1 + spread), value * (1 + spread), 3),
            place >= len(p99) - over,
        )
        for place, (load, value) in enumerate(zip(LOADS, p99, strict=False))
    ]  # fmt: skip


def knee(points: Sequence[LoadPoint]) -> tuple[float | None, float | None, bool]:
    found = cast(Knee, knee_of(points, "read"))
    last, beyond = (None if p is None else p.rate_s for p in (found.last, found.beyond))
    return last, beyond, found.is_clear


def test_the_knee_is_the_last_load_below_twice_the_latency_at_low_load() -> None:
    assert knee(curve([100, 100, 105, 110, 120, 150, 190, 260, 500, 2000])) == (70, 80, True)


def test_it_is_unclear_if_an_interval_includes_the_limit() -> None:
    points = curve([100, 100, 100, 110, 120, 150, 190, 260, 500, 2000], spread=0.1)
    assert knee(points) == (70, 80, False)


def test_one_slow_low_load_does_not_move_it() -> None:
    # An idle device sleeps between operations.
    assert knee(curve([180, 100, 100, 110, 120, 150, 190, 260, 500, 2000])) == (70, 80, True)


def test_an_overloaded_point_is_beyond_it_whatever_its_latency() -> None:
    assert knee(curve([100] * 10, over=1)) == (90, 100, True)
    without = curve([100, 100, 105, 110, 120, 150, 190, 260, 500])
    overloaded = curve([100, 100, 105, 110, 120, 150, 190, 260, 500, 1e9, 1e9], over=2)
    assert knee(without) == knee(overloaded)


def test_a_curve_that_stays_low_has_no_load_beyond_it() -> None:
    assert knee(curve([100] * 11)) == (110, None, True)


def test_a_slow_load_below_it_does_not_move_it() -> None:
    assert knee(curve([300, 100, 100, 300, 120, 150, 190, 260, 500, 2000])) == (70, 80, True)


@pytest.mark.parametrize("points", [curve([100] * 4), [], curve([100] * 6, over=6)])
def test_a_short_curve_has_none(points: list[LoadPoint]) -> None:
    assert knee_of(points, "read") is None


@pytest.mark.parametrize("beyond", [(), (1e9,)])
@pytest.mark.parametrize("slow", [1.0, 2.0])
def test_noise_moves_the_knee_of_a_single_server_by_less_than_a_load(
    beyond: tuple[float, ...], slow: float
) -> None:
    """Check bias and spread with M/M/1, whose p99 is ln(100) / (1 - load) service times."""
    draw = random.Random(1)
    found = []
    for _ in range(300):
        p99 = [draw.lognormvariate(0, 0.1) / (1 - min(load, 99) / 100) for load in LOADS[:10]]
        p99[0] *= slow
        found.append(knee(curve([*p99, *beyond], over=len(beyond)))[0] or 0.0)
    assert abs(fmean(found) - 60) < 6
    assert pstdev(found) < 7


@given(
    st.lists(st.floats(1, 1e9), min_size=5, max_size=11),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
)
def test_it_does_not_depend_on_units(values: list[float], scale: float, speed: float) -> None:
    """Check that the knee is the same if all latencies, or all loads, are multiplied."""
    first = knee_of(curve(values), "read")
    scaled = [
        Made(NOTHING, NOTHING, point.rate_s * speed, cast(Made, point).p99.scaled(scale))  # type: ignore[union-attr]
        for point in curve(values)
    ]
    second = knee_of(scaled, "read")
    assert first is not None
    assert second is not None
    limits = first.limit_ns * scale
    if not any(v == pytest.approx(first.limit_ns, rel=1e-9) for v in values):
        assert second.limit_ns == pytest.approx(limits)
        for one, other in ((first.last, second.last), (first.beyond, second.beyond)):
            assert (one is None) == (other is None)
            assert one is None or other is None or other.rate_s == one.rate_s * speed


@given(st.lists(st.floats(1, 1e9), min_size=5, max_size=11), st.integers(0, 5))
def test_every_load_above_it_is_slow_or_overloaded(values: list[float], over: int) -> None:
    points = curve(values, over=over)
    found = knee_of(points, "read")
    if found is None:
        assert over >= len(values) - 2
        return
    after = 0 if found.last is None else points.index(found.last) + 1
    above = cast(list[Made], points[after:])
    assert all(p.over or cast(Interval, p.p99).estimate > found.limit_ns for p in above)
    assert found.beyond == (above[0] if above else None)
    low = sorted(values[:3][: len(values) - over])
    assert found.limit_ns / KNEE_FACTOR == pytest.approx(
        (low[(len(low) - 1) // 2] + low[len(low) // 2]) / 2
    )
