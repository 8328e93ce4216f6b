"""Power readings and what sensors say about themselves.

Boundary, sensor, rate and accuracy belong to every reading; a value without them is no measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from storlab.model.types import Provenance, Table

Boundary = Literal["device", "enclosure", "host", "wall"]
Supply = Literal["ac", "dc", "unknown"]
Sampling = Literal["instantaneous", "interval_mean", "counter"]
"""How a value relates to time: a moment's power, the mean over the sensor's own interval, or energy
counted so far."""


class SensorInfo(Table):
    """One sensor of a meter. Units: W for power, J for counters, ns for times."""

    sensor: str  # unique within a run, such as "rapl:package-0"
    kind: str  # of the meter: rapl, hwmon, nvme, ...
    description: str
    boundary: Boundary
    supply: Supply = "unknown"
    sampling: Sampling
    unit: Literal["W", "J"]
    sensor_interval_ns: int | None = None  # an interval mean's own interval
    counter_max: float | None = None  # J; the counter wraps to 0 behind it
    gain_accuracy: float | None = None  # relative, 0.02 = 2 %; None: not stated
    offset_accuracy_w: float | None = None
    quantum: float | None = None  # smallest step, in the unit
    clock_uncertainty_ns: int = 0  # of its time stamps against the run's clock
    share: float = Field(default=1.0, gt=0, le=1)  # of the reading that the target is charged
    share_rule: str = ""  # why that share, in words; printed beside the numbers
    whole: str = ""  # sensors of one boundary and whole are its parts and are added up
    provenance: Provenance = "measured"


@dataclass(frozen=True, slots=True)
class Reading:
    """A value of one sensor at a time on the run's clock (CLOCK_MONOTONIC, ns)."""

    sensor: str
    time_ns: int
    value: float  # in the sensor's unit
    sensor_time: str | None = None  # the sensor's own stamp, as it prints it; unchanged means stale


class PowerSummary(Table):
    """One sensor over one measure window, its share taken. None where not measured, never 0."""

    info: SensorInfo
    readings: int
    energy_j: float | None
    energy_uncertainty_j: float | None = None  # standard uncertainty
    mean_w: float | None
    p95_w: float | None = None
    peak_w: float | None = None
    idle_before_w: float | None = None
    idle_after_w: float | None = None
    idle_step_w: float = 0.0  # one step of a counter, over the shorter of these pauses
    coverage: float = 0.0  # share of the window that readings span
    notes: list[str] = Field(default_factory=list)


class SpanPower(Table):
    """Energy of one span of a run at one boundary, shares taken and parts added up.

    A span without enough readings has none of these.
    """

    span: int  # its place in the run's ``spans``
    boundary: Boundary
    provenance: Provenance
    energy_j: float
    energy_uncertainty_j: float | None = None  # standard uncertainty
    mean_w: float


class AppliedPowerState(Table):
    """The NVMe power state that one drive was in while a run was measured, read back."""

    device: str
    index: int
    max_power_w: float | None = None  # from the identify table, as all that follow
    entry_latency_us: int | None = None
    exit_latency_us: int | None = None
    former_index: int  # before the campaign, and restored after it
