"""Importer of warp's results: the record of all requests, aggregated JSON, or printed text.

From a record (``.csv.zst``, written with ``--full`` and by all versions before 1.1), results are
recomputed. The JSON (``.json.zst``, or ``warp analyze --json``) and the printed text have only
aggregates, which are imported if no percentiles have to be averaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from storlab.base.errors import ResultError
from storlab.base.units import NS_PER_S, format_latency
from storlab.contracts.exchange import UNKNOWN_STORE, FileImporter, ImportedRun
from storlab.engines.warp import errors as warp_errors
from storlab.engines.warp import records as warp_records
from storlab.engines.warp import summary as warp_summary
from storlab.engines.warp import text_output as warp_text_output
from storlab.engines.warp.command_line import duration_ns, without_credentials
from storlab.engines.warp.importer_options import (
    Seen,
    endpoints_of,
    fields,
    sizes_of,
    unexpressed,
)
from storlab.engines.warp.records import Records, WarpFormatError, Window
from storlab.engines.warp.summary import OperationSummary, Summary
from storlab.model.result import EngineInfo, Failure, Metric, Operation, OperationTotals, RunOutcome
from storlab.model.target import s3_address_problem
from storlab.workloads.object.job import OBJECT_OPERATIONS

_DEFAULT_BUCKET = "warp-benchmark-bucket"


class WarpImport(FileImporter):
    """Importer of warp's results: a record of all requests, JSON, or printed text."""

    name = "warp"
    hint = "its benchmark data (.csv.zst, with --full, or .json.zst), or the text that it printed"

    def matches(self, text: str) -> bool:
        """Return whether a text looks like a record of requests, JSON or printed text of warp."""
        return any(form.looks_like(text) for form in (warp_records, warp_summary, warp_text_output))

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Parse the runs of a warp file. Raises ResultError if the file is malformed."""
        try:
            if warp_records.looks_like(text):
                return [_of_records(warp_records.read_records(text.encode()))]
            if warp_summary.looks_like(text):
                return [_of_summary(warp_summary.read_summary(text))]
            summaries = warp_text_output.read_text(text)
            return [replace(_of_summary(summary), zone_assumed=True) for summary in summaries]
        except WarpFormatError as error:
            raise ResultError(
                f"{file}: {error.field}",
                error.what,
                "give an unchanged benchmark data file of warp (warp-*.csv.zst or .json.zst)",
            ) from error

    def suffix(self, text: str) -> str:
        """Return the suffix of the copy of the file in the result directory."""
        if warp_records.looks_like(text):
            return ".csv"
        return ".json" if warp_summary.looks_like(text) else ".txt"

    def cleaned(self, text: str) -> str:
        """Return the text without credentials.

        warp records the S3 session token of its command line, and printed text may contain the
        command line.
        """
        return without_credentials(text)


def _of_records(records: Records) -> ImportedRun:
    load, left_out = warp_records.load_of(records)
    if not len(load.start_ns):
        raise WarpFormatError("op", "has no request of a kind that storlab can import")
    flags = warp_summary.flags(load.command)
    start_ns = int(load.start_ns.min())
    end_ns = _end_ns(load, start_ns, duration_ns(flags.get("duration", "")))
    window = Window(start_ns, end_ns, NS_PER_S, offset_ns=-start_ns)
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="warp", version="unknown", clock="warp"),
        window_start_ns=0,
        window_end_ns=end_ns - start_ns,
        samples=warp_records.samples(load, window),
        totals=warp_records.totals(load, window),
        cpu=None,
        notes=_record_notes(load, left_out),
    )
    seen = Seen(
        requests={
            kind: total.operations + sum(total.errors.values())
            for kind, total in outcome.totals.items()
        },
        sizes=sizes_of(load),
        workers=load.workers,
        keys_per_delete=int(load.objects.max()) if len(load.objects) else 1,
        tls=any(endpoint.startswith("https") for endpoint in load.endpoints),
    )
    return _run(flags, seen, list(load.endpoints), outcome, start_ns, [], "requests")


def _end_ns(load: Records, start_ns: int, asked_ns: int) -> int:
    """Return when the full load ended, as UNIX time in ns.

    It ended with the requested duration or, if warp stopped earlier, when its last request started.
    """
    planned_ns = start_ns + asked_ns
    if asked_ns and int(load.end_ns.max()) >= planned_ns:
        return planned_ns
    last_ns = int(load.start_ns.max())
    return last_ns if last_ns > start_ns else int(load.end_ns.max()) + 1


def _record_notes(load: Records, left_out: int) -> list[str]:
    notes = ["warp does not record a ramp: the window begins with the first request"]
    if left_out:
        notes.append(f"{left_out:,} uploads with which warp prepared the run are not counted")
    if load.stepped:
        notes.append(
            "the wall clock was set during the run, so the times in warp's record may be wrong"
        )
    return notes + _unknown_note(load.unknown)


def _unknown_note(unknown: tuple[str, ...]) -> list[str]:
    if not unknown:
        return []
    return [f"requests of kind {', '.join(unknown)} are unknown to storlab and not counted"]


def _of_summary(summary: Summary) -> ImportedRun:
    operations = _load_of(summary)
    if not operations:
        what = "has no result of an operation that storlab can import"
        raise WarpFormatError(
            "operations", f"{what}: {'; '.join(summary.notes)}" if summary.notes else what
        )
    start_ns = min(of_kind.start_ns for of_kind in operations.values())
    window_ns = max(of_kind.end_ns for of_kind in operations.values()) - start_ns
    if window_ns <= 0:
        raise WarpFormatError("operations", "have no duration: their end is not after their start")
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="warp", version=summary.version or "unknown", clock="warp"),
        window_start_ns=0,
        window_end_ns=window_ns,
        samples=[],
        totals={kind: _totals(of_kind) for kind, of_kind in operations.items()},
        cpu=None,
        notes=[
            *_summary_notes(operations, has_rates=summary.has_rates),
            *summary.notes,
            *_unknown_note(summary.unknown),
        ],
    )
    endpoints = list(
        dict.fromkeys(host for of_kind in operations.values() for host in of_kind.hosts)
    )
    sizes = {of_kind.size for of_kind in operations.values() if of_kind.size}
    moving = [of_kind for of_kind in operations.values() if of_kind.bytes]
    batches = [-(-of_kind.objects // max(1, of_kind.requests)) for of_kind in operations.values()]
    seen = Seen(
        requests={kind: of_kind.requests for kind, of_kind in operations.items()},
        sizes=dict.fromkeys(sizes, 1),
        workers=max(of_kind.concurrency for of_kind in operations.values()),
        keys_per_delete=max(batches),
        tls=any(endpoint.startswith("https") for endpoint in endpoints),
        mean_size=sum(of_kind.bytes for of_kind in moving)
        // max(1, sum(of_kind.objects for of_kind in moving)),
    )
    metrics = _given_metrics(operations, window_ns)
    return _run(summary.flags, seen, endpoints, outcome, start_ns, metrics, "aggregates")


def _load_of(summary: Summary) -> dict[Operation, OperationSummary]:
    """Return warp's aggregates by operation, without uploads that only prepared the run.

    Some files include these uploads.
    """
    operations = dict(summary.operations)
    others = [of_kind.start_ns for kind, of_kind in operations.items() if kind != "put"]
    if "put" in operations and others and operations["put"].end_ns <= min(others):
        del operations["put"]
    return operations


def _totals(of_kind: OperationSummary) -> OperationTotals:
    moved = of_kind.bytes_moved
    if moved is None:
        moved = of_kind.bytes * of_kind.succeeded // max(1, of_kind.requests)
    return OperationTotals(operations=of_kind.succeeded, bytes=moved, errors=_errors(of_kind))


def _errors(of_kind: OperationSummary) -> dict[str, int]:
    """Return the number of errors by kind.

    warp's JSON lists only the first few errors. If they differ, the kind is "of several kinds".
    """
    if not of_kind.errors:
        return {}
    kinds = {warp_errors.kind(text) for text in of_kind.first_errors}
    return {kinds.pop() if len(kinds) == 1 else "of several kinds": of_kind.errors}


def _summary_notes(
    operations: Mapping[Operation, OperationSummary], *, has_rates: bool
) -> list[str]:
    window = (
        "counts are warp's rates times their duration, which excludes the run's first and last "
        "requests"
        if has_rates
        else "the window is the whole run with all its requests"
    )
    notes = [
        f"warp stored only aggregates: there is no histogram and no time series, and {window} "
        "(warp --full stores every request)"
    ]
    for kind, of_kind in operations.items():
        notes += _latency_notes(kind, of_kind)
    failed = [of_kind for of_kind in operations.values() if of_kind.errors]
    if failed:
        notes.append("warp's latencies include those of failed requests")
    if any(of_kind.bytes_moved is None for of_kind in failed):
        notes.append(
            "warp counted the bytes of failed requests as moved; sizes differ, so these bytes are "
            "estimated by the share of requests that failed"
        )
    return notes


def _latency_notes(kind: Operation, of_kind: OperationSummary) -> Iterator[str]:
    if not of_kind.pieces:
        yield (
            f"warp stores only mean latencies of {kind}, because its sizes differ"
            if of_kind.timed
            else f"warp stores no latencies of {kind}"
        )
    elif of_kind.pieces[0].is_averaged:
        yield (
            f"warp prints the mean of the percentiles of {kind} of periods of 10 s, which is not a "
            f"percentile and is not imported: {format_latency(of_kind.pieces[0].p99_ns)} for p99"
        )
    elif len(of_kind.pieces) > 1:
        low, high = (pick(piece.p99_ns for piece in of_kind.pieces) for pick in (min, max))
        yield (
            f"warp stores percentiles of {kind} for each 10 s and prints their mean, which is not "
            f"a percentile and is not imported; the p99 of these periods ranges from "
            f"{format_latency(low)} to {format_latency(high)}"
        )
    if 0 < of_kind.timed < of_kind.requests:
        yield (
            f"the latencies are those of {of_kind.timed:,} of {of_kind.requests:,} {kind} "
            "requests: the file does not have the others"
        )


def _given_metrics(
    operations: Mapping[Operation, OperationSummary], window_ns: int
) -> list[Metric]:
    metrics: list[Metric] = []
    waited_ns = 0.0
    for kind, of_kind in operations.items():
        if of_kind.mean_ns is None:
            continue
        waited_ns += of_kind.requests * of_kind.mean_ns
        values = {"latency_mean_ns": of_kind.mean_ns}
        if of_kind.pieces:
            values["latency_max_ns"] = max(piece.max_ns for piece in of_kind.pieces)
        if of_kind.has_percentiles:
            only = of_kind.pieces[0]
            values |= {f"latency_{name}_ns": getattr(only, f"{name}_ns") for name in _PERCENTILES}
        metrics += [_metric(name, value, kind) for name, value in values.items()]
        metrics += _ttfb_metrics(kind, of_kind)
    if all(of_kind.mean_ns is not None for of_kind in operations.values()):
        metrics.append(Metric(name="concurrency_effective", value=waited_ns / window_ns, unit="1"))
    return metrics


_PERCENTILES = ("p50", "p90", "p99")


def _ttfb_metrics(kind: Operation, of_kind: OperationSummary) -> list[Metric]:
    """Return metrics of the time to first byte of GETs; none for other operations.

    For a PUT, warp's "TTFB" is the wait after the end of the body.
    """
    if (
        kind != "get"
        or not of_kind.pieces
        or any(piece.ttfb_mean_ns is None for piece in of_kind.pieces)
    ):
        return []
    requests = sum(piece.requests for piece in of_kind.pieces)
    waited = sum(piece.requests * (piece.ttfb_mean_ns or 0) for piece in of_kind.pieces)
    values = {
        "ttfb_mean_ns": waited / requests,
        "ttfb_max_ns": max(piece.ttfb_max_ns or 0 for piece in of_kind.pieces),
    }
    if of_kind.has_percentiles:
        only = of_kind.pieces[0]
        values |= {f"ttfb_{name}_ns": getattr(only, f"ttfb_{name}_ns") for name in _PERCENTILES}
    return [_metric(name, value, kind) for name, value in values.items()]


def _metric(name: str, value: float, operation: Operation) -> Metric:
    return Metric(name=name, value=value, unit="ns", operation=operation)


def _run(
    flags: Mapping[str, str],
    seen: Seen,
    endpoints: list[str],
    outcome: RunOutcome,
    start_ns: int,
    metrics: list[Metric],
    form: str,
) -> ImportedRun:
    own_fields, notes = fields(flags, seen)
    outcome.notes += notes
    outcome.totals = {k: outcome.totals[k] for k in OBJECT_OPERATIONS if k in outcome.totals}
    outcome.conclude(_failure(outcome))
    hosts = endpoints or endpoints_of(flags)
    place = f"{hosts[0]}/{flags.get('bucket', _DEFAULT_BUCKET)}" if hosts else UNKNOWN_STORE
    if s3_address_problem(place) is not None:
        place = UNKNOWN_STORE
    name = urlsplit(place).netloc + urlsplit(place).path
    return ImportedRun(
        kind="object",
        fields=own_fields,
        label=None,
        target="imported" if place == UNKNOWN_STORE else name,
        locations=[],
        direct=False,
        engine="warp",
        outcome=outcome,
        metrics=metrics,
        started_at=datetime.fromtimestamp(start_ns / NS_PER_S, UTC).isoformat(
            timespec="milliseconds"
        ),
        ramp_ns=0,
        runtime_ns=max(1, outcome.window_end_ns),
        facts={"s3_options": {"endpoints": hosts[1:]}} if len(hosts) > 1 else {},
        s3=place,
        params={"warp_options": unexpressed(flags)} if unexpressed(flags) else {},
        form=form,
    )


def _failure(outcome: RunOutcome) -> Failure | None:
    if any(total.operations for total in outcome.totals.values()):
        return None
    return Failure(
        message="warp completed no request", fix="read warp's messages of this run in raw/"
    )
