"""Preprocess a user's own click logs outside of a study, for the sake of the output.

An earlier run in the output directory is continued, so that finished work is never repeated. A
directory that contains other files is refused.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from storlab.base.errors import FieldProblems, GuardError, PreflightError, ResultError, UsageError
from storlab.base.files import parse_json, read_input, write_advice
from storlab.base.locks import try_lock_exclusive
from storlab.base.units import format_bytes_si, format_size
from storlab.contracts.document import OPTIONAL, Document, Error
from storlab.contracts.engine import Engine
from storlab.contracts.registry import get_engine
from storlab.contracts.reporter import Reporter
from storlab.model.bounds import bound_text, schema_of
from storlab.model.result import EngineInfo, Flag, RunOutcome, Snapshot
from storlab.process.execution import StopRequest, finish
from storlab.stores.filesystems import existing_parent, free_bytes
from storlab.workloads.preprocess.family import run_order
from storlab.workloads.preprocess.job import PreprocessJob
from storlab.workloads.preprocess.metrics import run_flags
from storlab.workloads.preprocess.params import PreprocessParams
from storlab.workloads.preprocess.rules import (
    CATEGORIES,
    ROW_BYTES,
    RawData,
    cautions,
    is_compressed,
    least_binary_bytes,
    needed_memory,
    scheduler_of,
    usable_cores,
    written_bytes,
)
from storlab.workloads.preprocess.spec import PreprocessSpec

_RUN = "run.json"
_BEGINNING = (".partial-run.json", "run.json.partial")
"""Files of a run that was killed before it finished a part."""
_DIRECTORIES = ("parquet", "vocabulary")
_OUTPUT = (_RUN, *_BEGINNING, *_DIRECTORIES, "binary", "binary.partial")
_FIXED = {"kind": "preprocess", "cold": False, "resume": True}  # nothing is measured
_KEPT = {
    "implementation": "engine",
    "part_size": "part_bytes",
    **{name: name for name in ("row_group_rows", "compression", "threshold", "modulo")},
    "numerical": "numerical",
}
"""Parameters that the output depends on, with their names in ``run.json``."""
_ELSEWHERE = "or name another --out"
_TOLD = ("malformed-lines", "several-passes", "memory-exceeded", "workers-lost")


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Preprocessing run whose files and options have been checked."""

    job: PreprocessJob
    params: PreprocessParams
    engine: Engine
    parts: int
    warnings: tuple[str, ...]

    @property
    def directory(self) -> Path:
        """Directory for the output."""
        return Path(self.job.directory)


class PreprocessDocument(Document):
    """Output of storlab preprocess: directory of the files made, and the engine's report."""

    model_config = ConfigDict(extra="allow")
    schema_name: Literal["preprocess"] = Field(default="preprocess", alias="schema")
    error: Error | None = OPTIONAL
    directory: Path
    feature_spec: Path | None
    interrupted: bool
    exit_code: int
    engine: EngineInfo | None
    order: PreprocessJob
    warnings: tuple[str, ...]
    flags: list[Flag]
    notes: list[str]


