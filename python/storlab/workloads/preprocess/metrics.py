"""Metrics and flags of preprocessing, with definitions in docs/method/preprocess.md.

They are computed from ``details["stages"]``, which has an entry with times in ns, bytes and rows
for each stage. The time of a run is from the start of the first stage to the end of the last one.
Between two stages, the input of the next one is dropped from the page cache, which takes time of
the run, but not of a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from storlab.base.units import GB, MB, NS_PER_S, format_bytes_si, format_size, significant
from storlab.contracts.details import StageTimes
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.workloads.common import metrics as common
from storlab.workloads.common.proof import PAGE_CACHE, Evidence, flags_by, layer_evidence
from storlab.workloads.preprocess.details import PreprocessDetails
from storlab.workloads.preprocess.job import STAGES
from storlab.workloads.preprocess.params import PreprocessParams

LEAST_DEVICE_SHARE = 0.9
"""Smallest share of the raw bytes that the device must have read during ingest."""
_REASONS = {
    "fields": "not 40 fields",
    "label": "no label",
    "integer": "no integer",
    "category": "no category",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """Counts of one stage or of the whole run, from which metrics are computed; None if unknown."""

    operation: str
    ns: int
    rows: int
    input_bytes: int
    cpu_ns: int
    peak_memory_bytes: int
    device_read_bytes: int | None
    device_written_bytes: int | None

    @property
    def seconds(self) -> float:
        """Duration of the stage or run in s."""
        return self.ns / NS_PER_S


def scopes_of(outcome: RunOutcome) -> list[Scope]:
    """Return the counts of each stage and of the whole run.

    If an earlier process did a part of a stage, that stage and the whole run are left out.
    """
    told = PreprocessDetails.of(outcome)
    stages, begun = told.stages, told.resumed
    scopes = [
        Scope(
            operation=stage.name,
            ns=stage.end_ns - stage.start_ns,
            rows=stage.rows,
            input_bytes=stage.input_bytes,
            cpu_ns=stage.cpu_ns,
            peak_memory_bytes=stage.peak_memory_bytes,
            device_read_bytes=stage.device_read_bytes,
            device_written_bytes=stage.device_written_bytes,
        )
        for stage in stages
        if stage.name not in begun
    ]
    if stages and not begun:
        whole = Scope(
            operation="all",
            ns=max(stage.end_ns for stage in stages) - min(stage.start_ns for stage in stages),
            rows=told.rows,
            input_bytes=told.input_bytes,
            cpu_ns=sum(stage.cpu_ns for stage in stages),
            peak_memory_bytes=told.peak_memory_bytes,
            device_read_bytes=_sum([stage.device_read_bytes for stage in stages]),
            device_written_bytes=_sum([stage.device_written_bytes for stage in stages]),
        )
        scopes.append(whole)
    return [scope for scope in scopes if scope.ns > 0]


def _sum(counted: Sequence[int | None]) -> int | None:
    known = [size for size in counted if size is not None]
    return sum(known) if len(known) == len(counted) else None


def run_concurrency(params: PreprocessParams, outcome: RunOutcome) -> Concurrency:
    """Return the number of workers, as configured and at work on average by Little's law."""
    return Concurrency(
        configured=float(params.workers),
        implied=common.implied_outstanding(outcome, STAGES),
    )


def run_metrics(params: PreprocessParams, outcome: RunOutcome) -> list[Metric]:
    """Compute all metrics of a run, except for stages of which an earlier process did a part."""
    scopes = scopes_of(outcome)
    cores = None if outcome.cpu is None else outcome.cpu.cores
    metrics = [
        metric
        for scope in scopes
        for metric in (*_work(scope), *_use(scope, params, cores), *_device(scope))
    ]
    whole = next((scope for scope in scopes if scope.operation == "all"), None)
    if whole is not None:
        metrics += _whole(whole, PreprocessDetails.of(outcome).output_bytes or 0)
    return [*metrics, *common.concurrency_metric(run_concurrency(params, outcome).implied)]


