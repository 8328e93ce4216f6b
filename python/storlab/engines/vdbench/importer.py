"""Importer of vdbench's reports: each run definition, with each value of its loops, is a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

from storlab.base.errors import ResultError
from storlab.base.files import read_input
from storlab.base.units import GIB, MIB, NS_PER_S, binary_size
from storlab.contracts.exchange import UNKNOWN_START, FileImporter, ImportedRun, assumed_utc
from storlab.engines.vdbench.counts import KINDS, Counts, count
from storlab.engines.vdbench.parameters import Load, Parameters, load_of, read_parameters
from storlab.engines.vdbench.result import (
    Report,
    Row,
    VdbenchFormatError,
    form_of,
    is_flatfile,
    is_printed,
    number,
    read_reports,
    version_in,
)
from storlab.model.result import EngineInfo, Metric, RunOutcome

_FLAT, _SUMMARY, _TOTALS, _LOG = "flatfile.html", "summary.html", "totals.html", "logfile.html"
_PARAMETERS = ("parmfile.html", "parmscan.html")
_FILES = (_FLAT, _SUMMARY, _TOTALS, _LOG, *_PARAMETERS)
_HEAD_BYTES = 2_000
_NO_LIMIT = (9_999_977, 9_999_988)  # rates that stand for "curve" and "max"
_PREPARING = ("SD_format", "format_for_")
_FIX = "give the unchanged output directory of vdbench, or its flatfile.html or summary.html"


class VdbenchImport(FileImporter):
    """Importer of single reports of vdbench: flatfile, summary, totals, log, console output."""

    name = "vdbench"
    hint = "flatfile.html, summary.html, or what vdbench printed"

    def matches(self, text: str) -> bool:
        """Return whether a text is a report on whole runs of vdbench."""
        return is_flatfile(text) or is_printed(text)

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Parse the runs of a report; a note names those that are not imported.

        Raises:
            ResultError: The report is damaged, or has no run to import.
        """
        try:
            runs = _runs(read_reports(text), None, version_in(text))
        except VdbenchFormatError as error:
            raise ResultError(f"{file}: {error.field}", error.what, _FIX) from error
        return [replace(run, form=form_of(text)) for run in runs]


class VdbenchDirectoryImport:
    """Importer of vdbench's output directories, with the parameters of their runs.

    Implements ``storlab.contracts.exchange.DirectoryImporter``.
    """

    name = "vdbench"
    names_targets = False

    def directories(self, place: Path) -> list[Path]:
        """Return the output directories at or below ``place``, sorted by path."""
        found = []
        for folder, folders, names in os.walk(place):
            folders[:] = [name for name in folders if not name.startswith(".")]
            here = Path(folder)
            if any(name in names and _is_report(here / name) for name in (_FLAT, _SUMMARY)):
                found.append(here)
        return sorted(found)

    def files(self, directory: Path) -> dict[str, bytes]:
        """Return the content of a directory's reports and parameters by name.

        Raises OSError if a file is unreadable.
        """
        return {
            name: read_input(directory / name) for name in _FILES if (directory / name).is_file()
        }

    def read(self, directory: Path, files: dict[str, bytes]) -> list[ImportedRun]:
        """Return the runs of the flatfile or, without one, of the summary, log or totals.

        Raises:
            ResultError: A report is damaged, or has no run to import.
        """
        texts = {name: content.decode("utf-8", "replace") for name, content in files.items()}
        printed = texts.get(_SUMMARY) or texts.get(_LOG) or texts.get(_TOTALS) or ""
        parameters = next((texts[name] for name in _PARAMETERS if texts.get(name)), None)
        try:
            reports = read_reports(printed) if is_printed(printed) else []
            if is_flatfile(texts.get(_FLAT, "")):
                reports = _with_starts(read_reports(texts[_FLAT]), reports)
            known = None if parameters is None else read_parameters(parameters)
            return _runs(reports, known, version_in(texts.get(_LOG, "")))
        except VdbenchFormatError as error:
            raise ResultError(f"{directory}: {error.field}", error.what, _FIX) from error


def _is_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES).lower()
    except OSError:
        return False
    return b"vdbench" in head


def _with_starts(flat: Sequence[Report], printed: Sequence[Report]) -> list[Report]:
    """Add start, date and loops from the summary to the runs of the flatfile.

    If the two do not list the same runs in the same order, the flatfile is used alone.
    """
    begun = [report for report in printed if report.intervals or report.averages]
    if [report.name for report in flat] != [report.name for report in begun]:
        return list(flat)
    return [
        replace(
            report,
            starting=other.starting,
            second=other.second,
            day=other.day or report.day,
            utc_offset=other.utc_offset,
        )
        for report, other in zip(flat, begun, strict=True)
    ]