def plan_preprocessing(
    files: Sequence[Path], out: Path, options: Mapping[str, Any]
) -> Preprocessing:
    """Check files, options and machine before a run, without reading the logs or writing.

    Args:
        files: Raw click logs.
        out: Directory of the output.
        options: Fields of ``PreprocessSpec``, and the address of a cluster's ``scheduler``. None
            stands for the default, which for ``workers`` is as many as cores, memory and parts
            allow.

    Raises:
        UsageError: Files or options are invalid, or differ from those of the run in ``out``.
        GuardError: ``out`` contains files of other origin.
        PreflightError: Permissions or space are missing.
        EngineError: The engine is missing.
    """
    directory = Path(os.path.realpath(out))
    inputs = _inputs(files, directory)
    given = {name: value for name, value in options.items() if value is not None}
    scheduler = given.pop("scheduler", None)
    if scheduler is not None:
        given["scale"] = {"engine": "dask", "scheduler": scheduler}
    name = given.setdefault("implementation", "native")
    engine = get_engine(name)
    params = _params({"workers": 1, **given}, inputs)
    sizes = [Path(path).stat().st_size for path in inputs]
    parts = sum(-(-size // params.part_size) for size in sizes)
    if "workers" not in given:
        params = params.model_copy(update={"workers": _workers(params, parts)})
    job = run_order(params, inputs, directory, scheduler=scheduler_of(params, name))
    _check_directory(out, directory, params, inputs)
    data = RawData(max(1, sum(sizes) // ROW_BYTES), sum(sizes), len(sizes), parts)
    engine.describe()
    warnings = (*cautions(params, data, name), *_space(params, data, directory))
    return Preprocessing(job, params, engine, parts, warnings)


def _params(values: dict[str, Any], inputs: list[str]) -> PreprocessParams:
    try:
        spec = PreprocessSpec.model_validate({**_FIXED, **values, "input": inputs})
    except ValidationError as error:
        raise _usage(error) from None
    return PreprocessParams.of(spec.values()[0])


def _usage(error: ValidationError) -> UsageError:
    """Convert a validation error to a message about the first invalid option."""
    detail = error.errors()[0]
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, FieldProblems):
        problem = cause.problems[0]
        return UsageError(_option(str(problem.field[0])), problem.what, problem.fix)
    field = next(str(part) for part in detail["loc"] if part in PreprocessSpec.model_fields)
    broken = bound_text(detail, lambda: schema_of(PreprocessSpec, (field,)))
    what = broken or str(cause or detail["msg"].removeprefix("Input "))
    return UsageError(_option(field), what, "see `storlab preprocess --help`")


def _option(field: str) -> str:
    name = {"implementation": "engine", "scale": "scheduler"}.get(field, field)
    return f"--{name.replace('_', '-')}"


def _workers(params: PreprocessParams, parts: int) -> int:
    by_memory = params.memory // needed_memory(params)
    return max(1, min(usable_cores(), parts, by_memory))


def _inputs(files: Sequence[Path], directory: Path) -> list[str]:
    """Return the absolute paths of the files in their order; raise UsageError if one is invalid."""
    places: dict[Path, Path] = {}
    for file in files:
        real = Path(os.path.realpath(file))
        why = _why_no_input(file, real, directory)
        if why is None and real in places:
            why = ("is given twice", "name each file once")
        if why is not None:
            raise UsageError(str(file), *why)
        places[real] = Path(os.path.realpath(file.parent)) / file.name
    return [str(file) for file in places.values()]


def _why_no_input(file: Path, real: Path, directory: Path) -> tuple[str, str] | None:
    """Return why a file cannot be used as input, and a fix; None if it can."""
    why = None
    if not real.exists():
        why = ("there is no such file", "correct the path")
    elif not real.is_file():
        why = ("is not a regular file", "name files with click logs")
    elif not os.access(real, os.R_OK):
        why = ("cannot be read by this user", "change its permissions")
    elif is_compressed(real):
        why = ("is compressed", "decompress it first")
    elif real.is_relative_to(directory):
        why = ("is in the output directory", "name another --out")
    elif not (_is_utf8(file.name) and _is_utf8(real)):
        why = ("has a path that is not UTF-8 text", "rename it")
    return why


def _is_utf8(path: Path | str) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_directory(
    out: Path, directory: Path, params: PreprocessParams, inputs: Sequence[str]
) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"--out {out}", "is not a directory", "name a directory")
    if not _is_utf8(directory):
        raise UsageError("--out", "is not UTF-8 text", "name another directory")
    parent = existing_parent(directory)
    if not os.access(parent, os.R_OK | os.W_OK | os.X_OK):
        what = f"cannot be used: this user may not create files in {parent}"
        raise PreflightError(f"--out {out}", what, "name another directory")
    begun = _begun(directory)
    foreign = _foreign(directory) if begun is None else _foreign_beside(directory)
    if foreign is not None:
        what = f"contains {foreign.relative_to(directory)}, which is not an output of preprocessing"
        fix = "name an empty or new directory"
        raise GuardError(f"--out {out}", what, fix if begun is None else "move that file elsewhere")
    if begun is not None:
        _check_same(out, begun, params, inputs)


def _begun(directory: Path) -> dict[str, Any] | None:
    """Return the parameters of the run that was started in a directory; None without a run."""
    try:
        document = parse_json(read_input(directory / _RUN))
    except (OSError, ValueError):
        return None
    return (
        document if isinstance(document, dict) and {"engine", "inputs"} <= document.keys() else None
    )


def _foreign(directory: Path) -> Path | None:
    """Return a file that cannot be from a run which has just started; None if there is none."""
    for path in directory.rglob("*"):
        inside = path.relative_to(directory)
        own = path.is_dir() and not path.is_symlink() and inside.parts[0] in _DIRECTORIES
        if not own and str(inside) not in _BEGINNING:
            return path
    return None


def _foreign_beside(directory: Path) -> Path | None:
    """Return a file that is not an output of a preprocessing run; None if there is none."""
    return next((path for path in directory.iterdir() if path.name not in _OUTPUT), None)


def _check_same(
    out: Path, begun: dict[str, Any], params: PreprocessParams, inputs: Sequence[str]
) -> None:
    """Raise UsageError if the run in the directory was started with other options.

    Engines check this, too, but this check names options of the command line.
    """
    _check_same_files(out, begun["inputs"], inputs)
    for field, name in _KEPT.items():
        before, option = begun.get(name), _option(field)
        if before == getattr(params, field):
            continue
        if before is None:
            raise UsageError(
                option, f"the run in {out} was started without it", f"omit it, {_ELSEWHERE}"
            )
        shown = format_size(before) if field == "part_size" else str(before)
        raise UsageError(
            option,
            f"the run in {out} was started with {shown}",
            f"give {option} {shown}, {_ELSEWHERE}",
        )


def _check_same_files(out: Path, begun: Sequence[Any], inputs: Sequence[str]) -> None:
    """Raise UsageError if the run in the directory was started with other files.

    The native engine records a table per file, data frame libraries record a list.
    """
    then = dict((e["path"], e["bytes"]) if isinstance(e, dict) else e[:2] for e in begun)
    if list(then) != list(inputs):
        fix = f"give the same files in the same order, {_ELSEWHERE}"
        raise UsageError("FILE...", f"the run in {out} was started with other files", fix)
    for path, size in then.items():
        if Path(path).stat().st_size != size:
            what = f"has changed since the run in {out} was started"
            raise UsageError(path, what, "name another --out")


def _space(params: PreprocessParams, data: RawData, directory: Path) -> Iterator[str]:
    """Yield a warning if the output may not fit on the disk; raise PreflightError if it cannot."""
    there = _allocated(directory)
    room = free_bytes(directory) + there
    most = written_bytes(params, data)
    least = least_binary_bytes(params, data.rows)
    free = f"{format_bytes_si(room - there)} are free in {directory}"
    if least > room:
        what = f"the output takes at least {format_bytes_si(least)}, but {free}"
        raise PreflightError("--out", what, "free some space, or name another directory")
    if most > room:
        more = format_bytes_si(most - there)
        yield f"--out: the output may take {more} more, but {free}; a failed run can be continued"


def _allocated(directory: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*"))


def carry_out(order: Preprocessing, reporter: Reporter, stop: StopRequest) -> RunOutcome:
    """Preprocess the files, or continue an earlier run; the outcome says if the run failed.

    Raises:
        Interrupted: A stop was requested.
        ResultError: Another process is working in the directory.
        PreflightError: The directory cannot be created.
        EngineError: The engine cannot run.
    """
    work_dir = Path(tempfile.mkdtemp(prefix="storlab-preprocess-"))
    kept = False
    try:
        with _held(order.directory):
            handle = order.engine.start(order.job, work_dir)
            outcome = finish(handle, stop, _Stages(order, reporter).look)
        kept = _point_at(outcome, work_dir)
    finally:
        if not kept:
            shutil.rmtree(work_dir, ignore_errors=True)
    return outcome


def reported_flags(order: Preprocessing, outcome: RunOutcome) -> list[Flag]:
    """Return those flags of a finished run that are about its output or options."""
    return [flag for flag in run_flags(order.params, outcome) if flag.kind in _TOLD]


@contextmanager
def _held(directory: Path) -> Iterator[None]:
    """Hold an exclusive lock on the directory; it is released when the process ends."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        what = f"cannot be created: {error.strerror}"
        raise PreflightError(f"--out {directory}", what, write_advice(directory, error)) from error
    try:
        try:
            try_lock_exclusive(handle)
        except BlockingIOError:
            what = "is in use by another process that preprocesses files"
            raise ResultError(f"--out {directory}", what, "wait until it ends") from None
        yield
    finally:
        os.close(handle)


def _point_at(outcome: RunOutcome, work_dir: Path) -> bool:
    """Make relative paths in a failure's fix absolute; return whether there were any."""
    failure = outcome.failure
    if failure is None or "raw/" not in failure.fix:
        return False
    fix = failure.fix.replace("raw/", f"{work_dir}/")
    outcome.failure = failure.model_copy(update={"fix": fix})
    return True


class _Stages:
    """Reports progress by counting the files in the output directory, for any engine."""

    def __init__(self, order: Preprocessing, reporter: Reporter) -> None:
        self._directory = order.directory
        self._reporter = reporter
        self._left = [
            ("ingest", "parquet/*/part-*.json", order.parts, "part"),
            ("vocabulary", "vocabulary/C*.json", CATEGORIES, "column"),
            ("encode", "binary", 1, ""),
        ]
        self._before = {stage: self._done(pattern) for stage, pattern, *_ in self._left}
        self._begin()

    def look(self, snapshot: Snapshot) -> None:
        """Report how much of the current stage is done."""
        while self._left:
            _, pattern, total, _ = self._left[0]
            done = self._done(pattern)
            if done < total:
                shown = snapshot if snapshot.bytes_s else None  # not every engine reports a rate
                self._reporter.step_progress(done, shown)
                return
            self._left.pop(0)
            self._begin()

    def _done(self, pattern: str) -> int:
        return sum(1 for _ in self._directory.glob(pattern))

    def _begin(self) -> None:
        if not self._left:
            self._reporter.step("check of the output")
            return
        stage, _, total, noun = self._left[0]
        if not noun:
            self._reporter.step(stage)
            return
        before = self._before[stage]
        done = f", {before:,} of them done before" if before else ""
        plural = "" if total == 1 else "s"
        self._reporter.step(f"{stage}: {total:,} {noun}{plural}{done}", total)
