"""Import result files of other tools into a result directory."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import tomlkit
from pydantic import ValidationError

from storlab._native import Histogram
from storlab.base.errors import ResultError, UsageError
from storlab.base.units import NS_PER_S
from storlab.contracts.exchange import ImportedRun
from storlab.contracts.registry import FAMILIES, study_class
from storlab.exchange.import_report import IMPORTED_FROM
from storlab.exchange.input_files import InputFinder
from storlab.exchange.same_runs import same_runs
from storlab.exchange.sources import ImportedFile, SourceReader, Sources
from storlab.exchange.targets import LocatedRun, named_targets
from storlab.lab.run.records import Stated, completed_record
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import RunOutcome, RunRecord
from storlab.model.samples import merged
from storlab.model.study import StudyBase
from storlab.results.consistency import contradiction
from storlab.results.store import ResultStore

NO_COUNTERS = "the imported file has no device counters"
_LONGEST_RUNTIME_NS = 900_000 * NS_PER_S
"""Limit of the runtime in the study, because jobs that run until stopped have a huge runtime."""
_MOST_REASONS = 10  # files that an error message names if nothing was imported
_CONTRADICTS = "give the unchanged output of the tool, or measure again"
_REPORT = "report it as a defect of storlab, with the file's job options"


@dataclass(frozen=True, slots=True)
class _Source:
    """One run of an imported file, with the file and the run's index in it."""

    file: ImportedFile
    index: int
    run: ImportedRun


@dataclass(frozen=True, slots=True)
class _Import:
    """Content of the result directory: sources, study, points and records of all runs."""

    sources: Sequence[_Source]
    text: str
    study: StudyBase
    points: list[tuple[Point, int]]
    records: list[RunRecord]


class _UnfitRunsError(Exception):
    """Error: runs cannot be stored; ``errors`` maps their index in the import to the reason."""

    def __init__(self, errors: dict[int, ResultError]) -> None:
        super().__init__()
        self.errors = errors


def import_files(
    paths: Sequence[Path],
    directory: Path,
    target: str | Sequence[str] | None = None,
    name: str | None = None,
) -> ResultStore:
    """Create a result directory from the runs in these files, directories, globs and archives.

    Runs of the same target with the same parameters become repeats of one point, in the given
    order. Files that are not results or cannot be imported are left out, and listed with the reason
    in the environment of the result directory.

    Args:
        paths: Result files or directories of other tools, globs, or archives.
        directory: Result directory to create.
        target: Target name for all runs, or any number of ``NAME=GLOB``, each for matching files.
            By default, names follow from the files, and are extended if different targets would
            have the same name.
        name: Name of the study; by default derived from the file name.

    Returns:
        The store of the new result directory.

    Raises:
        UsageError: No path is given, or the target's option is wrong.
        ResultError: A path does not exist, nothing can be imported, or a file is given twice; then
            nothing is written.
    """
    if not paths:
        raise UsageError("FILE", "no file to import is given", "give at least one file")
    with InputFinder() as finder:
        read = SourceReader().read(finder.find(paths))
        imported = _import(paths, read, target, name)
        plan = _plan(imported.text, imported.study, imported.points)
        about = _about(imported.sources, read)
        store = ResultStore.create(directory, imported.text, imported.study, plan, about)
        for record, source in zip(imported.records, imported.sources, strict=True):
            raw = source.file.raw(source.index)
            store.write_run(record, source.run.outcome.samples, raw)
    return store


def _import(
    paths: Sequence[Path], read: Sources, target: str | Sequence[str] | None, name: str | None
) -> _Import:
    """Build study and records of all runs, except those that cannot be stored.

    The outcomes of the files of such runs are corrected.

    Raises:
        ResultError: There is no run, or none can be stored.
    """
    sources = _without_same_runs(
        read,
        [_Source(file, index, run) for file in read.files for index, run in enumerate(file.runs)],
    )
    while sources:
        located = [LocatedRun(s.run, s.file.shown, s.file.folder) for s in sources]
        runs = named_targets(target, located)
        named = [replace(source, run=run) for source, run in zip(sources, runs, strict=True)]
        try:
            text, study = _study(name or _title(paths), named)
            points = _points(study, named)
            records = _records(study, points, named)
        except _UnfitRunsError as unfit:
            _refuse_runs(read, sources, unfit.errors)
            sources = [s for index, s in enumerate(sources) if index not in unfit.errors]
        else:
            return _Import(named, text, study, points, records)
    raise _nothing_imported(paths, read)


