"""Power over time: the readings of one run as one line in watts, idle before and after included."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from storlab.analysis.dataset import RunData
from storlab.base.units import NS_PER_S
from storlab.lab.power.metering import power_over_time
from storlab.lab.power.summary import parts_at
from storlab.model.power import Boundary


@dataclass(frozen=True, slots=True)
class Moment:
    """A power at a time (s from the start of the measure window)."""

    time_s: float
    power_w: float


def power_trace(run: RunData, boundary: Boundary, most: int = 300) -> list[Moment]:
    """The power at a boundary, parts added up and shares taken.

    Counters and interval means stand at the middle of the time that they are the power of. More
    than ``most`` moments are thinned to means of neighbours. Empty where the run has no readings.
    Raises ResultError for damaged ones.
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
