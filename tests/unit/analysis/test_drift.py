"""Repeats that depend on their order in time, and plain noise that does not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from storlab.analysis.compare import PLACES
from storlab.analysis.drift import ERROR, Repeat, drifts_of, order_effect
from storlab.analysis.points import page_of
from storlab.contracts.registry import FAMILIES

BLOCK = page_of("block")


@pytest.mark.parametrize(
    ("values", "kind", "after"),
    [
        ([200, 200, 40, 40, 40], "step", 2),  # burst credits run out
        ([200, 200, 40], "step", 2),
        ([201, 198, 41], "step", 2),
        ([40, 200, 199], "step", 1),  # only the first one was cold
        ([400, 205, 198, 201, 200], "step", 1),
        ([200, 199, 201, 200, 100], "step", 4),
        ([120, 119, 120.5, 104, 103, 105], "step", 3),
        ([200, 180, 160, 140, 120], "trend", None),  # heat
        ([1.00, 1.02, 1.05, 1.07, 1.09, 1.12], "trend", None),
    ],
)
def test_an_effect_of_order(values: list[float], kind: str, after: int | None) -> None:
    effect = order_effect(values)
    assert effect is not None
    assert (effect.kind, effect.after) == (kind, after)
    backwards = order_effect(values[::-1])
    assert backwards is not None
    assert backwards.change == pytest.approx(1 / effect.change)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [200, 40],  # two values are always in some order
        [200, 40, 200],
        [200, 150, 100],  # three values in order: one of six permutations
        [100, 101, 99, 100, 102],
        [200, 200, 200, 40, 200],  # one disturbed run is not an order
        [200, 40, 200, 40, 200],
        [100, 100, 97, 97, 97],  # significant, but too small to matter
        [200, 190, 150, 210, 160],
        [0, 0, 40, 40, 40],  # 0 has no logarithm
    ],
)
def test_no_effect_of_order(values: list[float]) -> None:
    assert order_effect(values) is None


@pytest.mark.parametrize("family", list(FAMILIES))
def test_every_quantity_that_can_drift_has_a_column(family: str) -> None:
    """A family may show no latency in its tables, but its latencies are tested for drift."""
    page = page_of(family)
    keys = [
        f"{time}_{statistic}_ns.{operation}"
        for time in ("latency", "intended_latency")
        for statistic in ("mean", "p99")
        for operation in page.operations.main
    ]
    declining = [dict.fromkeys(keys, value) for value in (200, 180, 160, 140, 120)]
    repeats = [Repeat(f"r{n}", f"2026-01-0{n}T00:00:00", v) for n, v in enumerate(declining, 1)]
    drifting = {drift.metric for drift in drifts_of(repeats, page)}
    assert drifting >= set(keys)
    assert drifting <= PLACES.keys()


Noise = Callable[[random.Random], float]


def _normal(size: float) -> Noise:
    return lambda draw: max(1e-3, draw.gauss(1, size))


def _lognormal(size: float) -> Noise:
    return lambda draw: draw.lognormvariate(0, size)


def _uniform(size: float) -> Noise:
    return lambda draw: draw.uniform(1 - size, 1 + size)


@pytest.mark.parametrize(
    "noise",
    [_normal(0.02), _normal(0.1), _lognormal(0.05), _lognormal(0.5), _uniform(0.2)],
    ids=["normal 2 %", "normal 10 %", "lognormal 5 %", "lognormal 50 %", "uniform 20 %"],
)
@pytest.mark.parametrize("repeats", [4, 5, 10])
def test_honest_noise_is_seldom_called_drift(noise: Noise, repeats: int) -> None:
    """Check that at most ERROR of noisy points are called drift, slightly more if not normal."""
    assert _alarms(noise, repeats, 4_000) <= 1.6 * ERROR


@pytest.mark.parametrize("noise", [_normal(0.02), _normal(0.1), _lognormal(0.1)])
def test_three_repeats_are_seldom_called_drift(noise: Noise) -> None:
    assert _alarms(noise, 3, 4_000) <= ERROR


def _alarms(noise: Noise, repeats: int, points: int) -> float:
    draw = random.Random(7)
    found = (order_effect([noise(draw) for _ in range(repeats)]) for _ in range(points))
    return sum(effect is not None for effect in found) / points


def test_the_error_is_that_of_a_point_with_all_its_quantities() -> None:
    """Check the error rate of points with several quantities of independent noise."""
    draw, points = random.Random(11), 2_000
    keys = ["throughput_mb_s.all"]
    keys += [f"latency_{s}_ns.{op}" for s in ("mean", "p99") for op in ("read", "write")]
    alarms = 0
    for _ in range(points):
        repeats = [
            _repeat(place, {key: draw.lognormvariate(0, 0.1) for key in keys}) for place in range(5)
        ]
        alarms += bool(drifts_of(repeats, BLOCK))
    assert 0 < alarms / points <= 1.6 * ERROR


@pytest.mark.parametrize(("ratio", "repeats"), [(0.5, 5), (0.8, 5), (0.9, 10)])
def test_a_step_and_a_trend_are_seen(ratio: float, repeats: int) -> None:
    """Check that nearly all steps and trends are detected at 1 % noise."""
    draw = random.Random(3)
    step = [1.0 if place < repeats // 2 else ratio for place in range(repeats)]
    trend = [ratio ** (place / (repeats - 1)) for place in range(repeats)]
    for state in (step, trend):
        seen = [
            order_effect([value * math.exp(draw.gauss(0, 0.01)) for value in state])
            for _ in range(300)
        ]
        assert sum(effect is not None for effect in seen) >= 285


def _repeat(minute: int, values: dict[str, float], run_id: str = "") -> Repeat:
    return Repeat(run_id or f"r{minute}", f"2026-11-20T10:{minute:02d}:00.000+00:00", values)


def _repeats(values: Sequence[float], key: str = "throughput_mb_s.all") -> list[Repeat]:
    return [_repeat(minute, {key: value}) for minute, value in enumerate(values)]


@pytest.mark.parametrize(
    "key", ["throughput_mb_s.all", "latency_mean_ns.read", "latency_p99_ns.write"]
)
def test_throughput_and_latency_are_tested(key: str) -> None:
    (drift,) = drifts_of(_repeats([200, 200, 40, 40, 40], key), BLOCK)
    assert (drift.metric, drift.values) == (key, (200, 200, 40, 40, 40))


def test_order_is_the_time_of_the_runs_and_not_their_number() -> None:
    """Check that drift uses time order: in a resumed campaign, retried repeats ran last."""
    repeats = _repeats([200, 40, 40, 200, 40])
    assert drifts_of(repeats, BLOCK) == []
    first = repeats[3]
    repeats[3] = Repeat(first.run_id, "2026-11-20T09:00:00+00:00", first.values)
    (drift,) = drifts_of(repeats, BLOCK)
    assert drift.values == (200, 200, 40, 40, 40)
    assert drift.runs == ["r3", "r0", "r1", "r2", "r4"]


@pytest.mark.parametrize("started", ["2026-11-20T10:00:00+00:00", "unknown"])
def test_repeats_without_an_order_are_not_tested(started: str) -> None:
    """Check that parallel sections of one fio file are not tested for drift."""
    repeats = [Repeat(r.run_id, started, r.values) for r in _repeats([200, 200, 40, 40, 40])]
    assert drifts_of(repeats, BLOCK) == []


def test_percentiles_of_three_repeats_are_not_tested() -> None:
    """Check that percentiles of three repeats, which scatter too much, are not tested."""
    assert drifts_of(_repeats([200, 200, 40], "latency_p99_ns.read"), BLOCK) == []
    assert len(drifts_of(_repeats([200, 200, 40], "latency_mean_ns.read"), BLOCK)) == 1
