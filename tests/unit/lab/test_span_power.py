"""Energy of spans: integrated like a window's, and omitted if not resolved."""

from __future__ import annotations

import math

import pytest

from storlab.base.energy import PowerLine
from storlab.model.power import PowerSummary, Reading, SensorInfo, SpanPower
from storlab.model.result import Span
from storlab.power.metrics import span_metrics, span_notes
from storlab.power.spans import span_power
from storlab.power.summary import SensorRun, Spans, summarise

S = 1_000_000_000
SPANS = Spans(
    window=(100 * S, 160 * S), idle_before=(80 * S, 98 * S), idle_after=(162 * S, 180 * S)
)
WRITE, RESTORE = (110 * S, 120 * S), (130 * S, 150 * S)
BASE = {"kind": "test", "description": "", "boundary": "device", "unit": "W"}


def sensor(name: str = "m", **fields: object) -> SensorInfo:
    return SensorInfo.model_validate(
        {**BASE, "sensor": name, "sampling": "instantaneous", **fields}
    )


def watts(second: float) -> float:
    """Return the power: 10 W idle, 20 W in the window, 50 W in WRITE, 30 W in RESTORE."""
    for (start, end), power in ((WRITE, 50.0), (RESTORE, 30.0), (SPANS.window, 20.0)):
        if start / S <= second <= end / S:
            return power
    return 10.0


def run(info: SensorInfo, period_s: float = 0.1, scale: float = 1.0) -> SensorRun:
    moments = [75 + period_s * i for i in range(round(110 / period_s))]
    readings = [
        Reading(info.sensor, round(t * S), scale * watts(t) + 1e-6 * (i % 7))
        for i, t in enumerate(moments)
    ]
    return SensorRun(info, readings, round(period_s * S))


def energies(*runs: SensorRun, stretches: list[tuple[int, int]]) -> list[SpanPower]:
    summaries: list[PowerSummary] = []
    lines: dict[str, PowerLine] = {}
    for run in runs:
        summary, line = summarise(run, SPANS)
        summaries.append(summary)
        if line is not None:
            lines[run.info.sensor] = line
    return span_power(runs, summaries, lines, stretches)


def test_every_span_has_its_energy() -> None:
    write, restore = energies(run(sensor()), stretches=[WRITE, RESTORE])
    assert (write.span, write.boundary, write.provenance) == (0, "device", "measured")
    assert write.energy_j == pytest.approx(500, rel=0.01)
    assert write.mean_w == pytest.approx(50, rel=0.01)
    assert restore.energy_j == pytest.approx(600, rel=0.01)
    assert restore.energy_uncertainty_j is None  # its accuracy is not stated


def test_spans_that_fill_the_window_add_up_to_its_energy() -> None:
    metered = run(sensor())
    summary, _ = summarise(metered, SPANS)
    cuts = [100 * S, 113 * S, 113 * S + 7, 141 * S, 160 * S]
    parts = energies(
        metered, stretches=[(cuts[0], cuts[1]), (cuts[1], cuts[3]), (cuts[3], cuts[4])]
    )
    assert sum(part.energy_j for part in parts) == pytest.approx(summary.energy_j)


def test_the_share_is_taken_and_parts_are_added_up() -> None:
    half = run(sensor(share=0.5, share_rule="1 of 2"))
    (power,) = energies(half, stretches=[WRITE])
    assert power.energy_j == pytest.approx(250, rel=0.01)
    parts = [run(sensor(name, whole="both"), scale=0.5) for name in ("left", "right")]
    (power,) = energies(*parts, stretches=[WRITE])
    assert power.energy_j == pytest.approx(500, rel=0.01)


def test_a_part_that_gave_nothing_leaves_no_sum() -> None:
    left = run(sensor("left", whole="both"))
    right = SensorRun(sensor("right", whole="both"), [], S)
    assert energies(left, right, stretches=[WRITE]) == []


