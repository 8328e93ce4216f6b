"""Importer of fio's JSON and JSON+, including the files that ``storlab export`` writes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from storlab.base.errors import ResultError
from storlab.base.units import NS_PER_MS
from storlab.contracts.exchange import ImportedRun
from storlab.engines.fio import importer_options as fio_options
from storlab.engines.fio import result as fio_result
from storlab.engines.fio import series as fio_series
from storlab.engines.fio.disk_util import medium_details
from storlab.engines.fio.result import Figures, FioFormatError
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    Failure,
    Metric,
    Operation,
    RunOutcome,
    RunStatus,
)
from storlab.model.types import Provenance, Table

OWN_KEY = "storlab"  # key in the jobs of files that `storlab export` wrote


class OwnFacts(Table):
    """Facts about a storlab run that have no field in fio's format, added by storlab's exporter."""

    schema_version: int = 1
    run_id: str
    target: str
    locations: list[str]
    direct: bool
    workload: str
    kind: str
    engine: str  # name in the registry
    engine_info: EngineInfo
    fields: dict[str, Any]
    params: dict[str, Any] = Field(default_factory=dict)  # parameters without a field
    provenance: Provenance
    status: RunStatus
    failure: Failure | None = None
    started_at: str
    window_start_ns: int
    window_end_ns: int
    ramp_ns: int
    runtime_ns: int
    cores: int | None = None
    clients: int | None = None
    notes: list[str] = Field(default_factory=list)
    facts: dict[str, Any] = Field(default_factory=dict)  # declared facts of the target
    evidence: dict[str, Any] = Field(default_factory=dict)  # details that the proof relies on
    late_operations: dict[Operation, int] = Field(default_factory=dict)
    # By kind of operation: the number of unfinished ones, and the longest latency so far in ns.
    unfinished_operations: dict[Operation, tuple[int, int]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Jobs in fio's output that together are one run, with their merged results and options."""

    jobs: list[dict[str, Any]]
    figures: Figures
    options: dict[str, str]


class FioImport:
    """Importer of fio's JSON output; accepts messages and status documents before the result."""

    name = "fio"
    hint = "the output of `fio --output-format=json+ --lat_percentiles=1 job.fio`"

    def matches(self, text: str) -> bool:
        """Return whether a text looks like fio's JSON output."""
        start = re.search(r"^\{", text, re.MULTILINE)
        return start is not None and (
            '"fio version"' in text or ('"jobs"' in text and '"jobname"' in text)
        )

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Parse fio's output into runs; jobs that ``numjobs`` cloned become one run.

        Raises:
            ResultError: The text is not the complete output of fio.
        """
        try:
            output = fio_result.split_output(text)
            document = output.documents[-1]
            version = fio_result.version(document)
            entries = _entries(document)
            alone = len(entries) == 1
            runs = [_run(document, entry, version, alone=alone) for entry in entries]
        except FioFormatError as error:
            raise ResultError(
                f"{file}: {error.field}",
                error.what,
                "give the complete output of fio --output-format=json+ (or json)",
            ) from error
        notes = [f"fio: {line}" for line in output.notes[:20]]
        if len(output.documents) > 1:
            notes.append(
                f"the file holds {len(output.documents)} documents (fio --status-interval, or "
                "results appended to one file); the last one is imported"
            )
        for run in runs:
            run.outcome.notes[:0] = notes
        return runs

    def suffix(self, text: str) -> str:  # noqa: ARG002  (same for every text)
        """Return the file suffix for the copy that storlab keeps of an imported text: ``.json``."""
        return ".json"

    def cleaned(self, text: str) -> str:
        """Return the text unchanged: fio writes no secrets."""
        return text


def _entries(document: dict[str, Any]) -> list[_Entry]:
    """Group fio's jobs into runs: those with equal name and reporting group are clones."""
    figures = fio_result.read_document(document)
    grouped: dict[tuple[str, str], list[int]] = {}
    for index, job in enumerate(document["jobs"]):
        key = (str(job.get("groupid", 0)), str(job.get("jobname", "")))
        grouped.setdefault(key, []).append(index)
    return [
        _Entry(
            jobs=[document["jobs"][i] for i in members],
            figures=fio_result.merge([figures[i] for i in members]),
            options=fio_options.merged(document, document["jobs"][members[0]]),
        )
        for members in grouped.values()
    ]


