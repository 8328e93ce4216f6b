"""What a run leaves behind: ``RunOutcome`` from the engine, ``RunRecord`` in ``run.json``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Literal

from pydantic import Field

from storlab.base.errors import with_fix
from storlab.model.cluster import ByWorker, ClusterRun
from storlab.model.power import AppliedPowerState, Boundary, PowerSummary, SpanPower
from storlab.model.types import Amount, Count, Provenance, Table

Operation = str
"""A kind of operation: read, write, trim, sync; get, put, head, list, delete, multi_delete; ..."""
READS = ("read", "get")
"""Of these, the ones whose bytes come from the target."""
WRITES = ("write", "put")
"""And the ones whose bytes go there."""
RunStatus = Literal["finished", "failed", "cancelled"]


class LatencySummary(Table):
    """Of one merged histogram; every value in ns. Percentiles are never averaged."""

    count: Count
    mean_ns: Amount
    min_ns: Count
    p50_ns: Count
    p90_ns: Count
    p99_ns: Count
    p999_ns: Count
    p9999_ns: Count
    max_ns: Count
    stdev_ns: Amount = 0.0


class OperationTotals(Table):
    """One kind of operation over the measure window."""

    operations: Count  # completed inside the window
    bytes: Count
    late_operations: Count = 0  # open loop: due inside the window, completed after it
    # Closed loop: in flight at the window's end; in no other figure.
    unfinished_operations: Count = 0
    unfinished_longest_ns: Count = 0  # of them, from submission to the end
    latency: LatencySummary | None = None  # submission to completion
    latency_mean_ns: Amount | None = None  # where the engine tells no more of it than this
    intended: LatencySummary | None = None  # open loop only: from the intended start
    ttfb: LatencySummary | None = None  # to the first byte of the answer's body, where it has one
    errors: dict[str, Count] = Field(default_factory=dict)  # failed ones, by kind, apart


class CpuUse(Table):
    """CPU of the load generator inside the measure window, in ns."""

    user_ns: Count
    system_ns: Count
    cores: Count  # cores that the workers could use: min(jobs, cores of the machine or cpuset)
    worker_ns: Count | None = None  # worker threads only; None where the engine does not tell
    busiest_worker_percent: float | None = None
    machine_busy_percent: float | None = None  # of all cores of the client, by whomever
    machine_cores: int | None = None  # of the client, whoever may use them
    machine_steal_percent: float | None = None  # of all cores: time that its host gave to others
    waited_ns: Count | None = None  # of the worker threads in run queues; None: not told
    longest_wait_percent: float | None = None  # of the window, by the worker that waited longest
    quota_cores: float | None = None  # of the control group, by the smallest quota; None: no quota
    throttled_percent: float | None = None  # of the window, that a quota kept threads from cores


class Failure(Table):
    """Why a run failed; ``errno``, ``operation``, ``offset``, ``path`` where the device said so."""

    message: str
    fix: str = ""
    errno: int | None = None
    errno_name: str | None = None
    operation: str | None = None
    offset: int | None = None
    path: str | None = None
    # What another program did to the file at ``path`` during the run.
    changed: Literal["removed", "replaced", "resized", "freed", "written"] | None = None

    @property
    def text(self) -> str:
        """The failure's message, and on a line below it the fix if there is one."""
        return with_fix(self.message, self.fix)


class Attempt(Table):
    """An earlier attempt of a run: it failed, and the run was repeated."""

    started_at: str  # UTC, ISO 8601
    failure: Failure


class EngineInfo(Table):
    """Which program did the work, and with which of the kernel's features."""

    name: str
    version: str
    backend: str | None = None
    features: list[str] = Field(default_factory=list)
    clock: str | None = None


class BadBlock(Table):
    """One block that failed verification."""

    kind: Literal["lost", "torn", "stale", "misplaced", "unreadable"]
    path: str
    offset: int
    expected: str
    found: str


