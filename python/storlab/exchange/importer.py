"""Import result files of other tools into a result directory."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ValidationError

from storlab._native import Histogram
from storlab.base.errors import ResultError, UsageError
from storlab.contracts.exchange import ImportedRun
from storlab.contracts.registry import FAMILIES, study_class
from storlab.exchange.sources import ImportedFile, read_path
from storlab.exchange.targets import told_apart
from storlab.lab.run.records import Stated, completed_record
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import RunOutcome, RunRecord
from storlab.model.study import StudyBase
from storlab.results.store import ResultStore

NO_COUNTERS = "the imported file carries no device counters"


@dataclass(frozen=True, slots=True)
class _Source:
    """One run of an imported file, with the file."""

    file: ImportedFile
    run: ImportedRun


def import_files(
    paths: Sequence[Path], directory: Path, target: str | None = None, name: str | None = None
) -> ResultStore:
    """Create a result directory from the runs in these files.

    Runs of the same target with the same parameters become repeats of one point, in the given
    order.

    Args:
        paths: Result files or directories of other tools.
        directory: Result directory to create.
        target: Target name for all runs. By default each file states its target; if several
            locations have the same name there, each gets its own.
        name: Name of the study; by default derived from the file name.

    Returns:
        The store of the new result directory.

    Raises:
        UsageError: No path is given.
        ResultError: A file cannot be read or is given twice; nothing is written.
    """
    if not paths:
        raise UsageError("FILE", "no file to import is given", "give at least one file")
    files = [file for path in paths for file in read_path(path)]
    _refuse_twice(files)
    sources = [_Source(file, run) for file in files for run in file.runs]
    runs = _with_target([source.run for source in sources], target)
    sources = [replace(source, run=run) for source, run in zip(sources, runs, strict=True)]
    text, study = _study(name or _title(paths), sources)
    points = _points(study, sources)
    store = ResultStore.create(directory, text, study, _plan(text, study, points), _about(sources))
    for (point, repeat), source in zip(points, sources, strict=True):
        record = _record(study, point, repeat, source)
        raw = {source.file.name: source.file.content, **source.file.others}
        store.write_run(record, source.run.outcome.samples, raw)
    return store


def _refuse_twice(files: Sequence[ImportedFile]) -> None:
    """Check that no two files have the same content, which would wrongly count as a repeat.

    Raises:
        ResultError: Two files have the same content.
    """
    first: dict[str, Path] = {}
    for file in files:
        other = first.get(file.sha256)
        if other is not None:
            same = "is given twice" if other == file.path else f"has the same content as {other}"
            fix = "give each result once, because the same file twice is not a repeat"
            raise ResultError(str(file.path), same, fix)
        first[file.sha256] = file.path


def _title(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"import of {paths[0].name}{more}"


def _with_target(runs: Sequence[ImportedRun], target: str | None) -> list[ImportedRun]:
    return told_apart(runs) if target is None else [replace(run, target=target) for run in runs]


def _study(title: str, sources: Sequence[_Source]) -> tuple[str, StudyBase]:
    """Return a study, as TOML text and as model, whose workload points are the imported ones."""
    first = sources[0].run
    header = {
        "name": title,
        "repeats": 1,
        "ramp": f"{first.ramp_ns}ns",
        "runtime": f"{first.runtime_ns}ns",
    }
    seen: dict[str, ImportedRun] = {}
    for run in sorted((source.run for source in sources), key=lambda run: run.direct is None):
        seen.setdefault(run.target, run)  # prefer runs that state whether they used direct I/O
    document = {
        "study": header,
        "target": [_given(_target(run)) for run in seen.values()],
        "workload": [
            _given(
                {
                    "kind": run.kind,
                    "name": run.label,
                    "engine": run.engine,
                    **run.fields,
                    "targets": [run.target],
                }
            )
            for run in _distinct(sources)
        ],
    }
    text = "# written by `storlab import`\n" + tomlkit.dumps(document)
    try:
        return text, study_class().model_validate(tomllib.loads(text))
    except ValidationError as error:
        first_error = error.errors()[0]
        where = ".".join(str(part) for part in first_error["loc"])
        raise ResultError(
            f"{sources[0].file.path}: {where}",
            f"storlab's study cannot express this option of the imported job: {first_error['msg']}",
            "report it as a defect of storlab, with the file's job options",
        ) from error


def _target(run: ImportedRun) -> dict[str, Any]:
    table: dict[str, Any] = {"name": run.target, **run.facts}
    if run.s3 is not None:
        return {**table, "s3": run.s3}
    places = run.locations or ["imported"]
    if FAMILIES[run.kind].places == ("directory",):
        table["directory"] = places[0]
    elif len(places) == 1:
        table["path"] = places[0]
    else:
        table["paths"] = places
    return {**table, "direct": bool(run.direct)}


def _given(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _distinct(sources: Sequence[_Source]) -> list[ImportedRun]:
    distinct: dict[str, ImportedRun] = {}
    for source in sources:
        distinct.setdefault(_identity(source.run), source.run)
    return list(distinct.values())


def _identity(run: ImportedRun) -> str:
    parts = [run.target, run.kind, run.label, run.engine, run.fields, run.params, run.clients]
    return json.dumps(parts, sort_keys=True, default=str)


def _points(study: StudyBase, sources: Sequence[_Source]) -> list[tuple[Point, int]]:
    """Return the workload point and the repeat number of each imported run, in the given order."""
    by_identity: dict[str, Point] = {}
    for index, run in enumerate(_distinct(sources)):
        workload = study.workload[index]
        by_identity[_identity(run)] = Point(
            target=run.target,
            workload=workload.label,
            workload_index=index,
            kind=run.kind,
            engine=run.engine,
            params={**workload.values()[0], **run.params},
            clients=run.clients,
        )
    repeats: dict[str, int] = {}
    points = []
    for source in sources:
        point = by_identity[_identity(source.run)]
        repeats[point.point_id] = repeats.get(point.point_id, 0) + 1
        points.append((point, repeats[point.point_id]))
    return points


def _plan(text: str, study: StudyBase, points: Sequence[tuple[Point, int]]) -> Plan:
    return Plan(
        study_name=study.study.name,
        study_sha256=hashlib.sha256(text.encode()).hexdigest(),
        points={point.point_id: point for point, _ in points},
        runs=[
            PlannedRun(order=order, repeat=repeat, point_id=point.point_id)
            for order, (point, repeat) in enumerate(points)
        ],
        estimated_ns=0,
        bytes_written=0,
        notes=["imported: these runs were measured elsewhere, and cannot be resumed"],
    )


def _about(sources: Sequence[_Source]) -> dict[str, Any]:
    files = {str(s.file.path): {"name": s.file.path.name, "sha256": s.file.sha256} for s in sources}
    return {
        "imported": {
            "files": list(files.values()),
            "engines": sorted({f"{_engine_text(s.run)}" for s in sources}),
            "note": "host, kernel and drives of these runs are not known",
        }
    }


def _engine_text(run: ImportedRun) -> str:
    return f"{run.outcome.engine.name} {run.outcome.engine.version}"


def _record(study: StudyBase, point: Point, repeat: int, source: _Source) -> RunRecord:
    run, outcome = source.run, source.run.outcome
    if run.s3 is None:
        outcome.details.setdefault("medium", {"unknown": [NO_COUNTERS]})
        outcome.details.setdefault("page_cache_unknown", run.direct is None)
    stated = Stated(bool(run.direct), run.metrics, _has_histograms(outcome), run.provenance)
    planned = PlannedRun(order=0, repeat=repeat, point_id=point.point_id)
    record = completed_record(planned, point, study, run.started_at, outcome, stated=stated)
    notes = [*record.notes, f"imported from {source.file.path.name}"]
    return record.model_copy(update={"notes": notes})


def _has_histograms(outcome: RunOutcome) -> bool:
    """Return whether every operation with a total latency also has histograms in the samples."""
    filled = {s.operation for s in outcome.samples if Histogram.from_v2(s.latency).count}
    return all(kind in filled for kind, t in outcome.totals.items() if t.latency is not None)
