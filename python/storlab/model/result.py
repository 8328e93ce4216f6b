"""Results of a run: ``RunOutcome`` as the engine returns it, ``RunRecord`` as in ``run.json``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Literal

from pydantic import Field

from storlab.base.errors import with_fix
from storlab.model.cluster import ByWorker, ClusterRun
from storlab.model.power import AppliedPowerState, Boundary, PowerSummary, SpanPower
from storlab.model.types import Amount, Count, Provenance, Table

Operation = str
"""Kind of operation: read, write, trim, sync; get, put, head, list, delete, multi_delete; ..."""
READS = ("read", "get")
"""Operations whose bytes come from the target."""
WRITES = ("write", "put")
"""Operations whose bytes go to the target."""
RunStatus = Literal["finished", "failed", "cancelled"]


class LatencySummary(Table):
    """Latency statistics of one merged histogram, in ns; percentiles are never averaged."""

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
    """Totals of one kind of operation over the measure window."""

    operations: Count  # completed inside the window
    bytes: Count
    late_operations: Count = 0  # open loop: due inside the window, completed after it
    # closed loop: operations in flight at the end of the window; no other field counts them
    unfinished_operations: Count = 0
    # longest time of an unfinished operation, from its submission to the end of the window
    unfinished_longest_ns: Count = 0
    latency: LatencySummary | None = None  # submission to completion
    # mean from submission on, if ``latency`` lacks it: the engine reports no distribution, or only
    # one that starts after submission
    latency_mean_ns: Amount | None = None
    intended: LatencySummary | None = None  # open loop: from the intended start
    # time to the first byte of the response body; None without a response body
    ttfb: LatencySummary | None = None
    # failed operations by kind of error; no other field counts them
    errors: dict[str, Count] = Field(default_factory=dict)


class CpuUse(Table):
    """CPU time of the load generator in the measure window, in ns."""

    user_ns: Count
    system_ns: Count
    cores: Count  # cores that the workers could use: min(jobs, cores of the machine or cpuset)
    worker_ns: Count | None = None  # worker threads only; None if the engine does not report it
    busiest_worker_percent: float | None = None
    machine_busy_percent: float | None = None  # all cores of the client, by all programs
    machine_cores: int | None = None  # all cores of the client
    # CPU time of all cores that the hypervisor gave to other virtual machines, in percent
    machine_steal_percent: float | None = None
    waited_ns: Count | None = None  # run-queue wait of the worker threads; None if not reported
    # wait for a CPU of the worker that waited longest, in percent of the window
    longest_wait_percent: float | None = None
    quota_cores: float | None = None  # smallest CPU quota of the cgroups; None without a quota
    throttled_percent: float | None = None  # share of the window in which a quota throttled threads


class Failure(Table):
    """Failure of a run; ``errno``, ``operation``, ``offset`` and ``path`` are set if reported."""

    message: str
    fix: str = ""
    errno: int | None = None
    errno_name: str | None = None
    operation: str | None = None
    offset: int | None = None
    path: str | None = None
    # change that another program made to the file at ``path`` during the run; None without one
    changed: Literal["removed", "replaced", "resized", "freed", "written"] | None = None

    @property
    def text(self) -> str:
        """Return the message, followed by a line with the fix if there is one."""
        return with_fix(self.message, self.fix)


class Attempt(Table):
    """Failed attempt of a run that was tried again."""

    started_at: str  # UTC, ISO 8601
    failure: Failure


class EngineInfo(Table):
    """Program that executed a run, with its version and the kernel features it used."""

    name: str
    version: str
    backend: str | None = None
    features: list[str] = Field(default_factory=list)
    clock: str | None = None


class BadBlock(Table):
    """Block whose content failed verification."""

    kind: Literal["lost", "torn", "stale", "misplaced", "unreadable"]
    path: str
    offset: int
    expected: str
    found: str


class VerifyReport(Table):
    """Result of verification: number of checked and of bad blocks, and up to 1,000 bad ones."""

    checked_blocks: Count
    bad_blocks: dict[str, Count] = Field(default_factory=dict)  # by kind
    examples: list[BadBlock] = Field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return whether every checked block had the content of its last acknowledged write."""
        return not any(self.bad_blocks.values())


class Span(Table):
    """Named part of the measure window, such as an epoch or the write of a checkpoint."""

    kind: str  # write, restore, epoch, ...
    name: str
    start_ns: int  # on the run's clock
    end_ns: int
    bytes: Count = 0


def group_id(point_id: str, group: str) -> str:
    """Return the id of a group of a point."""
    return f"{point_id}.{group.replace(' ', '-')}"


