"""Importer of fio's JSON, JSON+, human-readable and terse output.

Files that ``storlab export`` wrote are JSON with additional facts, from which the original runs are
restored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from storlab.base.errors import ResultError
from storlab.base.units import NS_PER_MS
from storlab.contracts.exchange import FileImporter, ImportedRun
from storlab.engines.fio import importer_options as fio_options
from storlab.engines.fio import result as fio_result
from storlab.engines.fio import series as fio_series
from storlab.engines.fio import terse_output, text_output
from storlab.engines.fio.disk_util import medium_details
from storlab.engines.fio.error_numbers import failure_of
from storlab.engines.fio.merged_sections import find_sections
from storlab.engines.fio.printed_load import JOBS, NOTES, PARTIAL
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
    hosts: list[str] | None  # hosts of fio's servers that ran the jobs; None without servers

    @property
    def jobs_per_client(self) -> int:
        """Number of identical jobs in the file for each client."""
        return max(1, len(self.jobs) // len(self.hosts or [""]))


class FioImport(FileImporter):
    """Importer of fio's output in the formats json, json+, normal and terse.

    JSON may follow messages.
    """

    name = "fio"
    hint = "the output of `fio --output-format=json+ --lat_percentiles=1 job.fio`"

    def matches(self, text: str) -> bool:
        """Return whether a text looks like fio's output."""
        return _is_json(text) or text_output.matches(text) or terse_output.matches(text)

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Parse fio's output into runs; jobs that ``numjobs`` cloned become one run.

        Raises:
            ResultError: The text is not the complete output of fio.
        """
        if not _is_json(text):
            return _printed_runs(text, file)
        try:
            document = fio_result.split_output(text).documents[-1]
            version = fio_result.version(document)
            entries = _entries(document)
            alone = len(entries) == 1
            return [_run(document, entry, version, alone=alone) for entry in entries]
        except FioFormatError as error:
            raise ResultError(f"{file}: {error.field}", error.what, error.fix) from error

    def suffix(self, text: str) -> str:
        """Return the suffix of the copy of the file in the result directory."""
        return ".json" if _is_json(text) else ".txt"


def _is_json(text: str) -> bool:
    start = re.search(r"^\{", text, re.MULTILINE)
    lists = any(f'"{name}"' in text for name in ("jobs", "client_stats"))
    return start is not None and ('"fio version"' in text or (lists and '"jobname"' in text))


def _printed_runs(text: str, file: str) -> list[ImportedRun]:
    """Parse fio's human-readable or terse output into runs."""
    runs: list[ImportedRun] = []
    try:
        for document in text_output.read(text) or terse_output.read(text):
            entries = _entries(document)
            number = str(document["fio version"])
            own = [_run(document, entry, number, alone=len(entries) == 1) for entry in entries]
            for run in own:
                run.outcome.notes += document[NOTES]
            runs += own
    except FioFormatError as error:
        fix = "give the complete output of fio; --output-format=json+ has the most values"
        raise ResultError(f"{file}: {error.field}", error.what, fix) from error
    if not runs:
        messages = "; ".join(text_output.messages(text)[:3]) or "no message"
        what = f"has the start of a job, but no results: fio printed {messages}"
        raise ResultError(file, what, "repeat the run, and give fio's output to its end")
    return runs


def _entries(document: dict[str, Any]) -> list[_Entry]:
    """Group fio's jobs into runs: those with equal name and reporting group are clones."""
    figures = fio_result.read_document(document)
    _, jobs = fio_result.jobs_of(document)
    grouped: dict[tuple[str, str], list[int]] = {}
    for index, job in enumerate(jobs):
        key = (str(job.get("groupid", 0)), str(job.get("jobname", "")))
        grouped.setdefault(key, []).append(index)
    entries = []
    for members in grouped.values():
        merged = fio_result.merge([figures[i] for i in members])
        if len(grouped) == 1:
            merged = fio_result.with_sum_of_clients(document, merged)
        entries.append(
            _Entry(
                jobs=[jobs[i] for i in members],
                figures=merged,
                options=fio_options.merged(document, jobs[members[0]]),
                hosts=_hosts(document, [jobs[i] for i in members]),
            )
        )
    return entries


