"""Power readings of a run, and descriptions of the sensors they come from.

A sensor has a boundary (what its reading includes), a sampling rate and an accuracy; power without
them is not a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from storlab.model.types import Provenance, Table

Boundary = Literal["device", "enclosure", "host", "wall"]
Supply = Literal["ac", "dc", "unknown"]
Sampling = Literal["instantaneous", "interval_mean", "counter"]
"""Kind of a sensor's value: instantaneous power, mean over an interval, or energy counter."""


class SensorInfo(Table):
    """Description of one sensor of a meter; units are W (power), J (counters) and ns (times)."""

    sensor: str  # unique within a run, such as "rapl:package-0"
    kind: str  # kind of the meter: rapl, hwmon, nvme, ...
    description: str
    boundary: Boundary
    supply: Supply = "unknown"
    sampling: Sampling
    unit: Literal["W", "J"]
    sensor_interval_ns: int | None = None  # averaging interval of an interval mean
    counter_max: float | None = None  # largest value in J, after which the counter wraps to 0
    gain_accuracy: float | None = None  # relative, 0.02 = 2 %; None if not stated
    offset_accuracy_w: float | None = None
    quantum: float | None = None  # smallest step, in the unit
    clock_uncertainty_ns: int = 0  # of its timestamps against the run's clock
    # fraction of the reading that is attributed to the target
    share: float = Field(default=1.0, gt=0, le=1)
    share_rule: str = ""  # reason for the share, printed next to the numbers
    whole: str = ""  # sensors with equal boundary and whole measure parts, which are summed
    provenance: Provenance = "measured"


@dataclass(frozen=True, slots=True)
class Reading:
    """Value of one sensor at a time on the run's clock (CLOCK_MONOTONIC, ns)."""

    sensor: str
    time_ns: int
    value: float  # in the sensor's unit
    # the sensor's own timestamp as text; if it has not changed, the value is stale
    sensor_time: str | None = None


class PowerSummary(Table):
    """Power of one sensor over a measure window, multiplied by the target's share of the sensor.

    Fields are None if they were not measured.
    """

    info: SensorInfo
    readings: int
    energy_j: float | None
    energy_uncertainty_j: float | None = None  # standard uncertainty
    mean_w: float | None
    p95_w: float | None = None
    peak_w: float | None = None
    idle_before_w: float | None = None
    idle_after_w: float | None = None
    idle_step_w: float = 0.0  # one step of a counter / length of the shorter idle pause
    coverage: float = 0.0  # share of the window that readings cover
    notes: list[str] = Field(default_factory=list)


class SpanPower(Table):
    """Energy of one span of a run, such as an epoch, at one power boundary.

    It is the sum over sensors, each multiplied by the target's share of the sensor. A span with too
    few readings has no record.
    """

    span: int  # index in the run's ``spans``
    boundary: Boundary
    provenance: Provenance
    energy_j: float
    energy_uncertainty_j: float | None = None  # standard uncertainty
    mean_w: float


class AppliedPowerState(Table):
    """NVMe power state that a drive reported after storlab had set it for a run."""

    device: str
    index: int
    max_power_w: float | None = None  # from the drive's identify data, like the following two
    entry_latency_us: int | None = None
    exit_latency_us: int | None = None
    former_index: int  # state before the campaign, restored afterwards