def group_operation(group: str, operation: Operation) -> Operation:
    """Return the name of a group's operation in stored samples, such as ``readers.read``."""
    return f"{group}.{operation}"


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters and latency histograms of one kind of operation in one sampling interval.

    Histograms are HdrHistogram V2 encodings (ns, 3 digits).
    """

    interval: int
    start_ns: int  # on the run's clock (CLOCK_MONOTONIC)
    end_ns: int
    operation: Operation
    operations: int
    bytes: int
    latency: builtins.bytes
    intended: builtins.bytes | None = None
    worker_cpu_ns: int = 0
    ttfb: builtins.bytes | None = None  # time to the first byte of the response body
    errors: int = 0  # failed operations, not part of other figures


sample_row = attrgetter(*(field.name for field in fields(Sample)))
"""Return the fields of a sample as a tuple, in the order of their declaration."""


@dataclass(slots=True)
class GroupOutcome:
    """Totals and samples of one group, which ran at the same time as other groups."""

    totals: dict[Operation, OperationTotals]
    samples: list[Sample]


@dataclass(slots=True)
class RunOutcome:
    """Outcome of one run as the engine returns it: status, window, samples and totals."""

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
    # start of the first operation after the planned start of the load; None if not reported
    first_io_late_ns: int | None = None
    # start of the last worker's first operation after the planned start; None if not reported
    last_worker_late_ns: int | None = None
    verify: VerifyReport | None = None
    # content of files to store in the run's ``raw`` directory, by file name
    raw: dict[str, bytes] = field(default_factory=dict)
    server_cpu: CpuUse | None = None  # CPU of storlab's own server in the window
    details: dict[str, Any] = field(default_factory=dict)  # facts specific to the family, as JSON
    spans: list[Span] = field(default_factory=list)  # in time order
    cluster: ClusterRun | None = None  # results of the clients of a cluster
    by_worker: ByWorker | None = None  # None if not reported
    flags: list[Flag] = field(default_factory=list)  # flags from the site that generated the load
    # by name; each operation is also in the run's own totals and samples
    groups: dict[str, GroupOutcome] = field(default_factory=dict)

    @property
    def every_sample(self) -> list[Sample]:
        """Samples of the run and of each group, as they are stored."""
        of_groups = [
            replace(sample, operation=group_operation(name, sample.operation))
            for name, group in self.groups.items()
            for sample in group.samples
        ]
        return sorted([*self.samples, *of_groups], key=attrgetter("interval"))

    def of_group(self, name: str) -> RunOutcome:
        """Return the outcome of one group, without facts about the whole run."""
        group = self.groups[name]
        return replace(
            self,
            totals=group.totals,
            samples=group.samples,
            groups={},
            cpu=None,
            server_cpu=None,
            by_worker=None,
            verify=None,
            notes=[],
            flags=[],
            details={},
            spans=[],
            raw={},
        )

    def conclude(self, failure: Failure | None) -> None:
        """Set the failure and mark the run as failed; without a failure, keep its status."""
        self.failure = failure
        if failure is not None:
            self.status = "failed"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Live figures of a run in progress."""

    phase: Literal["prepare", "armed", "ramp", "measure", "drain", "done"]
    elapsed_ns: int  # since the phase began
    phase_ns: int | None = None  # expected length of the phase
    # rate over the last interval; None if the engine does not report it
    operations_s: float | None = None
    bytes_s: float | None = None
    latency_p99_ns: int | None = None
    cpu_percent: float | None = None  # 100 % is one core
    note: str = ""  # further text to show, such as "slowest c07, 80 MB/s"
    # latency histogram as pairs of bin and operations; bin n starts at 2^(n/2) ns
    latency_bins: Sequence[Sequence[int]] = ()
    flush_p99_ns: int | None = None  # flushes, which are not part of the figures above


class Metric(Table):
    """Named quantity derived from samples; its name ends with the unit."""

    name: str  # such as throughput_mb_s or latency_p99_ns
    value: float
    unit: str
    operation: Operation = "all"
    provenance: Provenance = "measured"
    # power boundary if the metric is based on power; otherwise None
    boundary: Boundary | None = None
    uncertainty: float | None = None  # standard uncertainty in the unit; None if unknown


class Flag(Table):
    """Warning to show next to the numbers of a run."""

    kind: str  # such as client-bound, concurrency-mismatch, page-cache
    message: str


class Proof(Table):
    """Evidence on whether the storage medium, not a cache, served the I/O of a run."""

    state: Literal["proven", "unproven", "contradicted"]
    reasons: list[str] = Field(default_factory=list)  # why it is not proven; empty if it is


class Concurrency(Table):
    """Operations in flight: as configured, and by Little's law (rate x mean latency)."""

    configured: Amount
    implied: Amount | None