def _hosts(document: dict[str, Any], jobs: Sequence[dict[str, Any]]) -> list[str] | None:
    if "client_stats" not in document:
        return None
    return [host[0] if host else "" for host in dict.fromkeys(map(fio_options.host_of, jobs))]


def _run(document: dict[str, Any], entry: _Entry, version: str, *, alone: bool) -> ImportedRun:
    own = _own_facts(entry)
    if own is not None:
        return _own_run(entry, own)
    figures, options = entry.figures, entry.options
    fields, notes = _fields(entry)
    window_ns = figures.runtime_ms * NS_PER_MS
    backend = fio_options.engine_of(options) if options else None
    engine = EngineInfo(
        name="fio",
        version=version,
        backend=backend,
        features=[f"ioengine={backend}"] if backend else [],
        clock="fio",
    )
    clients = None if entry.hosts is None else len(entry.hosts)
    outcome = _outcome(entry, engine, 0, window_ns, fields["jobs"] * (clients or 1))
    outcome.conclude(failure_of(figures, options))
    outcome.details = _details(document, entry, window_ns, alone=alone)
    outcome.notes += [*notes, *_notes(entry), *_document_notes(document, version)]
    locations = fio_options.locations(options)
    size = fio_options.data_size(options, len(locations))
    unexpressed = fio_options.unexpressed(options) if options else {"rw": "not in the file"}
    runtime_ns = fio_options.time_ns(options.get("runtime", "")) or window_ns
    has_all_options = bool(options) and not document.get(PARTIAL)
    return ImportedRun(
        kind="block",
        fields=fields,
        label=None,
        target=_target_name(entry, locations),
        locations=locations,
        direct=fio_options.is_on(options, "direct") if has_all_options else None,
        engine="fio",
        outcome=outcome,
        metrics=_given_metrics(figures),
        started_at=_started_at(document, figures),
        ramp_ns=fio_options.time_ns(options.get("ramp_time", "")) or 0,
        runtime_ns=max(1, runtime_ns),
        runtime_stated="runtime" in options,
        facts={"size": size} if size else {},
        params={"fio_options": unexpressed} if unexpressed else {},
        clients=clients,
    )


