"""Compute the energy of the spans of a run (checkpoints, epochs, stages) at each power boundary.

Spans may be short, so the rules are stricter than for the measure window: the sensor must have been
read during the span, and must not average over more than the span. Otherwise the energy is unknown.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from storlab.base.energy import PowerLine, line_sum, window_energy
from storlab.base.units import NS_PER_S
from storlab.model.power import PowerSummary, Reading, SensorInfo, SpanPower
from storlab.power.summary import (
    LEAST_COVERAGE,
    LEAST_READINGS,
    SensorRun,
    Stretch,
    distinct,
    parts_at,
    stated_uncertainty_j,
    weakest_provenance,
)


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the sensors that are added up at a power boundary, with its readings."""

    summary: PowerSummary
    readings: Sequence[Reading]  # distinct readings
    times_ns: Sequence[int]  # times of the readings
    line: PowerLine

    @classmethod
    def of(cls, summary: PowerSummary, run: SensorRun, line: PowerLine) -> _Part:
        """Build a part from the readings of its sensor during the run."""
        readings = distinct(run.readings)
        return cls(summary, readings, [reading.time_ns for reading in readings], line)

    @property
    def info(self) -> SensorInfo:
        """Return the description of the sensor."""
        return self.summary.info

    def inside(self, stretch: Stretch) -> Sequence[Reading]:
        """Return the readings between two times."""
        first = bisect_left(self.times_ns, stretch[0])
        return self.readings[first : bisect_right(self.times_ns, stretch[1])]


def span_power(
    runs: Sequence[SensorRun],
    summaries: Sequence[PowerSummary],
    lines: Mapping[str, PowerLine],
    stretches: Sequence[Stretch],
) -> list[SpanPower]:
    """Return the energy of spans for each power boundary, in time order.

    Args:
        runs: Readings of each sensor.
        summaries: Summaries of ``runs`` over the whole window.
        lines: Power over time by sensor.
        stretches: Start and end of each span, in ns of the run's clock.
    """
    by_sensor = {run.info.sensor: run for run in runs}
    powers: list[SpanPower] = []
    for boundary in dict.fromkeys(summary.info.boundary for summary in summaries):
        parts = parts_at(summaries, boundary)
        known = [lines[part.info.sensor] for part in parts if part.info.sensor in lines]
        if len(known) < len(parts):
            continue
        try:
            line = line_sum(known) if len(known) > 1 else known[0]
        except ValueError:
            continue  # the sensors' readings do not overlap in time
        own = [
            _Part.of(part, by_sensor[part.info.sensor], part_power)
            for part, part_power in zip(parts, known, strict=True)
        ]
        for number, stretch in enumerate(stretches):
            power = _of_stretch(number, stretch, own, line)
            if power is not None:
                powers.append(power)
    return powers


def _of_stretch(
    number: int, stretch: Stretch, parts: Sequence[_Part], line: PowerLine
) -> SpanPower | None:
    start, end = stretch
    if end <= start or not all(_is_resolved(part, stretch) for part in parts):
        return None
    taken = window_energy(line, start, end)
    if taken.coverage < LEAST_COVERAGE or not taken.energy_j > 0:
        return None
    shares = [_uncertainty(part, stretch) for part in parts]
    stated = [share for share in shares if share is not None]
    return SpanPower(
        span=number,
        boundary=parts[0].summary.info.boundary,
        provenance=weakest_provenance(part.info.provenance for part in parts),
        energy_j=taken.energy_j,
        # Uncertainties are added, because errors of sensors of one make may have the same sign.
        energy_uncertainty_j=math.fsum(stated) if len(stated) == len(shares) else None,
        mean_w=taken.energy_j * NS_PER_S / (end - start),
    )


def _is_resolved(part: _Part, stretch: Stretch) -> bool:
    """Return whether a sensor has enough readings in a span, and averages over less than it."""
    return len(part.inside(stretch)) >= LEAST_READINGS and (
        (part.info.sensor_interval_ns or 0) <= stretch[1] - stretch[0]
    )


def _uncertainty(part: _Part, stretch: Stretch) -> float | None:
    """Return the standard uncertainty in J of a sensor's energy over a span; None if unknown.

    The time of a change of power at an edge is only known to lie between two readings.
    """
    inside = part.inside(stretch)
    spacings = [b.time_ns - a.time_ns for a, b in pairwise(inside)]
    return stated_uncertainty_j(
        part.info,
        window_energy(part.line, *stretch),
        inside,
        stretch,
        [part.summary.idle_before_w, part.summary.idle_after_w],
        edge_ns=max(spacings, default=0) / 2,
    )
