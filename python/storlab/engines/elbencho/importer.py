"""Importer of elbencho's result files: each READ, WRITE or mixed phase becomes a run."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storlab.base.errors import ResultError
from storlab.contracts.exchange import UNKNOWN_START, FileImporter, ImportedRun
from storlab.engines.elbencho.result import (
    ElbenchoFormatError,
    Phase,
    is_csv,
    is_json,
    read_csv,
    read_json,
)
from storlab.model.result import EngineInfo, Metric, OperationTotals, RunOutcome

_LOADS = re.compile(r"(?:READ|WRITE|(?:RW)?MIX\S*)")
_PATH_TYPES = ("file", "dir", "blockdev")
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
# Options that a run needs, with what a missing one counts as.
_DEFAULTS = {"random": "sequential", "IO depth": "1", "hosts": "1 client"}
_SECRETS = re.compile(r"(--s3(?:key|secret|sessiontoken)\W{1,8})[^\s\"\\,]+")


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
            ResultError: The file is damaged, or no phase reads or writes files or devices.
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
            raise ResultError(file, what, "give phases READ or WRITE of files or block devices")
        if others:
            runs[0].outcome.notes.append(f"not imported: {others}")
        return runs

    def suffix(self, text: str) -> str:
        """Return the file suffix for the copy that storlab keeps."""
        return ".json" if is_json(text) else ".csv"

    def cleaned(self, text: str) -> str:
        """Return the text without S3 credentials of the command line."""
        return _SECRETS.sub(r"\1REMOVED", text)


def _is_load(phase: Phase) -> bool:
    kind = phase.values.get("path type")
    return kind in _PATH_TYPES and _LOADS.fullmatch(phase.name) is not None


def _others(phases: list[Phase]) -> str:
    names = [f"{phase.name} of {phase.values.get('path type', '?')}" for phase in phases]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def _run(phase: Phase) -> ImportedRun:
    if phase.length_ns <= 0:
        raise ElbenchoFormatError("time ms [last]", f"is 0 in a phase {phase.name}: too short")
    is_mixed = phase.name not in ("READ", "WRITE")
    prefixes = {"read": _READS, "write": ""} if is_mixed else {phase.name.lower(): ""}
    notes = ["the window lasts until the last thread was done"]
    totals, metrics = {}, []
    exact = True
    for kind, prefix in prefixes.items():
        operations, moved, is_exact = phase.moved(prefix)
        exact = exact and is_exact
        totals[kind] = OperationTotals(operations=operations, bytes=moved)
        metrics += _latencies(phase, kind, prefix)
    if not exact:
        notes.append("elbencho's CSV has whole MiB and no number of operations: both are rounded")
    notes.append(
        "latencies are in whole us; elbencho's histograms, if any, are not imported"
        if metrics
        else "the file has no latencies (--lat)"
    )
    started_at, clock_notes = _started_at(phase)
    reads = totals["read"].operations if "read" in totals else 0
    count = sum(total.operations for total in totals.values())
    shape = {name: phase.values[name] for name in _SHAPE if phase.has(name)}
    if is_mixed:
        shape["phase"] = phase.name
    missing = {name: used for name, used in _DEFAULTS.items() if not phase.values.get(name)}
    if missing:
        notes.append(
            "the file lacks columns, so defaults are used: "
            + ", ".join(f"{name} ({used})" for name, used in missing.items())
        )
    places = _places(phase)
    hosts = phase.whole("hosts") if phase.has("hosts") else 1
    fields: dict[str, Any] = {
        "access": "random" if phase.is_on("random") else "sequential",
        "block_size": phase.io_bytes,
        "read_percent": _read_percent(phase.name, 100 * reads / count),
        "queue_depth": max(1, phase.whole("IO depth")) if phase.has("IO depth") else 1,
        "jobs": phase.whole("threads"),
    }
    return ImportedRun(
        kind="block",
        fields=fields,
        label=phase.values.get("label") or None,
        target=Path(places[0]).name or places[0] if places else "imported",
        locations=places,
        direct=phase.is_on("direct IO") if phase.has("direct IO") else None,
        engine="elbencho",
        outcome=RunOutcome(
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
            totals=totals,
            cpu=None,
            notes=[*notes, *clock_notes],
        ),
        metrics=metrics,
        started_at=started_at,
        ramp_ns=0,
        runtime_ns=phase.length_ns,
        clients=hosts if hosts > 1 else None,
        params={"elbencho_options": shape} if shape else {},
    )


def _read_percent(name: str, measured: float) -> float:
    """Return the percentage of reads: as requested if the phase's name has it, else as measured."""
    asked = re.fullmatch(r"RWMIX(\d+)", name)
    return float(asked[1]) if asked else round(measured, 1)


def _latencies(phase: Phase, kind: str, prefix: str) -> list[Metric]:
    names = {"mean": f"{prefix}IO lat us [avg]", "max": f"{prefix}IO lat us [max]"}
    return [
        Metric(
            name=f"latency_{name}_ns", value=1000 * phase.whole(column), unit="ns", operation=kind
        )
        for name, column in names.items()
        if phase.has(column)
    ]


def _places(phase: Phase) -> list[str]:
    """Return the paths in the command line; the other fields state only their number."""
    number = phase.whole("paths") if phase.has("paths") else 1
    try:
        words = shlex.split(phase.values.get("command", ""))[1:]
    except ValueError:
        return []
    options = [at for at, word in enumerate(words) if word.startswith("-")]
    first, last = (words, []) if not options else (words[: options[0]], words[options[-1] + 1 :])
    for places in (first, last[-number:]):
        if places and len(places) == number and all(place.startswith("/") for place in places):
            return places
    return []


def _started_at(phase: Phase) -> tuple[str, list[str]]:
    try:
        moment = datetime.fromisoformat(phase.values.get("ISO date", ""))
    except ValueError:
        return UNKNOWN_START, ["the file has no start time"]
    notes = [] if moment.tzinfo else ["the file has no time zone; UTC is assumed"]
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).isoformat(timespec="milliseconds"), notes
