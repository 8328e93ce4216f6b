"""Power of one run over time in watts, including the idle periods before and after."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from storlab.analysis.dataset import RunData
from storlab.base.units import NS_PER_S
from storlab.model.power import Boundary
from storlab.power.metering import power_over_time
from storlab.power.summary import parts_at


@dataclass(frozen=True, slots=True)
class Moment:
    """Power at a time, in seconds from the start of the measure window."""

    time_s: float
    power_w: float


def power_trace(run: RunData, boundary: Boundary, most: int = 300) -> list[Moment]:
    """Return a target's power at a boundary over time, summed over sensors.

    Each reading is multiplied by the target's share of the sensor.

    Readings of counters and interval means are placed in the middle of their interval. More than
    ``most`` readings are thinned to means of neighbours. Empty if the run has no readings.

    Raises:
        ResultError: The stored readings are damaged.
    """
    record = run.record
    times, watts = power_over_time(record, run.store.power(run.directory_name), boundary)
    if any(p.info.sampling != "instantaneous" for p in parts_at(record.power, boundary)):
        times = [(before + other) // 2 for before, other in pairwise(times)]
    seconds = [(time - record.window_start_ns) / NS_PER_S for time in times]
    size = max(-(-len(seconds) // most), 1)
    groups = (slice(i, i + size) for i in range(0, len(seconds), size))
    return [Moment(_mean(seconds[group]), _mean(watts[: len(seconds)][group])) for group in groups]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
