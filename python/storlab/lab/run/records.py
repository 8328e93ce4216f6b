"""Conversion of an engine's outcome to the record of a run that is stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from storlab.analysis.offered_load import at_rate
from storlab.base.steady import SteadyVerdict, five_parts, steady_verdict
from storlab.base.units import MB, NS_PER_S, format_duration, significant
from storlab.cluster.validity import cluster_flags
from storlab.contracts.details import Details
from storlab.contracts.family import Workload
from storlab.contracts.registry import FAMILIES
from storlab.health.evidence import health_metrics
from storlab.model.point import PlannedRun, Point, about_run
from storlab.model.result import (
    Concurrency,
    EngineInfo,
    Failure,
    Flag,
    GroupRecord,
    Metric,
    OfferedLoad,
    RunOutcome,
    RunRecord,
)
from storlab.model.study import StudyBase, Target
from storlab.model.types import Provenance
from storlab.power.metering import MeteredRun, headline_boundary
from storlab.power.metrics import (
    density_metrics,
    energy_metrics,
    idles,
    is_efficiency,
    of_whole_work,
    per_watt_metrics,
    span_metrics,
    span_notes,
)
from storlab.power.summary import weakest_provenance


@dataclass(frozen=True, slots=True)
class Stated:
    """Facts about an imported run from another tool's file, in addition to its outcome."""

    direct: bool  # whether this run bypassed the page cache; its target may have runs of both kinds
    metrics: Sequence[Metric]  # metrics that cannot be derived, such as printed percentiles
    histograms: bool  # whether samples have a histogram for each operation with a latency
    provenance: Provenance


def completed_record(
    run: PlannedRun,
    point: Point,
    study: StudyBase,
    started_at: str,
    outcome: RunOutcome,
    metered: MeteredRun | None = None,
    stated: Stated | None = None,
    offered: OfferedLoad | None = None,
) -> RunRecord:
    """Build the record of a run from its outcome: metrics, flags, notes and proof.

    A failed run gets no metrics, because they would look like results.

    Args:
        run: Run of the plan.
        point: Point of the run.
        study: Study of the plan.
        started_at: Start of the run in UTC, in ISO 8601.
        outcome: Outcome from the engine, or from a file of another tool.
        metered: Power of the run; None if meters were not read.
        stated: Facts from another tool's file; None unless the run is imported.
        offered: Rate of a point with a load level; otherwise None.
    """
    target = study.target_named(point.target)
    if stated is not None:
        target = target.model_copy(update={"direct": stated.direct})
    workload = FAMILIES[point.kind]
    planned, point = (
        point,
        _of_all_clients(point if offered is None else at_rate(point, offered.rate_s)),
    )
    if not workload.fixed_work and outcome.status == "finished" and _is_empty(outcome):
        outcome = replace(outcome, status="failed", failure=_nothing_done(point, outcome))
    finished = outcome.status == "finished"
    steady: dict[str, Any] | None = None
    unsteady: list[Flag] = []
    if not workload.fixed_work:
        steady, unsteady = _steady_record(outcome, study.study.interval)
    if stated is not None and not stated.histograms:
        outcome = replace(outcome, samples=[])
    flags = [*workload.flags(point, target, outcome), *outcome.flags]
    groups = _groups(workload, point, study, target, outcome, flags) if outcome.groups else {}
    flags += unsteady if finished else []
    flags += _named(groups, {flag.kind for flag in flags})
    power = metered or MeteredRun()
    concurrency = workload.concurrency(point, outcome) if finished else None
    metrics = workload.metrics(point, outcome) if finished else []
    if stated is not None and finished:
        metrics, concurrency = _with_stated(metrics, concurrency, stated.metrics)
    without_energy: list[str] = []
    if finished:
        metrics += energy_metrics(outcome, power.totals, workload.page, concurrency)
        if idles(outcome, workload.page):
            # Rates exclude pauses, but the energy of the window includes them, so metrics that
            # divide one by the other would be wrong.
            metrics = [m for m in metrics if not is_efficiency(m, workload.page)]
        page = workload.page
        metrics += density_metrics(metrics, target, power.totals, page.operations.rate)
        metrics += per_watt_metrics(metrics, power.totals, workload.page)
        metrics += span_metrics(outcome.spans, power.spans)
        metrics += health_metrics(Details.of(outcome).health)
        metrics = of_whole_work(metrics, outcome, workload.page)
        if offered is not None:
            name = f"offered_{page.operations.rate.name}"
            metrics.append(Metric(name=name, value=offered.rate_s, unit="1/s"))
        measured = [total.boundary for total in power.totals]
        without_energy = span_notes(outcome.spans, power.spans, measured)
        flags += _later_flags(target, power, outcome)
    provenance: Provenance = "measured" if stated is None else stated.provenance
    if outcome.details.get("stand_ins"):
        provenance = "emulated"
    return RunRecord(
        **about_run(run, planned),
        provenance=provenance,
        status="finished" if finished else "failed",
        failure=outcome.failure if finished else outcome.failure or _UNEXPLAINED,
        engine=outcome.engine,
        started_at=started_at,
        window_start_ns=outcome.window_start_ns,
        window_end_ns=outcome.window_end_ns,
        totals=outcome.totals,
        groups=groups if finished else {},
        by_worker=outcome.by_worker,
        cpu=outcome.cpu,
        server_cpu=outcome.server_cpu,
        details=outcome.details,
        spans=outcome.spans,
        cluster=outcome.cluster,
        concurrency=concurrency,
        offered=offered,
        steady=steady,
        proof=workload.proof(planned, target, outcome) if finished else None,
        metrics=[_no_better_than(provenance, metric) for metric in metrics],
        flags=flags,
        notes=[*outcome.notes, *power.notes, *_unread(target, metered), *without_energy],
        final_sync_ns=outcome.final_sync_ns,
        drain_ns=outcome.drain_ns,
        first_io_late_ns=outcome.first_io_late_ns,
        last_worker_late_ns=outcome.last_worker_late_ns,
        verify=outcome.verify,
        power=power.summaries if finished else [],
        span_power=power.spans if finished else [],
        power_boundary=headline_boundary(target, power.boundaries),
    )