def _fields(entry: _Entry) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the workload, and notes.

    Fields follow from the options, or from the results if these contradict the options.
    """
    done: dict[str, int] = {
        kind: d.operations for kind, d in entry.figures.directions.items() if kind != "sync"
    }
    if not entry.options:
        return _estimated_fields(entry, done)
    fields, notes = fio_options.fields(entry.options, done, entry.jobs_per_client)
    found = find_sections(entry.figures, entry.options, fields["jobs"], len(entry.hosts or [""]))
    if found.reasons:
        fields |= {"jobs": found.jobs, "read_percent": found.read_percent}
        notes.append(found.note)
    return fields, notes


def _estimated_fields(entry: _Entry, done: dict[str, int]) -> tuple[dict[str, Any], list[str]]:
    figures = entry.figures
    moved = sum(d.bytes for d in figures.directions.values())
    count = done.get("read", 0) + done.get("write", 0)
    waited = sum(
        d.operations * d.latency.in_flight_ns
        for kind, d in figures.directions.items()
        if d.latency is not None and kind != "sync"
    )
    in_flight = waited / max(1, figures.runtime_ms * NS_PER_MS) / len(entry.hosts or [""])
    size, depths = moved / count if count else None, entry.jobs[0].get("iodepth_level")
    return fio_options.estimated_fields(
        done, size, depths if isinstance(depths, dict) else {}, in_flight, _printed_jobs(entry)
    )


def _printed_jobs(entry: _Entry) -> int | None:
    return sum(int(job.get(JOBS, 0)) for job in entry.jobs) or None


def _details(
    document: dict[str, Any], entry: _Entry, window_ns: int, *, alone: bool
) -> dict[str, Any]:
    """Return details of a run: device counters, steady-state test, latency types (lat, clat)."""
    details: dict[str, Any] = {}
    if entry.hosts is None:
        details = medium_details(document, entry.options, window_ns, alone=alone)
    clocks = {
        kind: {"mean": latency.source, "percentiles": latency.percentiles_source or latency.source}
        for kind, direction in entry.figures.directions.items()
        if (latency := direction.latency) is not None
    }
    if clocks:
        details["latency_clocks"] = clocks
    if steady := _steady_states(entry):
        details["fio_steadystate"] = steady
    if entry.hosts is not None:
        details["fio_servers"] = entry.hosts
    return details


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


def _notes(entry: _Entry) -> list[str]:
    """Return notes on how to interpret the imported numbers of a fio run."""
    notes = list(dict.fromkeys(note for job in entry.jobs for note in job.get(NOTES, [])))
    notes.append("imported: there is no time series, and one sample spans the whole window")
    directions = entry.figures.directions
    if any(d.latency is None and d.operations for d in directions.values()):
        notes.append("fio recorded no latencies (disable_lat, gtod_reduce), so this run has none")
    plain = [d.latency for d in directions.values() if d.latency and not d.latency.bins]
    if any(latency.upper_bounds for latency in plain):
        notes.append(
            f"percentiles are upper bounds, computed from those of {len(entry.jobs)} jobs: with "
            "group_reporting or --output-format=json+, fio keeps those of all I/Os"
        )
    if plain:
        notes.append(
            "there is no latency histogram (fio --output-format=json+ writes one); fio's own "
            "percentiles are kept, but cannot be merged with others"
        )
    notes += _clock_notes(entry.figures)
    for kind, direction in directions.items():
        if direction.issued and abs(direction.operations / direction.issued - 1) > 0.01:
            notes.append(
                f"fio's total_ios counts {direction.issued:,} issued {kind}s; storlab counts the "
                f"{direction.operations:,} that completed"
            )
    lengths = {kind: d.runtime_ms for kind, d in directions.items() if d.runtime_ms}
    if lengths and min(lengths.values()) < 0.95 * max(lengths.values()):
        own = ", ".join(f"{kind}s {ms / 1000:g} s" for kind, ms in lengths.items())
        notes.append(f"rates are over the whole window, but durations differ between kinds: {own}")
    ends = [int(job.get("job_runtime") or 0) for job in entry.jobs]
    if min(ends) < 0.95 * max(ends):
        notes.append(
            f"the {len(ends)} jobs ran for {min(ends) / 1000:g} s to {max(ends) / 1000:g} s: rates "
            "are over the longest, so they are lower than the sum of the jobs' own rates"
        )
    if fio_options.is_on(entry.options, "group_reporting"):
        notes.append("with group_reporting, fio prints only the options of the group's last job")
    failed = sum(int(job.get("total_err") or 0) for job in entry.jobs)
    if failed:
        notes.append(f"{failed:,} I/Os failed, and fio continued (continue_on_error)")
    if entry.hosts is not None:
        hosts = ", ".join(entry.hosts[:10]) + (", ..." if len(entry.hosts) > 10 else "")
        notes.append(f"fio's client ran the job on these servers ({len(entry.hosts)}): {hosts}")
    return [*notes, *_steady_notes(_steady_states(entry))]


def _clock_notes(figures: Figures) -> list[str]:
    """Return notes on latencies that do not start at the submission of the I/O."""
    latencies = {k: d.latency for k, d in figures.directions.items() if d.latency is not None}
    mixed = [kind for kind, latency in latencies.items() if latency.percentiles_source is not None]
    notes = []
    if mixed:
        notes.append(
            f"mean and maximum latency ({', '.join(mixed)}) are fio's total latency (lat), but "
            "percentiles are of its completion latency (clat), which starts after submission: "
            "they may be lower. With lat_percentiles=1 fio prints percentiles of lat"
        )
    late = {kind: latency for kind, latency in latencies.items() if latency.source == "clat"}
    if late:
        notes.append(
            "latency is fio's completion latency (clat): it starts after submission, with io_uring "
            "after the system call; with lat_percentiles=1 fio records it from submission on"
        )
    for kind, latency in late.items():
        if latency.total_mean_ns is not None:
            notes.append(
                f"the mean total latency (lat) of {kind}s is {latency.total_mean_ns:,.0f} ns: the "
                "effective concurrency is computed from it"
            )
    return notes


def _steady_states(entry: _Entry) -> list[dict[str, Any]]:
    """Return the results of fio's own steady-state test for each job, without time series."""
    tests = [test for job in entry.jobs if isinstance(test := job.get("steadystate"), dict)]
    return [{k: v for k, v in test.items() if k != "data"} for test in tests]


