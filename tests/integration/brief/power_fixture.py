"""Result directories with power measured at the device or the wall, declared, lost, or absent.

The runs are those of ``brief_fixture`` with synthetic power: idle watts and joules per MB.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from integration.brief.brief_fixture import (
    BEHAVIOURS,
    ENVIRONMENT,
    WINDOW_NS,
    Behaviour,
    finished_run,
)
from storlab.contracts.registry import study_class
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.power import PowerSummary, Reading, SensorInfo
from storlab.model.result import Metric, RunRecord
from storlab.results.store import ResultStore

Kind = Literal["wall", "device", "both", "declared", "lost", "none"]
START_NS = 1_000_000_000  # start of every measure window in brief_fixture
STUDY = """
[study]
name = "One SSD against 16 HDDs"
description = "Test fixture: the numbers are made up."
repeats = {repeats}
ramp = "300ms"
runtime = "1200ms"
interval = "100ms"
baseline = "16x HDD"
{header}

[[target]]
name = "1x SSD"
path = "/var/tmp/storlab/ssd.dat"
size = "1GiB"
capacity = "245.76TB"
drives = 1
rack_units = 0.25
price = 36000
cost = {{ servers = 9000, network = 2400 }}

[[target]]
name = "16x HDD"
path = "/var/tmp/storlab/hdd.dat"
size = "1GiB"
capacity = "256TB"
drives = 16
rack_units = 2
price = 5600
cost = {{ servers = 11000, network = 2400 }}

[[workload]]
kind = "block"
name = "mixed random I/O"
access = "random"
block_size = ["256KiB", "4MiB"]
read_percent = {mixes}
queue_depth = 16
jobs = [1, 2, 4, 8]
{rack}
"""
BEHAVIOURS["1x SSD"] = Behaviour({262144: 5900.0, 4194304: 4800.0}, 24.0, 0.02, 0.3)
BEHAVIOURS["16x HDD"] = Behaviour({262144: 820.0, 4194304: 2900.0}, 40.0, 0.05, 0.6)


@dataclass(frozen=True)
class Draw:
    """Power of a target: W when idle, and J per MB moved."""

    idle_w: float
    j_mb: float


DRAWS = {"1x SSD": Draw(6.2, 0.0036), "16x HDD": Draw(118.0, 0.031)}
INFOS = {
    "wall": SensorInfo(
        sensor="pdu:outlet-7",
        kind="snmp",
        description="outlet 7",
        boundary="wall",
        supply="ac",
        sampling="instantaneous",
        unit="W",
        gain_accuracy=0.01,
        offset_accuracy_w=0.5,
        quantum=1.0,
    ),
    "device": SensorInfo(
        sensor="rapl:package-0",
        kind="rapl",
        description="energy counter",
        boundary="device",
        supply="dc",
        sampling="counter",
        unit="J",
        counter_max=500.0,
        gain_accuracy=0.03,
        share=0.5,
        share_rule="two drives in the enclosure, one of them measured",
    ),
    "declared": SensorInfo(
        sensor="declared:data-sheet",
        kind="declared",
        description="idle watts and joules per byte of the data sheet",
        boundary="device",
        supply="dc",
        sampling="instantaneous",
        unit="W",
        provenance="declared",
    ),
}


def build_power_store(
    directory: Path,
    meters: Mapping[str, Kind],
    *,
    repeats: int = 3,
    mixes: tuple[int, ...] = (30, 70),
    header: str = "",
    rack: str = '[rack]\nunits = 42\npower_budget = "15kW"',
    seed: int = 7,
) -> ResultStore:
    """Create the directory and its runs; ``meters`` sets the source of each target's power."""
    text = STUDY.format(repeats=repeats, mixes=list(mixes), header=header, rack=rack)
    study = study_class().model_validate(tomllib.loads(text))
    points = [
        Point(
            target=target.name,
            workload=spec.label,
            workload_index=0,
            kind=spec.kind,
            engine="native",
            params=params,
        )
        for spec in study.workload
        for params in spec.values()
        for target in study.target
    ]
    runs = [(point, repeat) for repeat in range(1, repeats + 1) for point in points]
    plan = Plan(
        study_name=study.study.name,
        study_sha256="0" * 64,
        points={point.point_id: point for point in points},
        runs=[
            PlannedRun(order=i, repeat=repeat, point_id=point.point_id)
            for i, (point, repeat) in enumerate(runs)
        ],
        estimated_ns=len(runs) * 1_900_000_000,
        bytes_written=0,
    )
    store = ResultStore.create(directory, text, study, plan, dict(ENVIRONMENT))
    draw = random.Random(seed)
    for planned, (point, _) in zip(plan.runs, runs, strict=True):
        record, samples = finished_run(point, planned, draw)
        record, readings = _powered(record, meters[point.target], draw)
        store.write_run(record, samples, {}, readings)
    return store