def _groups(
    workload: Workload,
    point: Point,
    study: StudyBase,
    target: Target,
    outcome: RunOutcome,
    flags: Sequence[Flag],
) -> dict[str, GroupRecord]:
    """Return the results of each group of a run.

    Args:
        workload: Workload family of the point.
        point: Point of the run.
        study: Study of the plan.
        target: Target of the run.
        outcome: Outcome of the run.
        flags: Flags of the run as a whole, which also apply to each group.
    """
    groups: dict[str, GroupRecord] = {}
    for name, own in workload.groups(point).items():
        part = outcome.of_group(name)
        known = {flag.kind for flag in flags}
        raised = [f for f in workload.flags(own, target, part) if f.kind not in known]
        _, unsteady = _steady_record(part, study.study.interval)
        groups[name] = GroupRecord(
            totals=part.totals,
            concurrency=workload.concurrency(own, part),
            metrics=workload.metrics(own, part),
            flags=[*flags, *raised, *(unsteady if part.status == "finished" else [])],
        )
    return groups


def _named(groups: Mapping[str, GroupRecord], known: Collection[str]) -> list[Flag]:
    """Return a flag for each kind that only groups have, with the messages of all groups."""
    messages: dict[str, list[str]] = {}
    for name, group in groups.items():
        for flag in group.flags:
            if flag.kind not in known:
                messages.setdefault(flag.kind, []).append(f"{name}: {flag.message}")
    return [Flag(kind=kind, message="; ".join(texts)) for kind, texts in messages.items()]


def _no_better_than(provenance: Provenance, metric: Metric) -> Metric:
    """Return a metric with the weaker of two provenances: its own, and that of its run."""
    weaker = weakest_provenance([provenance, metric.provenance])
    return metric.model_copy(update={"provenance": weaker})


def _with_stated(
    metrics: list[Metric], concurrency: Concurrency | None, stated: Sequence[Metric]
) -> tuple[list[Metric], Concurrency | None]:
    """Add metrics from another tool's file that storlab has not computed itself.

    If storlab has not computed the effective concurrency either, that of the file is used.
    """
    derived = {(m.name, m.operation) for m in metrics}
    metrics = [*metrics, *(m for m in stated if (m.name, m.operation) not in derived)]
    if concurrency is not None and concurrency.implied is None:
        implied = next((m.value for m in metrics if m.name == "concurrency_effective"), None)
        concurrency = concurrency.model_copy(update={"implied": implied})
    return metrics, concurrency


def _later_flags(target: Target, power: MeteredRun, outcome: RunOutcome) -> list[Flag]:
    """Return flags about power meters and clients, which are the same for all workload families."""
    clients = cluster_flags(outcome.cluster, cached=not target.direct)
    return [*_power_flags(target, power), *clients]