def _without_same_runs(read: Sources, sources: Sequence[_Source]) -> list[_Source]:
    """Leave out runs that another file has in more detail, and change outcomes of their files.

    Such a pair is, for example, warp's benchmark data and the output of ``warp analyze``.
    """
    found = same_runs([s.run for s in sources], [s.file.shown for s in sources])
    kept_by_file: dict[str, list[_Source]] = {}
    for index, other in found.items():
        kept_by_file.setdefault(sources[index].file.shown, []).append(sources[other])
        name = sources[index].file.name
        sources[other].run.outcome.notes.append(f"{name} contains this run too, and is left out")
    for shown, kept in kept_by_file.items():
        before = read.outcomes[shown]
        files = ", ".join(dict.fromkeys(source.file.shown for source in kept))
        number = f"{len(kept)} runs" if len(kept) > 1 else "a run"
        reason = f"has {number} of {files} in another format"
        if before.runs <= len(kept):
            read.skip(shown, "duplicate", reason)
        else:
            reason = "; ".join(filter(None, (before.reason, reason)))
            read.outcomes[shown] = replace(before, runs=before.runs - len(kept), reason=reason)
    return [source for index, source in enumerate(sources) if index not in found]


def _refuse_runs(
    read: Sources, sources: Sequence[_Source], errors: Mapping[int, ResultError]
) -> None:
    """Change the outcomes of the files whose runs cannot be stored."""
    for index, error in errors.items():
        file = sources[index].file
        before = read.outcomes[file.shown]
        if before.runs <= 1:
            read.refuse(file.shown, error)
        else:
            reasons = [before.reason] if before.reason else []
            reason = "; ".join([*reasons, f"{error.where}: {error.what}"])
            fix = before.fix or error.fix
            read.outcomes[file.shown] = replace(
                before, runs=before.runs - 1, reason=reason, fix=fix
            )


def _nothing_imported(paths: Sequence[Path], read: Sources) -> ResultError:
    """Return the error for an import without runs, with the reasons of up to 10 files."""
    if len(read.outcomes) == len(read.errors) == 1:
        return read.errors[0]
    where = ", ".join(str(path) for path in paths[:3]) + (", ..." if len(paths) > 3 else "")
    if not read.outcomes:
        return ResultError(where, "contains no files", "give a directory or archive with results")
    outcomes = sorted(read.outcomes.values(), key=lambda outcome: outcome.outcome != "refused")
    reasons = [f"{outcome.file}: {outcome.reason}" for outcome in outcomes[:_MOST_REASONS]]
    if len(outcomes) > _MOST_REASONS:
        reasons.append(f"and {len(outcomes) - _MOST_REASONS} more files")
    what = "\n  ".join([f"contains no result that storlab can import ({_counts(read)}):", *reasons])
    fixes = dict.fromkeys(outcome.fix for outcome in outcomes[:_MOST_REASONS] if outcome.fix)
    return ResultError(where, what, "; ".join(list(fixes)[:3]) or "give files with results")


def _counts(read: Sources) -> str:
    numbers = Counter(outcome.outcome for outcome in read.outcomes.values())
    return ", ".join(f"{number} {outcome}" for outcome, number in numbers.items())


def _title(paths: Sequence[Path]) -> str:
    first = paths[0].absolute().name or str(paths[0])
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"import of {first}{more}"


def _study(title: str, sources: Sequence[_Source]) -> tuple[str, StudyBase]:
    """Return a study with the points of the imported runs, as TOML text and as model."""
    first = sources[0].run
    header = {
        "name": title,
        "repeats": 1,
        "ramp": f"{first.ramp_ns}ns",
        "runtime": f"{min(first.runtime_ns, _LONGEST_RUNTIME_NS)}ns",
    }
    seen: dict[str, ImportedRun] = {}
    for run in _target_order(sources):
        seen.setdefault(run.target, run)
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
        raise _UnfitRunsError(_by_run(error, sources)) from error