def _runs(
    reports: Sequence[Report], parameters: Parameters | None, version: str
) -> list[ImportedRun]:
    runs, left_out = [], []
    for report in reports:
        if report.name.startswith(_PREPARING):
            left_out.append(f"{report.name} (it only prepares the files)")
        elif report.averages is None:
            left_out.append(f"{report.name} (it did not end: there are no averages)")
        elif not _moves_data(report.averages):
            left_out.append(f"{report.name} (no reads or writes: storlab has no other workload)")
        else:
            runs.append(_run(report, parameters, version))
    names = ", ".join(dict.fromkeys(left_out))
    if not runs:
        only = f": there is only {names}" if names else ""
        raise VdbenchFormatError("runs", f"are missing{only}")
    if left_out:
        runs[0].outcome.notes.append(f"not imported: {names}")
    return runs


def _moves_data(average: Row) -> bool:
    names = ("read_rate", "write_rate") if average.is_file_system else ("rate",)
    return any(average.values[name].middle > 0 for name in names if name in average.values)


def _run(report: Report, parameters: Parameters | None, version: str) -> ImportedRun:
    counts = count(report)
    load = None if parameters is None else load_of(parameters, report.name, report.loops)
    fields, params, notes = _fields(report, counts, load)
    started_at, clock_notes = _started_at(report)
    hosts, jobs = load.hosts if load else 1, fields["jobs"]
    clients = hosts if hosts > 1 and jobs % hosts == 0 else None
    if clients is not None:
        fields["jobs"] = jobs // hosts
    elif hosts > 1:
        params["hosts"] = str(hosts)
    locations = load.locations if load else []
    size = _target_size(report, load)
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="vdbench", version=version, features=[], clock="wall"),
        window_start_ns=0,
        window_end_ns=counts.length_ns,
        samples=counts.samples,
        totals=counts.totals,
        cpu=None,
        notes=[
            "vdbench prints no percentiles; its histograms and standard deviations are not "
            "imported",
            *notes,
            *counts.notes,
            *_other_notes(report.average),
            *clock_notes,
        ],
    )
    more = f" and {len(locations) - 1} more" if len(locations) > 1 else ""
    return ImportedRun(
        kind="block",
        fields=fields,
        label=report.name,
        target=(Path(locations[0]).name or locations[0]) + more if locations else "imported",
        locations=locations,
        direct=load.direct if load else None,
        engine="vdbench",
        outcome=outcome,
        metrics=_metrics(report.average, counts),
        started_at=started_at,
        ramp_ns=(report.average.first - 1) * report.interval_s * NS_PER_S,
        runtime_ns=counts.length_ns,
        clients=clients,
        facts={"size": size} if size else {},
        params={"vdbench_options": params} if params else {},
        zone_assumed=report.utc_offset is None,
    )