def test_each_boundary_has_its_own() -> None:
    device, wall = run(sensor()), run(sensor("w", boundary="wall"), scale=2.0)
    found = energies(device, wall, stretches=[WRITE, RESTORE])
    assert [(p.boundary, p.span) for p in found] == [
        ("device", 0),
        ("device", 1),
        ("wall", 0),
        ("wall", 1),
    ]
    assert found[2].energy_j == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize(
    "info",
    [
        sensor(),  # read once a second
        sensor(sampling="interval_mean", sensor_interval_ns=2 * S),
    ],
)
def test_a_span_that_no_reading_resolves_has_no_energy(info: SensorInfo) -> None:
    short = (112 * S + 1, 112 * S + S // 2)
    (power,) = energies(run(info, period_s=1.0), stretches=[short, WRITE])
    assert power.span == 1


def test_a_mean_over_more_than_the_span_has_no_energy_however_often_it_is_read() -> None:
    info = sensor(sampling="interval_mean", sensor_interval_ns=15 * S)
    assert [p.span for p in energies(run(info), stretches=[WRITE, RESTORE])] == [1]


def test_a_declared_power_stays_declared() -> None:
    """Check that energy from declared power stays declared, per sample interval."""
    info = sensor(provenance="declared", sampling="counter", unit="J")
    readings = [Reading("m", t * S, 25.0 * (t - 75)) for t in range(75, 185)]
    declared = SensorRun(info, readings, 0)
    short = (112 * S + 1, 112 * S + S // 100)
    (write,) = energies(declared, stretches=[WRITE, short])
    assert write.energy_j == pytest.approx(250)
    assert write.provenance == "declared"


def test_outside_the_readings_there_is_no_energy() -> None:
    assert energies(run(sensor()), stretches=[(300 * S, 310 * S), (WRITE[1], WRITE[0])]) == []


def test_uncertainty_counts_what_lies_between_the_readings_at_the_edges() -> None:
    info = sensor(gain_accuracy=0.02, quantum=0.0)
    (power,) = energies(run(info, period_s=1.0), stretches=[WRITE])
    gain = 0.02 / math.sqrt(3) * power.energy_j
    edges = math.sqrt(2) * (power.mean_w - 10) * 0.5 / math.sqrt(3)
    assert power.energy_uncertainty_j == pytest.approx(math.hypot(gain, edges), rel=0.01)
    (finer,) = energies(run(info), stretches=[WRITE])
    assert finer.energy_uncertainty_j is not None
    assert power.energy_uncertainty_j is not None
    assert finer.energy_uncertainty_j < power.energy_uncertainty_j


def spans(*kinds: str) -> list[Span]:
    return [
        Span(kind=kind, name=f"{kind} {i}", start_ns=10 * i * S, end_ns=(10 * i + i + 1) * S)
        for i, kind in enumerate(kinds)
    ]


def power(span: int, energy_j: float, uncertainty_j: float | None = 1.0) -> SpanPower:
    return SpanPower(
        span=span,
        boundary="device",
        provenance="measured",
        energy_j=energy_j,
        energy_uncertainty_j=uncertainty_j,
        mean_w=1.0,
    )


def test_metrics_are_means_over_the_spans_of_a_kind() -> None:
    found = span_metrics(
        spans("write", "write", "restore"), [power(0, 3600), power(1, 7200), power(2, 90)]
    )
    metrics = {(m.name, m.operation): (m.value, m.unit, m.boundary) for m in found}
    assert metrics == {
        ("span_time_s", "write"): (1.5, "s", None),
        ("span_energy_j", "write"): (5400, "J", "device"),
        ("span_energy_wh", "write"): (pytest.approx(1.5), "Wh", "device"),
        ("span_time_s", "restore"): (3, "s", None),
        ("span_energy_j", "restore"): (90, "J", "device"),
        ("span_energy_wh", "restore"): (pytest.approx(0.025), "Wh", "device"),
    }
    assert [m.uncertainty for m in found if m.name == "span_energy_j"] == [1.0, 1.0]


def test_a_mean_without_the_short_ones_would_be_wrong_so_there_is_none() -> None:
    some = [power(0, 3600, None), power(2, 90)]
    of = spans("write", "write", "restore")
    found = {(m.name, m.operation) for m in span_metrics(of, some)}
    assert ("span_energy_j", "write") not in found
    assert ("span_energy_j", "restore") in found
    assert ("span_time_s", "write") in found
    (note,) = span_notes(of, some, ["device"])
    assert "energy of write at the device not measured: 1 of 2" in note
    assert span_metrics([], []) == []
    assert span_notes(of, [], []) == []


def test_an_unstated_uncertainty_of_one_is_none_of_the_mean() -> None:
    found = span_metrics(spans("epoch", "epoch"), [power(0, 1, None), power(1, 2)])
    (energy,) = [m for m in found if m.name == "span_energy_j"]
    assert energy.uncertainty is None