def _work(scope: Scope) -> Iterable[Metric]:
    yield _metric("completion_time_s", scope.seconds, "s", scope)
    yield _metric("rows_s", scope.rows / scope.seconds, "1/s", scope)
    yield _metric("input_mb_s", scope.input_bytes / scope.seconds / MB, "MB/s", scope)


def _use(scope: Scope, params: PreprocessParams, cores: int | None) -> Iterable[Metric]:
    """Yield CPU time, peak memory, and the percentage of time for which workers are on CPU."""
    yield _metric("cpu_s", scope.cpu_ns / NS_PER_S, "s", scope)
    yield _metric("peak_memory_mb", scope.peak_memory_bytes / MB, "MB", scope)
    if cores:
        at_once = min(params.workers, cores)
        busy = 100 * scope.cpu_ns / (scope.ns * at_once)
        yield _metric("worker_busy_percent", busy, "%", scope)


def _device(scope: Scope) -> Iterable[Metric]:
    """Yield the bytes that the kernel counted at the device; nothing without a count."""
    read, written = scope.device_read_bytes, scope.device_written_bytes
    if read is not None:
        yield _metric("device_read_mb", read / MB, "MB", scope)
    if written is not None:
        yield _metric("device_written_mb", written / MB, "MB", scope)
    if read is not None and written is not None:
        yield _metric("device_mb_s", (read + written) / scope.seconds / MB, "MB/s", scope)


def _whole(run: Scope, output_bytes: int) -> Iterable[Metric]:
    """Yield metrics of whole runs only: binary data per second, CPU time per GB and row."""
    yield _metric("output_mb_s", output_bytes / run.seconds / MB, "MB/s", run)
    cpu_s = run.cpu_ns / NS_PER_S
    if run.input_bytes:
        yield _metric("cpu_s_per_gb", cpu_s / (run.input_bytes / GB), "s/GB", run)
    if run.rows and run.cpu_ns:
        yield _metric("cpu_us_per_row", run.cpu_ns / run.rows / 1_000, "us", run)
        yield _metric("rows_s_per_core", run.rows / cpu_s, "1/s", run)


def _metric(name: str, value: float, unit: str, scope: Scope) -> Metric:
    return Metric(name=name, value=value, unit=unit, operation=scope.operation)


def run_flags(params: PreprocessParams, outcome: RunOutcome) -> list[Flag]:
    """Return the flags of a run: warnings that a brief shows beside its numbers."""
    makers: list[Callable[[], Flag | None]] = [
        lambda: _malformed_flag(params, outcome),
        lambda: _resumed_flag(outcome),
        lambda: _idle_flag(params, outcome),
        lambda: _passes_flag(params, outcome),
        lambda: _memory_flag(params, outcome),
        lambda: _remote_flag(outcome),
        lambda: _lost_flag(outcome),
        lambda: common.client_flag(outcome),
        lambda: common.note_flag(outcome),
    ]
    flags = [flag for make in makers if (flag := make()) is not None]
    flags += flags_by(medium_evidence(params, outcome))
    return [*flags, *common.machine_flags(outcome, params.workers)]


def _malformed_flag(params: PreprocessParams, outcome: RunOutcome) -> Flag | None:
    """Flag malformed lines that were left out; None if all lines were valid."""
    told = PreprocessDetails.of(outcome)
    malformed = told.malformed
    if malformed is None or not malformed.count or params.malformed == "refuse":
        return None
    count, lines = malformed.count, told.lines
    reasons = [f"{_REASONS.get(name, name)}: {n:,}" for name, n in malformed.by_reason.items() if n]
    return Flag(
        kind="malformed-lines",
        message=f"{count:,} of {lines:,} lines ({significant(100 * count / lines, 2)} %) are "
        "malformed and "
        f"left out ({'; '.join(reasons)})",
    )


def _resumed_flag(outcome: RunOutcome) -> Flag | None:
    parts = PreprocessDetails.of(outcome).resumed_parts
    if not parts:
        return None
    return Flag(
        kind="resumed",
        message=f"an earlier process had finished {parts:,} part{'s' if parts > 1 else ''}: this "
        "run has neither completion time nor energy of the whole work",
    )