def _fields(
    report: Report, counts: Counts, load: Load | None
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the fields of the workload, options without a field, and notes."""
    params = dict(load.unexpressed) if load else {}
    notes: list[str] = []
    if load is None:
        notes.append(
            "the parameters of the run are not known: give vdbench's whole output directory, with "
            "parmfile.html"
        )
        params |= {
            name: report.columns[name]
            for name in ("rhpct", "whpct", "compratio", "dedupratio")
            if report.setting(name) not in (None, float(name in _RATIOS))
        }
    fields: dict[str, Any] = {
        "access": _access(report, load, params, notes),
        "block_size": _block_size(report, counts, load, params, notes),
        "read_percent": _read_percent(report, counts, load),
        "queue_depth": 1,
        "jobs": _jobs(report, load, notes),
    }
    rate = _rate(report)
    if rate and report.average.is_file_system:
        params["fwdrate"] = f"{rate:g}"
        notes.append(
            f"fwdrate limited vdbench to {rate:g} file operations per second, so the target may "
            "reach more"
        )
    elif rate:
        fields["rate_iops"] = rate
        arrival = load.arrival if load else "poisson"
        if arrival:
            fields["arrival"] = arrival
    return fields, params, notes


_RATIOS = ("compratio", "dedupratio")  # their default is 1; that of percentages is 0


def _access(report: Report, load: Load | None, params: dict[str, str], notes: list[str]) -> str:
    seeks = load.seeks if load else set()
    if not seeks and (seek := report.setting("seekpct")) is not None:
        seeks = {max(0.0, seek)}
    if not seeks:
        notes.append("seekpct is not in the file: random access, the default, is assumed")
    if seeks == {0.0}:
        return "sequential"
    if seeks - {100.0}:
        params["seekpct"] = "; ".join(f"{seek:g}" for seek in sorted(seeks))
        notes.append("sequential and random access are mixed (seekpct): recorded as random")
    return "random"


def _block_size(
    report: Report,
    counts: Counts,
    load: Load | None,
    params: dict[str, str],
    notes: list[str],
) -> int | dict[str, float]:
    moved = sum(total.bytes for total in counts.totals.values())
    mean = moved / sum(total.operations for total in counts.totals.values())
    asked = load.xfersizes if load else []
    if not asked and (text := report.columns.get("xfersize")):
        asked = [[text]]
    sizes = [[binary_size(text) or 0 for text in values] for values in asked]
    if len(sizes) == 1 and len(sizes[0]) == 1 and abs(mean / max(1, sizes[0][0]) - 1) < 0.01:
        return sizes[0][0]  # the last operation of a file may be shorter
    if len(sizes) == 1 and len(sizes[0]) > 3 and len(sizes[0]) % 2 == 0:
        weights = {
            f"{size}B": number(share, f"{report.name}: xfersize")
            for size, share in zip(sizes[0][::2], asked[0][1::2], strict=True)
        }
        expected = sum(size * w for size, w in zip(sizes[0][::2], weights.values(), strict=True))
        if abs(mean * sum(weights.values()) / expected - 1) < 0.05:
            return weights
    if counts.size is not None:
        return counts.size
    if asked and load:
        params["xfersize"] = "; ".join(",".join(values) for values in asked)
    notes.append("operations have several sizes: block_size is their mean")
    return max(1, round(mean))


def _read_percent(report: Report, counts: Counts, load: Load | None) -> float:
    """Return the percentage of reads: as requested, or as measured if workloads differ."""
    if load is not None and len(load.read_percents) == 1:
        return next(iter(load.read_percents))
    if load is None and (percent := report.setting("rdpct")) is not None:
        return percent
    reads = counts.totals["read"].operations if "read" in counts.totals else 0
    return round(100 * reads / sum(t.operations for t in counts.totals.values()), 1)


def _jobs(report: Report, load: Load | None, notes: list[str]) -> int:
    """Return the number of threads over all devices; each has one operation in flight."""
    if load is not None:
        return load.threads
    values = report.average.values
    depth = values["depth"].middle if "depth" in values else 0.0
    if report.average.is_file_system:
        depth = sum(
            values[f"{kind}_rate"].middle * values[f"{kind}_resp"].middle / 1000
            for kind in KINDS
            if f"{kind}_rate" in values and f"{kind}_resp" in values
        )
    text = report.columns.get("threads", report.loops.get("threads", ""))
    threads = round(float(text)) if text.replace(".", "", 1).isdigit() else 0
    if threads > 0:
        devices = max(1, round(depth / threads))
        notes.append(
            f"vdbench had {threads} threads per device; the number of devices is not in the file, "
            f"and {devices} is estimated from {depth:.3g} operations in flight"
        )
        return threads * devices
    notes.append(f"threads are estimated from {depth:.3g} operations in flight")
    return max(1, round(depth))


def _rate(report: Report) -> float | None:
    """Return the requested operations per second; None if they were not limited."""
    text = report.rate
    rate = float(text) if text.replace(".", "", 1).isdigit() else 0.0
    return rate if rate > 0 and rate not in _NO_LIMIT else None


def _target_size(report: Report, load: Load | None) -> int | None:
    if load is not None and load.size:
        return load.size
    # The flatfile has four decimals of GiB, which are a tenth of a MiB.
    return round((report.setting("lunsize") or 0) * GIB / MIB) * MIB or None


def _metrics(average: Row, counts: Counts) -> list[Metric]:
    """Return the longest response times, and the mean over reads and writes together."""
    values = average.values
    longest = {
        kind: values[name].middle
        for kind in counts.totals
        for name in (f"{kind}_max", f"{kind}_resp_max")
        if name in values
    }
    if len(counts.totals) == 1 and not longest and "max" in values:
        longest = {next(iter(counts.totals)): values["max"].middle}
    if "max" in values and not average.is_file_system:
        longest["all"] = values["max"].middle
    elif longest and len(longest) == len(counts.totals):
        longest["all"] = max(longest.values())
    metrics = [
        Metric(name="latency_max_ns", value=ms * 1e6, unit="ns", operation=kind)
        for kind, ms in longest.items()
        if ms > 0
    ]
    if not average.is_file_system and "resp" in values and values["resp"].middle > 0:
        mean_ns = values["resp"].middle * 1e6
        metrics.append(Metric(name="latency_mean_ns", value=mean_ns, unit="ns"))
    return metrics


def _other_notes(average: Row) -> list[str]:
    """Return a note on operations of files other than reads and writes; none without them."""
    others = sorted(
        name.removesuffix("_rate")
        for name, value in average.values.items()
        if name.endswith("_rate") and name not in ("read_rate", "write_rate") and value.middle > 0
    )
    if not others:
        return []
    return [f"not imported, because storlab has no workload for them: {', '.join(others)} of files"]


def _started_at(report: Report) -> tuple[str, list[str]]:
    moment = report.started()
    if moment is None:
        return UNKNOWN_START, ["the file has no start time"]
    if report.utc_offset is None:
        return assumed_utc(moment)
    zoned = (moment - report.utc_offset).replace(tzinfo=UTC)
    return zoned.isoformat(timespec="milliseconds"), []