def _steady_notes(tests: Sequence[dict[str, Any]]) -> list[str]:
    """Return a note with the outcome of fio's own steady-state test; empty if there was none."""
    if not tests:
        return []
    first, attained = tests[0], sum(bool(test.get("attained")) for test in tests)
    outcome = f"attained by {attained} of {len(tests)} jobs"
    if len(tests) == 1:
        outcome = "attained" if attained else "not attained"
    return [
        f"fio's own steady-state test ({first.get('ss')} over {first.get('duration')} s, reached "
        f"{first.get('criterion')}): {outcome}"
    ]


def _document_notes(document: dict[str, Any], version: str) -> list[str]:
    """Return notes on rounding by old versions of fio, and on values that their files lack."""
    _, jobs = fio_result.jobs_of(document)
    sections = [job[kind] for job in jobs for kind in ("read", "write") if kind in job]
    notes = []
    if any(fio_result.is_in_us(section) for section in sections):
        notes.append(f"fio {version} prints latencies in whole microseconds")
        if not any("io_kbytes" in section for section in sections):
            notes.append(f"fio {version} prints bytes in whole KiB")
        if not any("total_ios" in section for section in sections):
            notes.append(f"fio {version} prints no number of I/Os: it is IOPS times run time")
    if not _stamp_ms(document):
        notes.append("the file has no time stamp, so the run is dated 1970")
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
        values |= {names[p]: min(value, latency.max_ns) for p, value in given if p in names}
        metrics += [
            Metric(name=f"latency_{name}_ns", value=value, unit="ns", operation=kind)
            for name, value in values.items()
        ]
    return metrics


def _stamp_ms(document: dict[str, Any]) -> int:
    """Return the UNIX time in ms at which fio wrote a document; 0 if it has no time stamp."""
    for name, scale in (("timestamp_ms", 1), ("timestamp", 1000)):
        stamp = document.get(name)
        if isinstance(stamp, int) and 0 < stamp * scale < fio_result.LATEST_MS:
            return stamp * scale
    return 0


def _started_at(document: dict[str, Any], figures: Figures) -> str:
    start_ms = figures.job_start_ms
    if start_ms is None:
        start_ms = max(0, _stamp_ms(document) - figures.runtime_ms)
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
    for direction in entry.figures.directions.values():
        # In an open loop, latencies are those of the operations due in the window; others may have
        # completed in it.
        direction.operations = direction.issued
    outcome = _outcome(entry, own.engine_info, own.window_start_ns, window_ns, jobs)
    outcome.samples = [
        replace(sample, operations=outcome.totals[sample.operation].operations)
        for sample in outcome.samples
    ]
    outcome.status, outcome.failure = own.status, own.failure
    outcome.details = dict(own.evidence)
    for kind, late in own.late_operations.items():
        outcome.totals[kind] = outcome.totals[kind].model_copy(update={"late_operations": late})
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
        runtime_stated=True,
        provenance=own.provenance,
        clients=own.clients,
        params=own.params,
    )