def _powered(record: RunRecord, kind: Kind, draw: random.Random) -> tuple[RunRecord, list[Reading]]:
    if kind == "none":
        return record, []
    names = ["wall", "device"] if kind == "both" else ["device" if kind == "lost" else kind]
    lost = kind == "lost" and record.repeat == 2
    summaries, metrics, readings = [], list(record.metrics), []
    for name in names:
        info = INFOS[name]
        more = _readings(record, info, draw, lost=lost)
        readings += more
        summary = _summary(record, info, draw, lost=lost)
        summaries.append(summary)
        metrics += [] if lost else _metrics(summary)
    fields = record.model_dump()
    fields |= {
        "power": summaries,
        "metrics": metrics,
        "power_boundary": None if lost else INFOS[names[0]].boundary,
    }
    return RunRecord.model_validate(fields), readings


def mean_w(record: RunRecord, info: SensorInfo) -> float:
    """Return the run's mean power; at the wall it is a tenth higher than at the device."""
    own = DRAWS[record.target]
    busy = own.idle_w + own.j_mb * (record.metric("throughput_mb_s") or 0.0)
    return busy * (1.1 if info.boundary == "wall" else 1.0)


def _summary(
    record: RunRecord, info: SensorInfo, draw: random.Random, *, lost: bool
) -> PowerSummary:
    if lost:
        note = "not measured: the sensor was gone 0.4 s into the window"
        return PowerSummary(info=info, readings=4, energy_j=None, mean_w=None, notes=[note])
    seconds, power = WINDOW_NS / 1e9, mean_w(record, info) * draw.gauss(1, 0.01)
    gain = 0.0 if info.gain_accuracy is None else info.gain_accuracy
    declared = info.provenance == "declared"
    return PowerSummary(
        info=info,
        readings=0 if declared else 12,
        energy_j=power * seconds,
        energy_uncertainty_j=None if declared else gain * power * seconds,
        mean_w=power,
        p95_w=None if declared else power * 1.06,
        peak_w=None if declared else power * 1.1,
        idle_before_w=DRAWS[record.target].idle_w,
        coverage=1.0,
    )


def _metrics(summary: PowerSummary) -> list[Metric]:
    info, seconds = summary.info, WINDOW_NS / 1e9
    joules, idle = summary.energy_j or 0.0, summary.idle_before_w or 0.0
    values: list[tuple[str, float | None, str, float | None]] = [
        ("power_w", summary.mean_w, "W", None),
        ("power_p95_w", summary.p95_w, "W", None),
        ("power_peak_w", summary.peak_w, "W", None),
        ("idle_power_w", idle, "W", None),
        ("energy_j", joules, "J", summary.energy_uncertainty_j),
        ("energy_net_j", joules - idle * seconds, "J", summary.energy_uncertainty_j),
    ]
    return [
        Metric(
            name=name,
            value=value,
            unit=unit,
            provenance=info.provenance,
            boundary=info.boundary,
            uncertainty=uncertainty,
        )
        for name, value, unit, uncertainty in values
        if value is not None
    ]


def _readings(
    record: RunRecord, info: SensorInfo, draw: random.Random, *, lost: bool
) -> list[Reading]:
    """Return ten readings a second: 0.5 s idle, 0.3 s ramp, window, 0.5 s idle; a counter wraps."""
    step_ns, total, readings = 100_000_000, 495.0, []
    idle = DRAWS[record.target].idle_w * (1.1 if info.boundary == "wall" else 1.0)
    last = 4 if lost else (WINDOW_NS // step_ns) + 5
    for number in range(-8, last + 1):
        busy = -3 <= number <= WINDOW_NS // step_ns
        power = (mean_w(record, info) if busy else idle) * draw.gauss(1, 0.02)
        total = (total + power * step_ns / 1e9 / info.share) % (info.counter_max or 1e12)
        value = total if info.unit == "J" else power / info.share
        readings.append(Reading(info.sensor, START_NS + number * step_ns, value))
    return readings
