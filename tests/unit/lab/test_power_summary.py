"""From readings to a run's power per sensor and boundary, and what is not measured."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from storlab.base.energy import PowerLine
from storlab.model.power import PowerSummary, Reading, SensorInfo
from storlab.power.summary import (
    BoundaryPower,
    SensorRun,
    Spans,
    boundary_power,
    idle_uncertainty_w,
    parts_at,
    summarise,
)

S = 1_000_000_000
SPANS = Spans(
    window=(100 * S, 160 * S), idle_before=(80 * S, 98 * S), idle_after=(162 * S, 180 * S)
)
BASE = {"sensor": "m", "kind": "test", "description": "", "boundary": "wall", "unit": "W"}


def sensor(**fields: object) -> SensorInfo:
    return SensorInfo.model_validate({**BASE, "sampling": "instantaneous", **fields})


def load(second: int) -> float:
    return 200.0 if 98 < second < 162 else 50.0


def at(seconds: Iterable[float], name: str = "m", scale: float = 1.0) -> list[Reading]:
    """Return the power: 50 W idle, 200 W under load, slightly uneven like real sensors."""
    return [
        Reading(name, round(t * S), scale * (load(int(t)) + 0.001 * (i % 7)))
        for i, t in enumerate(seconds)
    ]


def run(info: SensorInfo, readings: list[Reading], **more: object) -> SensorRun:
    return SensorRun(info, readings, S, **more)  # type: ignore[arg-type]


def test_one_sensor_over_window_and_pauses() -> None:
    summary, line = summarise(run(sensor(), at(range(75, 185))), SPANS)
    assert line is not None
    assert summary.readings == 61
    assert summary.energy_j == pytest.approx(200 * 60, rel=1e-4)
    assert summary.mean_w == pytest.approx(200, rel=1e-4)
    assert summary.peak_w == pytest.approx(200, rel=1e-4)
    assert summary.idle_before_w == pytest.approx(50, rel=1e-3)
    assert summary.idle_after_w == pytest.approx(50, rel=1e-3)
    assert summary.coverage == 1
    assert summary.notes == []
    assert summary.energy_uncertainty_j is None  # its accuracy is not stated


def test_the_share_is_taken_of_everything() -> None:
    info = sensor(share=0.25, share_rule="6 of 24 drives")
    summary, _ = summarise(run(info, at(range(75, 185))), SPANS)
    assert summary.energy_j == pytest.approx(50 * 60, rel=1e-4)
    assert summary.idle_before_w == pytest.approx(12.5, rel=1e-3)


def test_uncertainty_from_what_the_data_sheet_says() -> None:
    info = sensor(gain_accuracy=0.02, offset_accuracy_w=1.0, quantum=1.0)
    info = info.model_copy(update={"clock_uncertainty_ns": 100_000_000})
    summary, _ = summarise(run(info, at(range(75, 185))), SPANS)
    parts = [
        0.02 / math.sqrt(3) * 12_000,
        1 / math.sqrt(3) * 60,
        math.sqrt(60 / 12),
        math.sqrt(2) * 150 * 0.1 / math.sqrt(3),
    ]
    assert summary.energy_uncertainty_j == pytest.approx(math.hypot(*parts), rel=1e-3)


def test_a_counter_that_wraps_in_the_window() -> None:
    seconds = range(75, 185)
    counts = [sum(load(t) for t in range(75, s)) % 10_001 for s in seconds]
    readings = [Reading("m", s * S, value) for s, value in zip(seconds, counts, strict=True)]
    info = sensor(sampling="counter", unit="J", counter_max=10_000.0, quantum=1.0)
    summary, _ = summarise(run(info, readings), SPANS)
    assert summary.energy_j == pytest.approx(200 * 60)
    assert summary.peak_w == pytest.approx(200)
    assert summary.idle_after_w == pytest.approx(50)


def test_a_counter_read_twice_at_once_has_no_peak() -> None:
    """Check that one count more after 10 us is not a peak of 100 kW."""
    seconds = range(75, 185)
    readings = [Reading("m", s * S, float(200 * s)) for s in seconds]
    readings += [Reading("m", s * S + 10_000, 200.0 * s + 1) for s in (120, 184)]
    info = sensor(sampling="counter", unit="J", quantum=1.0)
    summary, _ = summarise(run(info, readings), SPANS)
    assert summary.energy_j == pytest.approx(12_000)
    assert summary.peak_w == pytest.approx(200, rel=1e-2)


def counted(step_j: float, spans: Spans, watts: float = 100.0, idle: float = 60.0) -> list[Reading]:
    """Return a counter read once a second that moves in whole steps, starting within one."""
    joules, readings = 0.5 * step_j, []
    for second in range(spans.whole[0] // S, spans.whole[1] // S + 1):
        readings.append(Reading("m", second * S, joules // step_j * step_j))
        joules += watts if spans.window[0] <= second * S < spans.window[1] else idle
    return readings


@pytest.mark.parametrize("stated", [True, False])
def test_few_steps_of_a_counter_tell_energy_and_no_power_in_between(stated: bool) -> None:
    spans = Spans((100 * S, 700 * S), idle_before=(90 * S, 100 * S), idle_after=(700 * S, 712 * S))
    info = sensor(
        sampling="counter", unit="J", gain_accuracy=0.01, quantum=3600.0 if stated else None
    )
    summary, line = summarise(run(info, counted(3600, spans)), spans)
    assert summary.energy_j == pytest.approx(60_000, abs=3600)
    assert (summary.idle_before_w, summary.idle_after_w) == (None, None)
    assert (summary.p95_w, summary.peak_w) == (None, None)
    assert line is not None
    (whole,) = boundary_power([summary], {"m": line}, spans.window)
    assert (whole.p95_w, whole.peak_w, whole.idle_w) == (None, None, None)


def test_a_reading_that_came_twice_makes_no_coarse_counter() -> None:
    spans = Spans((100 * S, 160 * S), idle_before=(90 * S, 100 * S))
    readings = [
        Reading("m", t * S, 60.0 * t + 0.25 * (t % 3) + (40.0 * t if t > 100 else 0))
        for t in range(90, 161)
    ]
    for twice in (5, 40):
        readings[twice] = Reading("m", readings[twice].time_ns, readings[twice - 1].value)
    info = sensor(sampling="counter", unit="J")
    summary, _ = summarise(run(info, readings), spans)
    assert summary.idle_before_w == pytest.approx(60, rel=0.02)
    assert summary.p95_w == pytest.approx(100, rel=0.02)


def test_what_is_declared_has_no_steps() -> None:
    readings = [Reading("m", t * S, 5.0 * max(0, t - 130)) for t in range(100, 161)]
    info = sensor(sampling="counter", unit="J", provenance="declared")
    summary, _ = summarise(run(info, readings), SPANS)
    assert summary.peak_w == 5


def test_the_steps_of_a_counter_are_part_of_the_uncertainty_of_idle_power() -> None:
    spans = Spans((100 * S, 700 * S), idle_before=(0, 100 * S), idle_after=(700 * S, 760 * S))
    info = sensor(sampling="counter", unit="J", gain_accuracy=0.0, quantum=10.0)
    summary, _ = summarise(run(info, counted(10, spans)), spans)
    assert summary.idle_before_w == pytest.approx(60, abs=0.2)
    assert summary.idle_after_w == pytest.approx(60, abs=0.4)
    assert (summary.p95_w, summary.peak_w) == (100, 100)
    idle = [summary.idle_before_w or 0, summary.idle_after_w or 0]
    drift = (max(idle) - min(idle)) / math.sqrt(12)
    steps = math.hypot(drift, math.sqrt(2 / 12) * 10 / 60)
    assert idle_uncertainty_w([summary]) == pytest.approx(steps)


def not_measured(summary: PowerSummary, why: str) -> None:
    assert (summary.energy_j, summary.mean_w, summary.peak_w) == (None, None, None)
    assert any(why in note and "not measured" in note for note in summary.notes)


def test_a_sensor_gone_in_mid_run_measured_nothing() -> None:
    ended = (130 * S, "connection refused")
    summary, line = summarise(run(sensor(), at(range(75, 130)), ended=ended), SPANS)
    not_measured(summary, "connection refused")
    assert line is None
    assert summary.idle_before_w == pytest.approx(50, rel=1e-3)
    assert summary.idle_after_w is None


def test_a_sensor_gone_after_the_window_has_measured_it() -> None:
    ended = (165 * S, "connection refused")
    summary, _ = summarise(run(sensor(), at(range(75, 165)), ended=ended), SPANS)
    assert summary.energy_j == pytest.approx(200 * 60, rel=1e-4)


def test_too_few_readings_are_no_measurement() -> None:
    summary, _ = summarise(run(sensor(), at([90, 130, 170])), SPANS)
    not_measured(summary, "1 readings inside the window")
    summary, _ = summarise(run(sensor(), []), SPANS)
    not_measured(summary, "0 readings inside the window")


def test_a_hole_of_a_tenth_of_the_window_is_no_measurement() -> None:
    seconds = [t for t in range(75, 185) if not 120 < t < 127]
    summary, _ = summarise(run(sensor(), at(seconds)), SPANS)
    not_measured(summary, "88 %")
    assert summary.coverage == pytest.approx(53 / 60)


def test_a_slow_meter_is_a_measurement() -> None:
    summary, _ = summarise(run(sensor(), at([t / 2 for t in range(150, 372, 5)])), SPANS)
    assert summary.energy_j == pytest.approx(200 * 60, rel=1e-4)
    assert summary.coverage == 1


def test_a_counter_that_stands_still_is_not_zero_energy() -> None:
    info = sensor(sampling="counter", unit="J", quantum=1.0)
    readings = [Reading("m", t * S, 5.0) for t in range(75, 185)]
    summary, _ = summarise(run(info, readings), SPANS)
    not_measured(summary, "did not change")


def test_a_counter_that_was_reset_is_no_measurement() -> None:
    info = sensor(sampling="counter", unit="J", quantum=1.0)
    readings = [Reading("m", t * S, float(t % 130)) for t in range(75, 185)]
    not_measured(summarise(run(info, readings), SPANS)[0], "counter was reset")


def test_stale_values_are_noted() -> None:
    readings = [Reading("m", t * S, 100.0) for t in range(75, 185)]
    summary, _ = summarise(run(sensor(), readings), SPANS)
    assert summary.energy_j == pytest.approx(6000)  # steady power looks the same
    assert any("stale" in note for note in summary.notes)


def test_an_unchanged_stamp_of_the_sensor_is_one_reading() -> None:
    """Check that repeated values of a stuck controller count as one reading."""
    readings = [
        Reading("m", t * S, 100.0 + min(t, 130) % 3, f"12:00:{min(t, 130)}") for t in range(75, 185)
    ]
    summary, _ = summarise(run(sensor(), readings), SPANS)
    not_measured(summary, "50 %")
    assert any("stale" in note for note in summary.notes)
    slow = [Reading("m", t * S, 100.0, f"12:00:{t // 3}") for t in range(75, 185)]
    assert summarise(run(sensor(), slow), SPANS)[0].energy_j == pytest.approx(6000)


def test_pauses_without_readings_have_no_idle_power() -> None:
    summary, _ = summarise(run(sensor(), at(range(98, 163))), SPANS)
    assert summary.energy_j is not None
    assert (summary.idle_before_w, summary.idle_after_w) == (None, None)
    bare = Spans(window=(100 * S, 160 * S))
    summary, _ = summarise(run(sensor(), at(range(75, 185))), bare)
    assert (summary.idle_before_w, summary.idle_after_w) == (None, None)


def of_boundaries(*infos: SensorInfo) -> list[BoundaryPower]:
    summaries: list[PowerSummary] = []
    lines: dict[str, PowerLine] = {}
    for info in infos:
        readings = at(range(75, 185), info.sensor) if "gone" not in info.sensor else []
        summary, line = summarise(run(info, readings), SPANS)
        summaries.append(summary)
        if line is not None:
            lines[info.sensor] = line
    return boundary_power(summaries, lines, SPANS.window)


def test_parts_of_a_whole_are_added_and_other_views_are_not() -> None:
    outlets = [sensor(sensor=f"outlet {n}", whole="pdu", gain_accuracy=0.01) for n in (1, 2)]
    other = sensor(sensor="bmc")
    (power,) = of_boundaries(*outlets, other)
    assert power.sensors == ("outlet 1", "outlet 2")
    assert power.energy_j == pytest.approx(2 * 200 * 60, rel=1e-4)
    assert power.idle_w == pytest.approx(100, rel=1e-3)
    assert power.p95_w == pytest.approx(400, rel=1e-4)
    alone = summarise(run(outlets[0], at(range(75, 185), "outlet 1")), SPANS)[0]
    assert alone.energy_uncertainty_j is not None
    assert power.energy_uncertainty_j == pytest.approx(2 * alone.energy_uncertainty_j)
    (power,) = of_boundaries(other, *outlets)
    assert power.sensors == ("bmc",)


def test_boundaries_are_never_added() -> None:
    powers = of_boundaries(sensor(), sensor(sensor="d", boundary="device", whole="x"))
    assert [power.boundary for power in powers] == ["wall", "device"]
    assert all(power.energy_j == pytest.approx(12_000, rel=1e-4) for power in powers)


def test_a_whole_without_one_of_its_parts_is_not_measured() -> None:
    parts = [sensor(sensor=name, whole="pdu") for name in ("outlet 1", "gone")]
    assert of_boundaries(*parts) == []
    summaries = [summarise(run(part, []), SPANS)[0] for part in parts]
    assert [p.info.sensor for p in parts_at(summaries, "wall")] == ["outlet 1", "gone"]
    assert parts_at(summaries, "host") == []


def test_a_declared_part_makes_the_whole_declared() -> None:
    parts = [sensor(sensor="a", whole="x"), sensor(sensor="b", whole="x", provenance="declared")]
    (power,) = of_boundaries(*parts)
    assert power.provenance == "declared"
    modelled = sensor(sensor="c", whole="x", provenance="modelled")
    assert of_boundaries(*parts, modelled)[0].provenance == "modelled"


def test_parts_that_miss_different_stretches_are_no_whole() -> None:
    """Check coverage of two sensors: 96 % each, but only 92 % together."""
    parts = [sensor(sensor=name, whole="pdu") for name in ("outlet 1", "outlet 2")]
    spans = Spans(window=(0, 200 * S))
    found, lines = [], {}
    for part, gap in zip(parts, (range(50, 57), range(120, 127)), strict=True):
        readings = [r for r in at(range(201), part.sensor) if r.time_ns // S not in gap]
        summary, line = summarise(run(part, readings), spans)
        assert line is not None
        assert 0.95 <= summary.coverage < 1
        found.append(summary)
        lines[part.sensor] = line
    assert boundary_power(found, lines, spans.window) == []
    assert len(boundary_power(found[:1], lines, spans.window)) == 1


def test_all_power_is_the_step_at_the_edges_where_idle_is_unknown() -> None:
    """Check edge uncertainty without idle power; a peak in the middle is irrelevant."""
    info = sensor(gain_accuracy=0.0, clock_uncertainty_ns=S)
    readings = [Reading("m", round(t * S), 1000.0 if t == 130 else 100.0) for t in range(100, 161)]
    summary, _ = summarise(run(info, readings), Spans(window=(100 * S, 160 * S)))
    assert summary.mean_w is not None
    assert summary.energy_uncertainty_j == pytest.approx(
        math.sqrt(2) * summary.mean_w / math.sqrt(3), rel=1e-9
    )


def test_idle_power_has_the_uncertainty_of_its_sensor_and_of_its_drift() -> None:
    info = sensor(gain_accuracy=0.03, offset_accuracy_w=0.6, whole="pdu")
    (power,) = of_boundaries(info)
    gain, offset = 0.03 / math.sqrt(3) * 50, 0.6 / math.sqrt(3)
    assert power.idle_uncertainty_w == pytest.approx(math.hypot(gain, offset), rel=1e-3)
    before, _ = summarise(run(info, at(range(75, 185))), SPANS)
    warm = before.model_copy(update={"idle_after_w": 62.0, "idle_before_w": 50.0})
    assert idle_uncertainty_w([warm]) == pytest.approx(
        math.hypot(0.03 / math.sqrt(3) * 56, offset, 12 / math.sqrt(12))
    )
    assert idle_uncertainty_w([warm, warm]) == pytest.approx(2 * (idle_uncertainty_w([warm]) or 0))
    (unstated,) = of_boundaries(sensor())
    assert unstated.idle_uncertainty_w is None
