"""Details of a run that are specific to a workload family, as reported by its engine.

Results store details as plain JSON (``RunRecord.details``). A family reads them with its own model,
derived from :class:`Details`. Unknown fields are kept, because newer versions or other engines may
add some. Fields that older versions did not write have defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field


class HasDetails(Protocol):
    """Protocol of objects with details of a run: run outcomes and run records."""

    @property
    def details(self) -> Mapping[str, Any]:
        """Return the details as JSON values."""
        ...


class DetailsTable(BaseModel):
    """Record that an engine reports as JSON; unknown fields are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)


class BytesCounted(DetailsTable):
    """Bytes by a counter that was read every 50 ms: around the measure window, and inside it."""

    read_bytes: int  # from the last reading before the window to the first one after it
    written_bytes: int = 0
    over_ns: int = 0  # time between these two readings
    inside_read_bytes: int = 0  # from the first reading in the window to the last one in it
    inside_written_bytes: int = 0
    inside_ns: int = 0  # time between those two; 0 if there are fewer than two


class DeviceMoved(BytesCounted):
    """Bytes that the devices below a target transferred during a run, for all programs."""

    devices: tuple[str, ...] = ()


class MediumFindings(DetailsTable):
    """Findings about the storage layers below a target's files, as phrases for messages."""

    memory: tuple[str, ...] = ()  # layers in memory
    cached: tuple[str, ...] = ()  # layers that use the page cache
    unknown: tuple[str, ...] = ()  # reasons why devices are unknown
    holes: tuple[str, ...] = ()  # files with a share that was never written
    blank: tuple[str, ...] = ()  # files or devices whose sampled blocks held one repeated byte
    unsampled: tuple[str, ...] = ()  # reasons why no blocks were sampled before reads


class LinkFindings(DetailsTable):
    """PCIe link of a drive around a run."""

    drive: str
    link: str  # current speed and width, such as ``8 GT/s x4``
    possible: str  # what drive and slot can do
    degraded: bool  # whether it was below that, before and after the run
    limited_by_slot: bool = False  # whether the drive would be faster in another slot


class CoreFindings(DetailsTable):
    """Findings about the cores on which workers ran in the measure window."""

    cpus: tuple[int, ...]
    remote_percent: float | None = None  # readings on another NUMA node than the drive
    mhz: float | None = None  # mean frequency
    base_mhz: float | None = None  # frequency without turbo
    waking_percent: float | None = None  # time to wake up from idle states, at most
    idle_state: str = ""  # idle state that took most of it


class MachineFindings(DetailsTable):
    """Findings about the state of the machine and of the target's drives around a run."""

    links: tuple[LinkFindings, ...] = ()
    # state of each path to a drive that has several
    paths: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    cores: CoreFindings | None = None  # None if neither nodes, frequencies nor idle states exist
    # time in which any program waited for cpu, memory or io
    stalled_percent: dict[str, float] = Field(default_factory=dict)
    # the busiest other programs, by name, with their CPU time in percent of a core
    programs: dict[str, float] = Field(default_factory=dict)
    changed: tuple[str, ...] = ()  # facts that changed since the campaign began


class DriveHealth(DetailsTable):
    """Values that a drive reported about itself before and after a run, by name with the unit last.

    Counters such as ``host_written_bytes`` cover the life of the drive. Values that the drive does
    not report are missing, and ``absent`` has the reasons.
    """

    drive: str  # kernel name, such as nvme0n1
    source: str = ""  # logs that were read; empty if none
    before: dict[str, int | float] = {}
    after: dict[str, int | float] = {}
    hottest_c: float | None = None  # highest temperature read before, during and after the run
    absent: dict[str, str] = {}  # reason by value or log

    def grown(self, name: str) -> int | float | None:
        """Return by how much a counter grew in the run; None if unknown or if it went back."""
        if name not in self.before or name not in self.after:
            return None
        growth = self.after[name] - self.before[name]
        return growth if growth >= 0 else None


class StageTimes(DetailsTable):
    """Times and sizes of one stage of work that consists of successive stages.

    Some engines do not report all fields for failed runs.
    """

    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    rows: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    cpu_ns: int = 0
    peak_memory_bytes: int = 0
    parts: int = 0  # number of parts that the stage produces one by one
    resumed_parts: int = 0  # parts that an earlier process had finished
    tasks: int = 0  # tasks that workers process in parallel; 0: as many as parts
    passes: int = 1  # number of passes over the input
    device_read_bytes: int | None = None  # None if not counted
    device_written_bytes: int | None = None


class Details(DetailsTable):
    """Details that a run of any workload family may have."""

    device: DeviceMoved | None = None
    # phrases that name emulated parts of the machine; with any, results are not measurements
    stand_ins: tuple[str, ...] = ()
    # bytes that the process of the load generator requested from block devices
    process: BytesCounted | None = None
    medium: MediumFindings | None = None  # None if not examined
    machine: MachineFindings | None = None  # None if not examined, or by several clients
    health: tuple[DriveHealth, ...] = ()  # physical drives below the target that report any
    stages: tuple[StageTimes, ...] = ()  # finished stages
    page_cache_unknown: bool = False  # whether its use is unknown, as in some imported runs

    @classmethod
    def of(cls, run: HasDetails) -> Self:
        """Validate the details of a run; raise pydantic's ValidationError."""
        return cls.model_validate(run.details)

    @property
    def resumed(self) -> frozenset[str]:
        """Names of stages whose times are incomplete, because an earlier process did a part."""
        return frozenset(stage.name for stage in self.stages if stage.resumed_parts)