class VerifyReport(Table):
    """How many blocks were checked, and what was wrong with them (the first 1,000 in full)."""

    checked_blocks: Count
    bad_blocks: dict[str, Count] = Field(default_factory=dict)  # by kind
    examples: list[BadBlock] = Field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True when every checked block held what was last acknowledged."""
        return not any(self.bad_blocks.values())


class Span(Table):
    """A stretch of the window with a name of its own: one checkpoint's write, an epoch, a stage."""

    kind: str  # what it is one of: write, restore, epoch, ...
    name: str
    start_ns: int  # on the run's clock
    end_ns: int
    bytes: Count = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One interval of one operation kind. Histograms are HdrHistogram V2 bytes (ns, 3 digits)."""

    interval: int
    start_ns: int  # on the run's clock (CLOCK_MONOTONIC)
    end_ns: int
    operation: Operation
    operations: int
    bytes: int
    latency: builtins.bytes
    intended: builtins.bytes | None = None
    worker_cpu_ns: int = 0
    ttfb: builtins.bytes | None = None  # to the first byte of the answer's body
    errors: int = 0  # operations that failed in it; in no other figure of the sample


sample_row = attrgetter(*(field.name for field in fields(Sample)))
"""What a sample is made of, in the order of its fields."""


@dataclass(slots=True)
class RunOutcome:
    """What an engine returns from one run."""

    status: RunStatus
    engine: EngineInfo
    window_start_ns: int
    window_end_ns: int
    samples: list[Sample]
    totals: dict[Operation, OperationTotals]
    cpu: CpuUse | None
    failure: Failure | None = None
    notes: list[str] = field(default_factory=list)
    final_sync_ns: int | None = None
    drain_ns: int = 0
    first_io_late_ns: int | None = None  # first operation, from the load's planned start
    last_worker_late_ns: int | None = None  # of the worker that began last; None: not told
    verify: VerifyReport | None = None
    raw: dict[str, bytes] = field(default_factory=dict)  # file name -> content, for raw/
    server_cpu: CpuUse | None = None  # of a server that storlab itself runs, inside the window
    details: dict[str, Any] = field(default_factory=dict)  # what only its family knows; JSON
    spans: list[Span] = field(default_factory=list)  # in order of time
    cluster: ClusterRun | None = None  # how its clients came together
    by_worker: ByWorker | None = None  # None: not told
    flags: list[Flag] = field(default_factory=list)  # of the site that made the load

    def conclude(self, failure: Failure | None) -> None:
        """Failed, where there is a failure; else it stays as it has ended."""
        self.failure = failure
        if failure is not None:
            self.status = "failed"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The live view of a run in progress."""

    phase: Literal["prepare", "armed", "ramp", "measure", "drain", "done"]
    elapsed_ns: int  # since the phase began
    phase_ns: int | None = None  # expected length of the phase
    operations_s: float | None = None  # over the last interval; None: the engine does not tell
    bytes_s: float | None = None
    latency_p99_ns: int | None = None
    cpu_percent: float | None = None  # of one core
    note: str = ""  # what else is worth seeing: "slowest c07, 80 MB/s"
    latency_bins: Sequence[Sequence[int]] = ()  # [bin, operations]; bin n begins at 2^(n/2) ns
    flush_p99_ns: int | None = None  # of flushes, which are no part of the figures above


class Metric(Table):
    """A named quantity derived from the samples. The unit stands last in the name."""

    name: str  # e.g. throughput_mb_s, latency_p99_ns
    value: float
    unit: str
    operation: Operation = "all"
    provenance: Provenance = "measured"
    boundary: Boundary | None = None  # what the power behind it includes; None: no power in it
    uncertainty: float | None = None  # standard uncertainty, in the unit; None: not known


class Flag(Table):
    """A warning that belongs beside the numbers of a run."""

    kind: str  # e.g. client-bound, concurrency-mismatch, page-cache
    message: str


class Proof(Table):
    """Whether the medium is known to have served the reads and writes of a run."""

    state: Literal["proven", "unproven", "contradicted"]
    reasons: list[str] = Field(default_factory=list)  # why it is not proven; empty where it is


class Concurrency(Table):
    """Outstanding I/O: configured, and implied by Little's law (rate x mean latency)."""

    configured: Amount
    implied: Amount | None


class RunRecord(Table):
    """``run.json``: one run, complete."""

    schema_version: Literal[1] = 1
    run_id: str
    point_id: str
    repeat: Count
    target: str
    workload: str
    kind: str
    params: dict[str, Any]
    clients: int | None = None  # of a cluster; None: this machine made the load
    provenance: Provenance = "measured"
    status: RunStatus
    failure: Failure | None = None
    engine: EngineInfo
    started_at: str  # UTC, ISO 8601
    attempts: list[Attempt] = Field(default_factory=list)  # before this one, in order of time
    window_start_ns: int
    window_end_ns: int
    wall_at_start_ns: int | None = None  # CLOCK_REALTIME at window_start_ns, since 1970
    totals: dict[Operation, OperationTotals]
    by_worker: ByWorker | None = None  # None: not told, or of a cluster, whose clients have theirs
    cpu: CpuUse | None = None
    server_cpu: CpuUse | None = None  # of a server that storlab itself ran; on the same machine
    details: dict[str, Any] = Field(default_factory=dict)  # what only its family knows
    spans: list[Span] = Field(default_factory=list)  # in order of time
    cluster: ClusterRun | None = None  # how its clients came together
    concurrency: Concurrency | None = None
    steady: dict[str, Any] | None = None
    proof: Proof | None = None  # None: of a family that does not judge it, or nothing was moved
    metrics: list[Metric] = Field(default_factory=list)
    flags: list[Flag] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    final_sync_ns: Count | None = None
    drain_ns: Count = 0
    first_io_late_ns: int | None = None  # first operation submitted, from the planned start
    last_worker_late_ns: int | None = None  # likewise of the worker that began last
    verify: VerifyReport | None = None
    samples_sha256: str | None = None
    histograms: dict[str, dict[str, str]] = Field(default_factory=dict)  # see model.samples.merged
    raw: list[str] = Field(default_factory=list)
    power: list[PowerSummary] = Field(default_factory=list)  # one per sensor
    span_power: list[SpanPower] = Field(default_factory=list)  # by span and boundary
    power_boundary: Boundary | None = None  # the headline's; None where the target has no meter
    power_states: list[AppliedPowerState] = Field(default_factory=list)
    power_sha256: str | None = None  # of power.parquet; None where the run has no readings

    def metric(self, name: str, operation: str = "all") -> float | None:
        """The value of a metric, or None when this run has none of that name.

        Of a metric that rests on power, the one at the headline's boundary.
        """
        for metric in self.metrics:
            if (metric.name, metric.operation) == (name, operation) and metric.boundary in (
                None,
                self.power_boundary,
            ):
                return metric.value
        return None