def _run(document: dict[str, Any], entry: _Entry, version: str, *, alone: bool) -> ImportedRun:
    own = _own_facts(entry)
    if own is not None:
        return _own_run(entry, own)
    figures, options = entry.figures, entry.options
    done: dict[str, int] = {
        kind: d.operations for kind, d in figures.directions.items() if kind != "sync"
    }
    fields, notes = fio_options.fields(options, done, len(entry.jobs))
    window_ns = figures.runtime_ms * NS_PER_MS
    engine = EngineInfo(
        name="fio",
        version=version,
        backend=fio_options.engine_of(options),
        features=[f"ioengine={fio_options.engine_of(options)}"],
        clock="fio",
    )
    outcome = _outcome(entry, engine, 0, window_ns, fields["jobs"])
    outcome.conclude(_failure(entry))
    outcome.details = medium_details(document, entry.options, window_ns, alone=alone)
    outcome.notes += [*notes, *_notes(entry)]
    locations = fio_options.locations(options)
    size = fio_options.data_size(options, len(locations))
    untold = fio_options.untold(options)
    runtime_ns = fio_options.time_ns(options.get("runtime", "")) or window_ns
    return ImportedRun(
        kind="block",
        fields=fields,
        label=None,
        target=_target_name(entry, locations),
        locations=locations,
        direct=fio_options.is_on(options, "direct"),
        engine="fio",
        outcome=outcome,
        metrics=_given_metrics(figures),
        started_at=_started_at(document, figures),
        ramp_ns=fio_options.time_ns(options.get("ramp_time", "")) or 0,
        runtime_ns=max(1, runtime_ns),
        facts={"size": size} if size else {},
        params={"fio_options": untold} if untold else {},
    )


def _target_name(entry: _Entry, locations: Sequence[str]) -> str:
    if locations:
        names = [Path(path).name or path for path in locations]
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return str(entry.jobs[0].get("jobname") or "imported")


def _outcome(
    entry: _Entry, engine: EngineInfo, start_ns: int, window_ns: int, jobs: int
) -> RunOutcome:
    figures = entry.figures
    samples = fio_series.whole_window(figures, start_ns, window_ns)
    return RunOutcome(
        status="finished",
        engine=engine,
        window_start_ns=start_ns,
        window_end_ns=start_ns + window_ns,
        samples=samples,
        totals=fio_result.totals(figures),
        cpu=_cpu(entry, window_ns, jobs),
    )