def _by_run(error: ValidationError, sources: Sequence[_Source]) -> dict[int, ResultError]:
    """Return the error of each run that the study cannot express, by its index.

    Raises:
        ResultError: The error is in neither a workload nor a target.
    """
    workloads = {_identity(run): index for index, run in enumerate(_distinct(sources))}
    names = dict.fromkeys(run.target for run in _target_order(sources))
    targets = {name: index for index, name in enumerate(names)}
    members: dict[tuple[int | str, ...], list[int]] = {}
    for index, source in enumerate(sources):
        members.setdefault(("workload", workloads[_identity(source.run)]), []).append(index)
        members.setdefault(("target", targets[source.run.target]), []).append(index)
    errors: dict[int, ResultError] = {}
    for part in error.errors():
        where = ".".join(str(key) for key in part["loc"])
        what = f"storlab's study cannot express this option of the imported job: {part['msg']}"
        for index in members.get(part["loc"][:2], ()):
            place = f"{sources[index].file.shown}: {where}"
            errors.setdefault(index, ResultError(place, what, _REPORT))
    if not errors:
        first = error.errors()[0]
        where = ".".join(str(key) for key in first["loc"])
        raise ResultError(f"{sources[0].file.shown}: {where}", first["msg"], _REPORT) from error
    return errors


def _target_order(sources: Sequence[_Source]) -> list[ImportedRun]:
    """Return all runs, beginning with those that state whether they used direct I/O."""
    return sorted((source.run for source in sources), key=lambda run: run.direct is None)


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


def _about(sources: Sequence[_Source], read: Sources) -> dict[str, Any]:
    files = {s.file.shown: {"name": s.file.name, "sha256": s.file.sha256} for s in sources}
    engines = [s.run.outcome.engine for s in sources]
    return {
        "imported": {
            "files": list(files.values()),
            "engines": sorted({f"{e.name} {e.version}" for e in engines}),
            # A job that ends when all data is moved has no runtime; the study then has its window.
            "runtime_stated": sources[0].run.runtime_stated,
            "note": "host, kernel and drives of these runs are not known",
            "targets": _targets(sources),
            "outcomes": [asdict(outcome) for outcome in read.outcomes.values()],
        }
    }


def _targets(sources: Sequence[_Source]) -> list[dict[str, Any]]:
    """Return for each target its name, number of runs and files, and the files' folders."""
    by_target: dict[str, list[_Source]] = {}
    for source in sources:
        by_target.setdefault(source.run.target, []).append(source)
    return [
        {
            "name": name,
            "runs": len(of_target),
            "files": len({s.file.shown for s in of_target}),
            "folders": sorted({str(PurePosixPath(s.file.shown).parent) for s in of_target}),
        }
        for name, of_target in by_target.items()
    ]


def _records(
    study: StudyBase, points: Sequence[tuple[Point, int]], sources: Sequence[_Source]
) -> list[RunRecord]:
    """Return the records of all runs.

    Raises:
        _UnfitRunsError: Values of some runs contradict each other, or give no metrics.
    """
    records: list[RunRecord] = []
    errors: dict[int, ResultError] = {}
    for index, ((point, repeat), source) in enumerate(zip(points, sources, strict=True)):
        try:
            record = _record(study, point, repeat, source)
            infinite = [m.name for m in record.metrics if not math.isfinite(m.value)]
            if infinite:
                raise ValueError(f"{infinite[0]} is not a finite number")
            merged_too = record.model_copy(
                update={"histograms": merged(source.run.outcome.samples)}
            )
            if problem := contradiction(merged_too, study.study.ramp):
                errors[index] = ResultError(source.file.shown, problem, _CONTRADICTS)
            records.append(record)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            what = f"has values from which no metrics can be computed: {error}"
            errors[index] = ResultError(source.file.shown, what, _REPORT)
    if errors:
        raise _UnfitRunsError(errors)
    return records


def _record(study: StudyBase, point: Point, repeat: int, source: _Source) -> RunRecord:
    run, outcome = source.run, source.run.outcome
    if run.s3 is None:
        outcome.details.setdefault("medium", {"unknown": [NO_COUNTERS]})
        outcome.details.setdefault("page_cache_unknown", run.direct is None)
    stated = Stated(bool(run.direct), run.metrics, _has_histograms(outcome), run.provenance)
    planned = PlannedRun(order=0, repeat=repeat, point_id=point.point_id)
    record = completed_record(planned, point, study, run.started_at, outcome, stated=stated)
    notes = [*record.notes, f"{IMPORTED_FROM}{source.file.name}"]
    return record.model_copy(update={"notes": notes})


def _has_histograms(outcome: RunOutcome) -> bool:
    """Return whether every operation with a total latency also has histograms in the samples."""
    filled = {s.operation for s in outcome.samples if Histogram.from_v2(s.latency).count}
    return all(kind in filled for kind, t in outcome.totals.items() if t.latency is not None)