def _stage(outcome: RunOutcome, name: str) -> StageTimes | None:
    stages = PreprocessDetails.of(outcome).stages
    return next((stage for stage in stages if stage.name == name), None)


def medium_evidence(params: PreprocessParams, outcome: RunOutcome) -> Iterator[Evidence]:
    """Yield evidence that a cache, not the medium, may have served the raw data."""
    ingest = _stage(outcome, "ingest")
    if ingest is None:
        return
    read, size = ingest.device_read_bytes, ingest.input_bytes
    if read is not None and size and read < LEAST_DEVICE_SHARE * size:
        text = (
            f"the device read {significant(100 * read / size, 3)} % of the raw bytes while they "
            "were ingested: memory served the rest"
        )
        yield Evidence(PAGE_CACHE, "contradicted", text)
    elif not params.cold:
        text = "cold = false: stages may have read from the page cache"
        yield Evidence(PAGE_CACHE, "unproven", text)
    elif read is None:
        text = (
            "reads of the device behind the directory were not counted: memory may have served "
            "the raw data"
        )
        yield Evidence(PAGE_CACHE, "unproven", text)
    yield from layer_evidence(outcome, counted=read is not None)


def _idle_flag(params: PreprocessParams, outcome: RunOutcome) -> Flag | None:
    ingest, workers = _stage(outcome, "ingest"), params.workers
    if ingest is None or ingest.parts >= workers:
        return None
    parts = ingest.parts
    return Flag(
        kind="workers-idle",
        message=f"the raw data has {parts:,} part{'' if parts == 1 else 's'}, so "
        f"{workers - parts:,} of {workers:,} workers had nothing to ingest: reduce part_size",
    )


def _passes_flag(params: PreprocessParams, outcome: RunOutcome) -> Flag | None:
    several = [stage for stage in PreprocessDetails.of(outcome).stages if stage.passes > 1]
    if not several:
        return None
    text = " and ".join(f"{stage.name} {stage.passes:,} times" for stage in several)
    return Flag(
        kind="several-passes",
        message=f"memory = {format_size(params.memory)} is too small for one pass; passes: {text}",
    )


def _remote_flag(outcome: RunOutcome) -> Flag | None:
    cluster = PreprocessDetails.of(outcome).cluster
    remote = [] if cluster is None else [worker for worker in cluster.workers if worker.remote]
    if not remote:
        return None
    used_s = sum(worker.user_ns + worker.system_ns for worker in remote) / NS_PER_S
    hosts = ", ".join(sorted({worker.host for worker in remote}))
    return Flag(
        kind="remote-workers",
        message=f"{len(remote):,} worker{'s' if len(remote) > 1 else ''} on {hosts} used "
        f"{significant(used_s, 3)} s of CPU, as they report: counters of this machine do not "
        "include it",
    )


def _lost_flag(outcome: RunOutcome) -> Flag | None:
    cluster = PreprocessDetails.of(outcome).cluster
    if cluster is None or not cluster.lost_workers:
        return None
    lost = cluster.lost_workers
    return Flag(
        kind="workers-lost",
        message=f"{lost:,} worker{'s were' if lost > 1 else ' was'} lost: their "
        "unfinished tasks were repeated, and CPU time since their last report is not counted",
    )


def _memory_flag(params: PreprocessParams, outcome: RunOutcome) -> Flag | None:
    told = PreprocessDetails.of(outcome)
    peak, limit = told.peak_memory_bytes, params.memory
    cluster = told.cluster
    if cluster is not None and cluster.worker_peak_bytes > cluster.worker_limit_bytes:
        return Flag(
            kind="memory-exceeded",
            message=f"a worker used up to {format_bytes_si(cluster.worker_peak_bytes)} of memory, "
            f"more than its part of {format_bytes_si(cluster.worker_limit_bytes)}",
        )
    if peak <= limit:
        return None
    return Flag(
        kind="memory-exceeded",
        message=f"the stages used up to {format_bytes_si(peak)}, more than "
        f"memory = {format_size(limit)}",
    )
