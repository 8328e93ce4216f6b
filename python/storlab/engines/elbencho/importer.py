"""Importer of elbencho's result files: each phase of I/O or of S3 requests becomes a run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storlab.base.errors import ResultError
from storlab.base.units import MIB
from storlab.contracts.exchange import (
    UNKNOWN_START,
    UNKNOWN_STORE,
    FileImporter,
    ImportedRun,
    assumed_utc,
)
from storlab.engines.elbencho.result import (
    ElbenchoFormatError,
    Phase,
    is_csv,
    is_json,
    read_csv,
    read_json,
)
from storlab.model.result import EngineInfo, Metric, Operation, OperationTotals, RunOutcome
from storlab.model.s3 import LEAST_PART
from storlab.model.target import s3_address_problem

_BLOCK_PHASES = re.compile(r"(?:READ|WRITE|(?:RW)?MIX\S*)")
_BLOCK_TYPES = ("file", "dir", "blockdev")
_OBJECT_PHASES: dict[str, Operation] = {
    "WRITE": "put",
    "READ": "get",
    "HEADOBJ": "head",
    "STAT": "head",
    "RMOBJECTS": "delete",
    "RMFILES": "delete",
}
_OBJECT_TYPE = "bucket"  # not "object": with that type, threads share one object
_MIXED = re.compile(r"(?:RW)?MIX\S*")
_READS = "rwmix read "
# Options that shape the load and have no field in a study.
_SHAPE = (
    "path type",
    "dirs",
    "files",
    "file size",
    "random aligned",
    "shared paths",
    "truncate",
)
_OBJECT_SHAPE = ("dirs", "files", "block size", "IO depth")
# Values of options that a file may lack, by column.
_DEFAULTS = {"random": "sequential", "IO depth": "1", "hosts": "1 client"}
_SECRETS = re.compile(r"(--s3(?:key|secret|sessiontoken)\W{1,8})[^\s\"\\,]+")
_ENDPOINT = re.compile(r"--s3endpoints[\"= ]{1,3}([^\s\",]+)")
_PERCENTS = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


class ElbenchoImport(FileImporter):
    """Importer of elbencho's CSV (``--csvfile``) and JSON (``--jsonfile``)."""

    name = "elbencho"
    hint = "the file of `elbencho --csvfile` or `--jsonfile`"

    def matches(self, text: str) -> bool:
        """Return whether a text is CSV or JSON of elbencho."""
        return is_json(text) or is_csv(text)

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Parse the phases of a file into runs; other phases are named in a note.

        Raises:
            ResultError: The file is damaged, or has no phase to import.
        """
        try:
            phases = [read_json(text)] if is_json(text) else list(read_csv(text))
            runs = [_run(phase) for phase in phases if _is_load(phase)]
        except ElbenchoFormatError as error:
            fix = "give the unchanged file of `elbencho --csvfile` or `--jsonfile`"
            raise ResultError(f"{file}: {error.field}", error.what, fix) from error
        others = _others([phase for phase in phases if not _is_load(phase)])
        if not runs:
            what = f"has no phase that storlab imports, but {others or 'no row'}"
            fix = "give phases READ or WRITE of files, block devices or S3 objects"
            raise ResultError(file, what, fix)
        if others:
            runs[0].outcome.notes.append(f"not imported: {others}")
        return runs

    def suffix(self, text: str) -> str:
        """Return the suffix of the copy of the file in the result directory."""
        return ".json" if is_json(text) else ".csv"

    def cleaned(self, text: str) -> str:
        """Return the text without S3 credentials of the command line."""
        return _SECRETS.sub(r"\1REMOVED", text)


def _is_load(phase: Phase) -> bool:
    kind = phase.values.get("path type")
    if kind == _OBJECT_TYPE:
        return phase.name in _OBJECT_PHASES or _MIXED.fullmatch(phase.name) is not None
    return kind in _BLOCK_TYPES and _BLOCK_PHASES.fullmatch(phase.name) is not None


def _others(phases: list[Phase]) -> str:
    names = [f"{phase.name} of {phase.values.get('path type', '?')}" for phase in phases]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def _run(phase: Phase) -> ImportedRun:
    if phase.length_ns <= 0:
        raise ElbenchoFormatError("time ms [last]", f"is 0 in a phase {phase.name}: too short")
    return _object_run(phase) if phase.values["path type"] == _OBJECT_TYPE else _block_run(phase)


def _block_run(phase: Phase) -> ImportedRun:
    is_mixed = phase.name not in ("READ", "WRITE")
    prefixes = {"read": _READS, "write": ""} if is_mixed else {phase.name.lower(): ""}
    notes = []
    totals, metrics = {}, []
    exact = True
    for kind, prefix in prefixes.items():
        operations, moved, is_exact = phase.moved(prefix)
        exact = exact and is_exact
        totals[kind] = OperationTotals(operations=operations, bytes=moved)
        metrics += _latencies(phase, kind, f"{prefix}IO")
    if not exact:
        notes.append(
            "bytes and operations may be rounded: elbencho prints no number of operations, and "
            "its CSV has whole MiB"
        )
    reads = totals["read"].operations if "read" in totals else 0
    count = sum(total.operations for total in totals.values())
    missing = {name: used for name, used in _DEFAULTS.items() if not phase.values.get(name)}
    if missing:
        notes.append(
            "the file lacks columns, so defaults are used: "
            + ", ".join(f"{name} ({used})" for name, used in missing.items())
        )
    places = _places(phase)
    fields: dict[str, Any] = {
        "access": "random" if phase.is_on("random") else "sequential",
        "block_size": phase.io_bytes,
        "read_percent": _read_percent(phase.name, 100 * reads / count),
        "queue_depth": max(1, phase.whole("IO depth")) if phase.has("IO depth") else 1,
        "jobs": phase.whole("threads"),
    }
    return _imported(
        phase,
        kind="block",
        fields=fields,
        shape=_SHAPE,
        target=Path(places[0]).name or places[0] if places else "imported",
        locations=places,
        direct=phase.is_on("direct IO") if phase.has("direct IO") else None,
        outcome=_outcome(phase, totals, metrics, notes),
        metrics=metrics,
    )


def _object_run(phase: Phase) -> ImportedRun:
    """Convert a phase of S3 requests to a run; operations and latencies are of whole objects."""
    is_mixed = phase.name not in _OBJECT_PHASES
    prefixes = {"get": _READS, "put": ""} if is_mixed else {_OBJECT_PHASES[phase.name]: ""}
    size, part = (phase.whole(n) if phase.has(n) else 0 for n in ("file size", "block size"))
    totals, metrics, notes = {}, [], []
    for kind, prefix in prefixes.items():
        entries = phase.whole(f"{prefix}entries [last]")
        moved = phase.moved(prefix)[1] if kind in ("get", "put") else 0
        if abs(moved - entries * size) < MIB:  # CSV has whole MiB
            moved = entries * size if kind in ("get", "put") else 0
        totals[kind] = OperationTotals(operations=entries, bytes=moved)
        metrics += _latencies(phase, kind, f"{prefix}Ent")
    gets = totals["get"].operations if "get" in totals else 0
    count = sum(total.operations for total in totals.values())
    if not count:
        raise ElbenchoFormatError("entries [last]", f"is 0 in a phase {phase.name}: too short")
    fields: dict[str, Any] = {
        "get_percent": _read_percent(phase.name, 100 * gets / count),
        "concurrency": phase.whole("threads"),
    }
    fields |= {f"{kind}_percent": 100.0 for kind in totals if kind in ("head", "delete")}
    if size:
        fields["object_size"] = size
    if "put" not in totals:
        fields["objects"] = count
    elif LEAST_PART <= part < size:
        fields["part_size"] = part
    if gets and 0 < part < size:
        notes.append("each GET is one object, which elbencho read in several ranges")
    place, bucket = _store(phase)
    shape = _OBJECT_SHAPE if part < size or "IO depth" in phase.values else _OBJECT_SHAPE[:2]
    return _imported(
        phase,
        kind="object",
        fields=fields,
        shape=shape,
        target=bucket,
        locations=[],
        direct=False,
        outcome=_outcome(phase, totals, metrics, notes),
        metrics=metrics,
        s3=place,
    )


def _imported(phase: Phase, *, shape: Sequence[str], **parts: Any) -> ImportedRun:
    started_at, clock_notes = _started_at(phase)
    options = {name: phase.values[name] for name in shape if phase.has(name)}
    if _MIXED.fullmatch(phase.name):
        options["phase"] = phase.name
    hosts = phase.whole("hosts") if phase.has("hosts") else 1
    run = ImportedRun(
        label=phase.values.get("label") or None,
        engine="elbencho",
        started_at=started_at,
        ramp_ns=0,
        runtime_ns=phase.length_ns,
        clients=hosts if hosts > 1 else None,
        params={"elbencho_options": options} if options else {},
        **parts,
    )
    run.outcome.notes += clock_notes
    return run


def _outcome(
    phase: Phase,
    totals: Mapping[Operation, OperationTotals],
    metrics: Sequence[Metric],
    notes: Sequence[str],
) -> RunOutcome:
    bounds = [m for m in metrics if m.name not in ("latency_mean_ns", "latency_max_ns")]
    about = "the file has no latencies (--lat)"
    if bounds:
        about = "percentiles are upper bounds: the buckets of elbencho's histograms are 19 % wide"
    elif metrics:
        about = "latencies are in whole us; the file has no percentiles (--lathisto with JSON)"
    return RunOutcome(
        status="finished",
        engine=EngineInfo(
            name="elbencho",
            version=phase.values.get("version") or "unknown",
            features=[],
            clock="wall",
        ),
        window_start_ns=0,
        window_end_ns=phase.length_ns,
        samples=[],
        totals=dict(totals),
        cpu=None,
        notes=[*_window_notes(phase), *notes, about],
    )


def _window_notes(phase: Phase) -> list[str]:
    """Return notes on the window, and on the rate until the fastest thread was done."""
    notes = ["the window lasts until the last thread was done"]
    rate = None
    if phase.has("MiB/s [first]"):
        rate = phase.whole("MiB/s [first]")
    elif phase.has("bytes/s [first]"):
        rate = round(phase.whole("bytes/s [first]") / MIB)
    if rate is not None and phase.has("time ms [first]"):
        first_s = phase.whole("time ms [first]") / 1000
        notes.append(f"until the first thread was done ({first_s:g} s), it was {rate:,} MiB/s")
    return notes


def _read_percent(name: str, measured: float) -> float:
    """Return the percentage of reads: as requested if the phase's name has it, else as measured."""
    asked = re.fullmatch(r"RWMIX(\d+)", name)
    return float(asked[1]) if asked else round(measured, 1)