def _of_all_clients(point: Point) -> Point:
    """Return a point whose load parameters are those of all clients together."""
    page = FAMILIES[point.kind].page
    loads = [name for name in (page.load.per_client, page.load.open_loop) if point.params.get(name)]
    if point.clients is None or not loads:
        return point
    more = {name: point.params[name] * point.clients for name in loads}
    return point.model_copy(update={"params": {**point.params, **more}})


def _is_empty(outcome: RunOutcome) -> bool:
    """Return whether the run did nothing: no operation completed, even late, and none failed."""
    done = any(
        totals.operations + totals.late_operations + sum(totals.errors.values())
        for totals in outcome.totals.values()
    )
    return not done and not any(sample.operations for sample in outcome.samples)


def _nothing_done(point: Point, outcome: RunOutcome) -> Failure:
    length = format_duration(max(0, outcome.window_end_ns - outcome.window_start_ns))
    waited = None if outcome.cpu is None else outcome.cpu.longest_wait_percent
    why = "" if not waited else f"; a worker waited for a core in {significant(waited, 3)} % of it"
    # Suggest more time or bytes: the window of several clients is cut to the intervals that all of
    # them cover, so a short run may have none.
    by_bytes = FAMILIES[point.kind].page.load.byte_limit
    longer = f"{by_bytes} larger" if point.params.get(by_bytes) is not None else "runtime longer"
    return Failure(
        message=f"no operation completed in the window of {length}{why}",
        fix="end other programs (`storlab doctor` shows how busy the machine is), or make "
        f"{longer}",
    )


def _unread(target: Target, metered: MeteredRun | None) -> list[str]:
    if metered is not None or not target.meters:
        return []
    kinds = ", ".join(sorted({meter.kind for meter in target.meters}))
    return [f"power not measured: the meters were not read ({kinds})"]


def _power_flags(target: Target, power: MeteredRun) -> list[Flag]:
    """Return a flag if there is a meter for the power boundary to report, but no power value."""
    wanted = headline_boundary(target, power.boundaries)
    if not power.boundaries or any(total.boundary == wanted for total in power.totals):
        return []
    why = [
        f"{part.info.sensor}: {note}"
        for part in power.summaries
        if part.info.boundary == wanted
        for note in part.notes
    ]
    text = (
        "; ".join(why or power.notes)
        or "not all sensors were read for 95 % of the window at the same time"
    )
    return [Flag(kind="power-not-measured", message=f"power not measured: {text}")]


_UNEXPLAINED = Failure(message="the engine ended the run without giving a reason")


def failed_record(
    run: PlannedRun, point: Point, engine: EngineInfo, started_at: str, failure: Failure
) -> RunRecord:
    """Build the record of a run that failed before its measure window."""
    return RunRecord(
        **about_run(run, point),
        status="failed",
        failure=failure,
        engine=engine,
        started_at=started_at,
        window_start_ns=0,
        window_end_ns=0,
        totals={},
    )


def interval_throughput(outcome: RunOutcome, interval_ns: int) -> list[float]:
    """Return the throughput of each interval in MB/s; a short last interval is left out."""
    moved: dict[int, list[int]] = {}
    for sample in outcome.samples:
        row = moved.setdefault(sample.interval, [0, sample.end_ns - sample.start_ns])
        row[0] += sample.bytes
    return [
        size / MB * NS_PER_S / length
        for _, (size, length) in sorted(moved.items())
        if length >= interval_ns / 2
    ]


def _steady_record(
    outcome: RunOutcome, interval_ns: int
) -> tuple[dict[str, Any] | None, list[Flag]]:
    """Return how steady throughput was over the window, and a flag if it was not steady."""
    values = interval_throughput(outcome, interval_ns)
    verdict = steady_verdict(five_parts(values))
    record = {**asdict(verdict), "quantity": "throughput_mb_s", "intervals": len(values)}
    if verdict.verdict != "not-steady":
        return record, []
    return record, [Flag(kind="not-steady", message=_unsteady_message(verdict))]


def _unsteady_message(verdict: SteadyVerdict) -> str:
    slope, excursion = verdict.slope_percent, verdict.excursion_percent
    if slope is None or excursion is None:
        return "no bytes were transferred"
    return (
        f"throughput was not steady over the window: it drifted by {slope:+.0f} %, and fifths of "
        f"the window differ by {excursion:.0f} % (limits: 10 % and 20 % of the mean)"
    )