class OfferedLoad(Table):
    """Rate of an open loop that is a percentage of the maximum on its target.

    All repeats of all load levels of a workload on one target have the same maximum.
    """

    rate_s: Amount  # operations per second of all clients together
    maximum_s: Amount  # mean of the runs in closed loop, in operations per second
    maximum_runs: list[str]  # ids of these runs


class GroupRecord(Table):
    """Results of one group, which ran at the same time as the other groups of its run."""

    totals: dict[Operation, OperationTotals]
    concurrency: Concurrency | None = None
    metrics: list[Metric] = Field(default_factory=list)
    flags: list[Flag] = Field(default_factory=list)


class RunRecord(Table):
    """Complete record of one run, stored as ``run.json``."""

    schema_version: Literal[1] = 1
    run_id: str
    point_id: str
    repeat: Count
    target: str
    workload: str
    kind: str
    params: dict[str, Any]
    clients: int | None = None  # number of clients; None if this machine generated the load
    provenance: Provenance = "measured"
    status: RunStatus
    failure: Failure | None = None
    engine: EngineInfo
    started_at: str  # UTC, ISO 8601
    attempts: list[Attempt] = Field(default_factory=list)  # earlier failed attempts, in time order
    window_start_ns: int
    window_end_ns: int
    wall_at_start_ns: int | None = None  # CLOCK_REALTIME at window_start_ns, in ns since 1970
    totals: dict[Operation, OperationTotals]
    # results of each group by name; each operation is also in the run's own results
    groups: dict[str, GroupRecord] = Field(default_factory=dict)
    # None if the engine does not report it. In a cluster, it is in the result of each client.
    by_worker: ByWorker | None = None
    cpu: CpuUse | None = None
    server_cpu: CpuUse | None = None  # CPU of storlab's own server on the same machine
    details: dict[str, Any] = Field(default_factory=dict)  # facts specific to the family
    spans: list[Span] = Field(default_factory=list)  # in time order
    cluster: ClusterRun | None = None  # results of the clients of a cluster
    concurrency: Concurrency | None = None
    offered: OfferedLoad | None = None  # None unless the point has a load level
    steady: dict[str, Any] | None = None
    proof: Proof | None = None  # None if the family does not judge it, or no bytes were moved
    metrics: list[Metric] = Field(default_factory=list)
    flags: list[Flag] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    final_sync_ns: Count | None = None
    drain_ns: Count = 0
    first_io_late_ns: int | None = None  # first operation, relative to the planned start
    # first operation of the worker that started last, relative to the planned start
    last_worker_late_ns: int | None = None
    verify: VerifyReport | None = None
    samples_sha256: str | None = None
    histograms: dict[str, dict[str, str]] = Field(default_factory=dict)  # see model.samples.merged
    raw: list[str] = Field(default_factory=list)
    power: list[PowerSummary] = Field(default_factory=list)  # one per sensor
    span_power: list[SpanPower] = Field(default_factory=list)  # by span and boundary
    # power boundary (device, enclosure, host, wall) to report; None without a meter
    power_boundary: Boundary | None = None
    power_states: list[AppliedPowerState] = Field(default_factory=list)
    power_sha256: str | None = None  # digest of power.parquet; None without readings

    def of_group(self, name: str, workload: str, params: dict[str, Any]) -> RunRecord:
        """Return the record of a group as if it were a run of its own.

        CPU use, power, verification, details and raw files are left out: they are of the run as a
        whole.

        Args:
            name: Name of the group.
            workload: Label of the group as a workload.
            params: Parameters of the group.
        """
        own = self.groups.get(name) or GroupRecord(totals={})
        prefix = group_operation(name, "")
        return self.model_copy(
            update={
                "run_id": f"{group_id(self.point_id, name)}-r{self.repeat}",
                "point_id": group_id(self.point_id, name),
                "workload": workload,
                "params": params,
                "totals": own.totals,
                "groups": {},
                "concurrency": own.concurrency,
                "metrics": own.metrics,
                "flags": own.flags,
                "histograms": {
                    time: {
                        operation.removeprefix(prefix): text
                        for operation, text in by_operation.items()
                        if operation.startswith(prefix)
                    }
                    for time, by_operation in self.histograms.items()
                },
                "by_worker": None,
                "cpu": None,
                "server_cpu": None,
                "steady": None,
                "notes": [],
                "details": {},
                "verify": None,
                "attempts": [],
                "spans": [],
                "power": [],
                "span_power": [],
                "power_boundary": None,
                "power_sha256": None,
            }
        )

    def metric(self, name: str, operation: str = "all") -> float | None:
        """Return the value of a metric, or None if the run does not have it.

        Metrics based on power are taken at the run's ``power_boundary``.
        """
        for metric in self.metrics:
            if (metric.name, metric.operation) == (name, operation) and metric.boundary in (
                None,
                self.power_boundary,
            ):
                return metric.value
        return None