def _latencies(phase: Phase, kind: Operation, column: str) -> list[Metric]:
    """Return mean, maximum and upper bounds of percentiles of the latencies of ``column``."""
    names = {"mean": f"{column} lat us [avg]", "max": f"{column} lat us [max]"}
    values = {
        name: 1000.0 * phase.whole(place) for name, place in names.items() if phase.has(place)
    }
    longest = values.get("max")
    for name, percent in _PERCENTS.items():
        bound = phase.percentile_us(column, percent)
        if bound is not None and longest is not None:
            values[name] = min(1000 * bound, longest)
    return [
        Metric(name=f"latency_{name}_ns", value=value, unit="ns", operation=kind)
        for name, value in values.items()
    ]


def _places(phase: Phase) -> list[str]:
    """Return the paths in the command line; other columns have only their number."""
    for places in _possible_paths(phase):
        if all(place.startswith("/") for place in places):
            return places
    return []


def _store(phase: Phase) -> tuple[str, str]:
    """Return the address of endpoint and bucket in the command line, and a name for them."""
    found = _ENDPOINT.search(phase.values.get("command", ""))
    buckets = next(iter(_possible_paths(phase)), [])
    if found and buckets:
        bucket = buckets[0].removeprefix("s3://").partition("/")[0]
        endpoint = found[1] if "://" in found[1] else f"http://{found[1]}"
        place = f"{endpoint.rstrip('/')}/{bucket}"
        if s3_address_problem(place) is None:
            return place, urlsplit(place).netloc + urlsplit(place).path
    return UNKNOWN_STORE, "imported"


def _possible_paths(phase: Phase) -> list[list[str]]:
    """Return the lists of words in the command line that may be the phase's paths.

    These are the words before the first option, if they are as many as the paths, and as many last
    words after the last option. Words before these may be that option's value.
    """
    number = phase.whole("paths") if phase.has("paths") else 1
    try:
        words = shlex.split(phase.values.get("command", ""))[1:]
    except ValueError:
        return []
    options = [at for at, word in enumerate(words) if word.startswith("-")]
    first, last = (words, []) if not options else (words[: options[0]], words[options[-1] + 1 :])
    return [places for places in (first, last[-number:]) if places and len(places) == number]


def _started_at(phase: Phase) -> tuple[str, list[str]]:
    try:
        moment = datetime.fromisoformat(phase.values.get("ISO date", ""))
    except ValueError:
        return UNKNOWN_START, ["the file has no start time"]
    if moment.tzinfo is None:
        return assumed_utc(moment)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds"), []