def _cpu(entry: _Entry, window_ns: int, jobs: int) -> CpuUse | None:
    figures = entry.figures
    if not window_ns or not figures.job_runtime_ms:
        return None
    share = 1.0
    # Exclude the CPU time of the ramp only if there was one: otherwise a job_runtime above the
    # window means that more threads ran than the options show.
    if "ramp_time" in entry.options and OWN_KEY not in entry.jobs[0]:
        share = fio_result.window_share(figures.job_runtime_ms, window_ns * jobs // NS_PER_MS)
    user_ns, system_ns = round(figures.user_ns * share), round(figures.system_ns * share)
    return CpuUse(user_ns=user_ns, system_ns=system_ns, cores=jobs, worker_ns=user_ns + system_ns)


def _failure(entry: _Entry) -> Failure | None:
    error = entry.figures.error
    if error:
        return Failure(
            message=f"fio: {os.strerror(error)}",
            fix="repeat the run; the error occurred on the machine that ran fio",
            errno=error,
        )
    if not any(direction.operations for direction in entry.figures.directions.values()):
        return Failure(message="fio completed no I/O", fix="read fio's messages of this run")
    return None


def _notes(entry: _Entry) -> list[str]:
    """Return notes on how to interpret the imported numbers of a fio run."""
    notes = ["imported: one sample spans the whole window"]
    directions = entry.figures.directions
    if any(d.latency is None and d.operations for d in directions.values()):
        notes.append("fio recorded no latencies (disable_lat, gtod_reduce), so this run has none")
    if any(d.latency and not d.latency.bins for d in directions.values()):
        notes.append(
            "there is no latency histogram (fio --output-format=json+ writes one); fio's own "
            "percentiles are kept, but cannot be merged with others"
        )
    if any(d.latency and d.latency.source == "clat" for d in directions.values()):
        notes.append(
            "latency is fio's completion latency (clat): it starts after submission, with io_uring "
            "after the system call; with lat_percentiles=1 fio records it from submission on"
        )
    for kind, direction in directions.items():
        if direction.issued and abs(direction.operations / direction.issued - 1) > 0.01:
            notes.append(
                f"fio's total_ios counts {direction.issued:,} issued {kind}s; storlab counts the "
                f"{direction.operations:,} that completed"
            )
    if fio_options.is_on(entry.options, "group_reporting"):
        notes.append("group_reporting: options are those of the group's first job")
    return notes


def _given_metrics(figures: Figures) -> list[Metric]:
    """Return latency metrics as printed by fio, for operations without a histogram."""
    metrics: list[Metric] = []
    names = {50.0: "p50", 90.0: "p90", 99.0: "p99", 99.9: "p999"}
    for kind, direction in figures.directions.items():
        latency = direction.latency
        if latency is None or fio_result.summary(latency) is not None:
            continue
        values: dict[str, float] = {"mean": latency.mean_ns, "max": latency.max_ns}
        given = latency.percentiles.items()
        values |= {names[percent]: value for percent, value in given if percent in names}
        metrics += [
            Metric(name=f"latency_{name}_ns", value=value, unit="ns", operation=kind)
            for name, value in values.items()
        ]
    if metrics:  # otherwise the workload derives it
        waited = sum(
            d.operations * d.latency.mean_ns
            for kind, d in figures.directions.items()
            if d.latency is not None and kind != "sync"
        )
        implied = waited / (figures.runtime_ms * NS_PER_MS) if figures.runtime_ms else 0.0
        metrics.append(Metric(name="concurrency_effective", value=implied, unit="1"))
    return metrics


def _started_at(document: dict[str, Any], figures: Figures) -> str:
    start_ms = figures.job_start_ms
    if start_ms is None:
        stamp = document.get("timestamp_ms") or 1000 * (document.get("timestamp") or 0)
        start_ms = max(0, int(stamp) - figures.runtime_ms)
    moment = datetime.fromtimestamp(start_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds")


def _own_facts(entry: _Entry) -> OwnFacts | None:
    facts = entry.jobs[0].get(OWN_KEY)
    if facts is None:
        return None
    try:
        return OwnFacts.model_validate(facts)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise FioFormatError(f"jobs.{OWN_KEY}.{where}", str(first["msg"])) from error


def _own_run(entry: _Entry, own: OwnFacts) -> ImportedRun:
    window_ns = own.window_end_ns - own.window_start_ns
    jobs = int(own.fields.get("jobs", 1))
    outcome = _outcome(entry, own.engine_info, own.window_start_ns, window_ns, jobs)
    outcome.status, outcome.failure = own.status, own.failure
    outcome.details = dict(own.evidence)
    for kind, late in own.late_operations.items():
        totals = outcome.totals[kind]
        ended = totals.operations - late  # latencies include late operations, rates do not
        outcome.totals[kind] = totals.model_copy(
            update={"operations": ended, "late_operations": late}
        )
    for kind, (number, longest_ns) in own.unfinished_operations.items():
        outcome.totals[kind] = outcome.totals[kind].model_copy(
            update={"unfinished_operations": number, "unfinished_longest_ns": longest_ns}
        )
    if outcome.cpu is not None and own.cores is not None:
        outcome.cpu = outcome.cpu.model_copy(update={"cores": own.cores})
    outcome.notes = [*own.notes, f"imported from an export of run {own.run_id}, in one sample"]
    return ImportedRun(
        kind=own.kind,
        fields=own.fields,
        label=own.workload,
        target=own.target,
        locations=own.locations,
        direct=own.direct,
        facts=own.facts,
        engine=own.engine,
        outcome=outcome,
        metrics=_given_metrics(entry.figures),
        started_at=own.started_at,
        ramp_ns=own.ramp_ns,
        runtime_ns=max(1, own.runtime_ns),
        provenance=own.provenance,
        clients=own.clients,
        params=own.params,
    )
