"""Create, read and extend the result directory of a campaign.

::

    study.toml        the study as given
    environment.json  host, kernel, drives, versions
    plan.json         the plan and its hash
    result.json       format version, and checksums of study.toml and environment.json
    runs/<run>/       run.json, samples.parquet, power.parquet if meters were read, raw/,
                      SHA256SUMS (also verified by `sha256sum -c`)
    prepare/          one record per preconditioned target
    verify/           state files of verify-mode runs: the writes of each block
    attempts/         failed attempts of runs that will be repeated
    brief.html, brief.pdf

A run is stored completely or not at all: it is written into a new folder ``runs/.new-*``, which is
locked, and then renamed. The kernel releases the lock if the writer dies, so an unlocked folder is
a leftover that can be removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from storlab import __version__
from storlab.base.clock import utc_now_iso
from storlab.base.collector import without_collector
from storlab.base.errors import ResultError
from storlab.base.files import (
    fsync_directory,
    make_folder,
    parse_json,
    read_input,
    replace_file,
    shell_word,
    storage_advice,
    temporary_beside,
    write_advice,
    write_durably,
)
from storlab.base.locks import is_locked, lock_exclusive, try_lock_exclusive
from storlab.model.point import Plan, PlannedRun
from storlab.model.power import Reading
from storlab.model.power_readings import POWER_SCHEMA, readings_from_parquet, readings_to_parquet
from storlab.model.result import Attempt, RunRecord, Sample
from storlab.model.samples import merged, samples_to_parquet, table_from_parquet
from storlab.model.study import StudyBase
from storlab.results.files import (
    REPLACED,
    SCHEMA_VERSION,
    is_vacant,
    occupied,
    read_checked,
    read_result,
)
from storlab.results.read import (
    check_planned,
    read_environment,
    read_plan,
    read_study,
    validate_record,
)
from storlab.results.rounds import needed_runs, rounds_of

_NEW = ".new-"
_FOLDERS = ("runs", "prepare", "verify")
_PLAIN_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*")


def to_json(value: Any) -> bytes:
    """Serialise a value in the JSON style of result directories: indented, UTF-8, without NaN."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


class ResultStore:
    """Result directory of a campaign; reading is safe while a campaign writes to it."""

    def __init__(
        self,
        directory: Path,
        study_text: str,
        study: StudyBase,
        plan: Plan,
        environment: dict[str, Any],
    ) -> None:
        self.directory = directory
        self.study_text = study_text
        self.study = study
        self.plan = plan
        self.environment = environment
        self._runs = {run.run_id: run for run in plan.runs}

    @classmethod
    def create(
        cls,
        directory: Path,
        study_text: str,
        study: StudyBase,
        plan: Plan,
        environment: dict[str, Any],
    ) -> ResultStore:
        """Create a result directory without runs, atomically.

        Raises:
            ResultError: The directory exists and is not empty, or cannot be created.
        """
        directory = directory.absolute()
        environment = {"schema_version": SCHEMA_VERSION, **environment}
        files = _head_files(study_text, plan, environment)
        try:
            if directory.is_dir():
                _fill_empty(directory, files)
            else:
                _make_whole(directory, files)
        except OSError as error:
            there = error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
            if there and not is_vacant(directory):
                raise occupied(directory) from error
            what = f"cannot be created: {error.strerror}"
            raise ResultError(str(directory), what, write_advice(directory, error)) from error
        return cls(directory, study_text, study, plan, environment)

    @classmethod
    def open(cls, directory: Path) -> ResultStore:
        """Open an existing result directory for reading, without locking it.

        Raises:
            ResultError: A file is missing, damaged or of another format version; names the file.
        """
        directory = directory.absolute()
        result = read_result(directory)
        study_text, study = read_study(directory, result)
        store = cls(
            directory, study_text, study, read_plan(directory), read_environment(directory, result)
        )
        if not store.runs_dir.is_dir():
            raise ResultError(str(store.runs_dir), "is missing", "restore it from a copy")
        return store

    @contextmanager
    def campaign_lock(self) -> Iterator[None]:
        """Lock the directory for one campaign, and remove unfinished runs of dead processes.

        Raises:
            ResultError: Another running process has locked the directory, or it is not writable.
        """
        path = self.directory / "campaign.lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise ResultError(
                str(path),
                f"cannot be written: {error.strerror}",
                "give yourself permission to write to the result directory",
            ) from error
        try:
            try:
                try_lock_exclusive(handle)
            except BlockingIOError:
                holder = os.read(handle, 100).decode(errors="replace").strip()
                raise ResultError(
                    str(self.directory),
                    f"another campaign is running here (process {holder or 'unknown'})",
                    f"wait until it has ended, see `storlab status {shell_word(self.directory)}`",
                ) from None
            except OSError as error:
                what = f"cannot be locked: {error.strerror}"
                fix = "put the results on a file system that supports locks (flock)"
                raise ResultError(str(path), what, fix) from error
            self._refuse_links()
            with self.storing(f"{path.name} cannot be written"):
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            self._clean_leftovers()
            yield
        finally:
            os.close(handle)

    def _refuse_links(self) -> None:
        """Raise ResultError if a folder that a campaign writes to is a symbolic link."""
        for name in (*_FOLDERS, "work"):
            if (self.directory / name).is_symlink():
                raise ResultError(
                    str(self.directory / name),
                    "is a symbolic link, by which files elsewhere could be overwritten or deleted",
                    "replace it by a folder",
                )

    def is_running(self) -> bool:
        """Return whether a campaign is running, that is, has locked the directory."""
        return is_locked(self.directory / "campaign.lock")

    def extend(self, plan: Plan) -> None:
        """Replace the plan by one with more runs, atomically.

        Raises:
            ValueError: The new plan lacks a run of the current one.
            ResultError: The plan cannot be stored.
        """
        runs = {run.run_id: run for run in plan.runs}
        if not self._runs.keys() <= runs.keys():
            raise ValueError("the new plan lacks runs of the current plan")
        with self.storing("the plan with further runs cannot be stored"):
            replace_file(self.directory / "plan.json", _plan_file(plan))
        self.plan = plan
        self._runs = runs

    @property
    def runs_dir(self) -> Path:
        """Return the folder of the runs."""
        return self.directory / "runs"

    def run_dir(self, run_id: str) -> Path:
        """Return the folder of a run, which need not exist.

        It is ``runs/<run_id>``, or the old run's folder while a new run replaces it.

        Raises:
            ResultError: The run is not in the plan.
        """
        if run_id not in self._runs:
            raise ResultError(
                run_id,
                "is not a run of this campaign",
                f"list them with `storlab compare {shell_word(self.directory)} --json`",
            )
        place = self.runs_dir / run_id
        if place.exists():
            return place
        former = self.runs_dir / f"{REPLACED}{run_id}"
        return former if former.exists() else place

    def write_run(
        self,
        record: RunRecord,
        samples: Sequence[Sample],
        raw: Mapping[str, bytes],
        readings: Sequence[Reading] = (),
    ) -> RunRecord:
        """Store a run completely or not at all, and return its record with checksums added.

        A failed run that is already stored is replaced (``resume --retry-failed``). Its failure is
        kept in ``attempts`` of the new record.

        Args:
            record: Record of the run.
            samples: Samples of the run.
            raw: Content of the engine's own files, by name with at most one folder.
            readings: Readings of the run's meters.

        Raises:
            ResultError: The run was cancelled or is not in the plan; nothing is stored.
            OSError: The file system failed; nothing is stored.
        """
        target = self.run_dir(record.run_id).with_name(record.run_id)
        if record.status == "cancelled":
            raise ResultError(
                record.run_id, "was cancelled, so it is incomplete and cannot be stored"
            )
        parquet = samples_to_parquet(samples)
        sums_of: dict[str, Any] = {"samples_sha256": hashlib.sha256(parquet).hexdigest()}
        power = readings_to_parquet(readings) if readings else None
        if power is not None:
            sums_of["power_sha256"] = hashlib.sha256(power).hexdigest()
        sums_of["histograms"] = merged(samples)
        sums_of["attempts"] = self._attempts(record.run_id)
        record = record.model_copy(update={**sums_of, "raw": sorted(raw)})
        files = {"run.json": to_json(record.dump()), "samples.parquet": parquet}
        if power is not None:
            files["power.parquet"] = power
        for name, content in raw.items():
            if not _PLAIN_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a plain file name")
            files[f"raw/{name}"] = content
        sums = [f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in files.items()]
        files["SHA256SUMS"] = ("\n".join(sums) + "\n").encode()
        with self._new_directory(record.run_id) as new:
            _write_tree(new, files)
            self._move_into_place(new, target)
        self._attempts_file(record.run_id).unlink(missing_ok=True)
        return record

    def add_attempt(self, run_id: str, attempt: Attempt) -> None:
        """Save a failed attempt of a run; ``write_run`` adds it to the record of the next attempt.

        Raises:
            ResultError: The file cannot be written.
        """
        attempts = [kept.dump() for kept in (*self._attempts(run_id), attempt)]
        path = self._attempts_file(run_id)
        with self.storing(f"the attempt of run {run_id} cannot be stored"):
            path.parent.mkdir(exist_ok=True)
            replace_file(path, to_json(attempts))

    def _attempts(self, run_id: str) -> list[Attempt]:
        """Return all failed attempts of a run, including the stored run if it failed."""
        attempts: list[Attempt] = []
        if self.run_dir(run_id).exists():
            stored = self.record(run_id)
            attempts += stored.attempts
            if stored.failure is not None:
                attempts.append(Attempt(started_at=stored.started_at, failure=stored.failure))
        with suppress(FileNotFoundError):
            kept = json.loads(self._attempts_file(run_id).read_bytes())
            # After a crash, the saved attempts may already be in the record of the stored run.
            attempts += [a for a in map(Attempt.model_validate, kept) if a not in attempts]
        return attempts

    def _attempts_file(self, run_id: str) -> Path:
        return self.directory / "attempts" / f"{run_id}.json"

    @contextmanager
    def storing(self, harm: str) -> Iterator[None]:
        """Convert an OSError in a ``with`` block to a ResultError with a fix.

        Args:
            harm: What could not be done, as the beginning of the message.
        """
        try:
            yield
        except OSError as error:
            raise ResultError(
                str(self.directory),
                f"{harm}: {error.strerror}",
                f"{storage_advice(error)}, then continue with `{self.continuation}`",
            ) from error

    @property
    def continuation(self) -> str:
        """Return the shell command that continues this campaign."""
        searches, place = self.environment.get("capacity"), shell_word(self.directory)
        go_on = f"capacity STUDY --out {place}" if searches else f"resume {place}"
        return f"storlab {go_on}"

    def records(self) -> list[RunRecord]:
        """Read the records of all stored runs, in the plan's order.

        Raises:
            ResultError: A run is damaged.
        """
        present = {entry.name.removeprefix(REPLACED) for entry in self.runs_dir.iterdir()}
        wanted = [run.run_id for run in self.plan.runs if run.run_id in present]
        with without_collector():
            return [self.record(run_id) for run_id in wanted]

    def record(self, run_id: str) -> RunRecord:
        """Read the record of one stored run.

        Raises:
            ResultError: The run is missing or damaged.
        """
        directory = self.run_dir(run_id)
        content = read_checked(directory, "run.json")
        record = validate_record(directory, content, run_id, self.study.study.ramp)
        planned = self._runs[run_id]
        check_planned(directory, record, planned, self.plan.points[planned.point_id])
        return record

    def samples(self, run_id: str) -> pa.Table:
        """Return the samples of a run (columns: ``samples.SAMPLES_SCHEMA``).

        Raises:
            ResultError: The run is missing or its samples are damaged.
        """
        return self._table(run_id, "samples.parquet", table_from_parquet)

    def power(self, run_id: str) -> pa.Table:
        """Return the meter readings of a run (columns: ``power_readings.POWER_SCHEMA``).

        The table is empty if the run has none.

        Raises:
            ResultError: The readings are missing or damaged.
        """
        if self.record(run_id).power_sha256 is None:
            return POWER_SCHEMA.empty_table()
        return self._table(run_id, "power.parquet", readings_from_parquet)

    def _table(self, run_id: str, name: str, read: Callable[[bytes], pa.Table]) -> pa.Table:
        directory = self.run_dir(run_id)
        try:
            return read(read_checked(directory, name))
        except (ValueError, pa.ArrowException) as error:
            raise ResultError(
                str(directory / name),
                f"cannot be read: {error}",
                "read it with the storlab version that wrote it",
            ) from error

    def raw(self, run_id: str, name: str) -> bytes:
        """Return a file that the engine of a run produced.

        Raises:
            ResultError: The file is missing or damaged.
        """
        return read_checked(self.run_dir(run_id), f"raw/{name}")

    def missing(self, retry_failed: bool = False) -> list[PlannedRun]:
        """Return the needed runs that are not stored; with ``retry_failed`` also failed ones."""
        return self.missing_of(self.records(), retry_failed)

    def missing_of(
        self, records: Sequence[RunRecord], retry_failed: bool = False
    ) -> list[PlannedRun]:
        """Like :meth:`missing`, but with the records of the stored runs already read."""
        runs = needed_runs(self.plan, rounds_of(self.plan, records))
        done = {r.run_id for r in records if not (retry_failed and r.status == "failed")}
        return [run for run in runs if run.run_id not in done]

    def check(self) -> None:
        """Verify the checksums of all files of all stored runs.

        Raises:
            ResultError: A file is missing or damaged; names the first one.
        """
        for record in self.records():
            power = ["power.parquet"] if record.power_sha256 is not None else []
            for name in ("samples.parquet", *power, *(f"raw/{raw}" for raw in record.raw)):
                read_checked(self.run_dir(record.run_id), name)

    def write_prepare(self, name: str, value: Mapping[str, Any]) -> None:
        """Store the record of a preparation step as ``prepare/<name>.json``, atomically.

        Raises:
            ResultError: The file cannot be written.
        """
        with self.storing(f"prepare/{name} cannot be stored"):
            make_folder(self.directory / "prepare")
            replace_file(self.directory / "prepare" / f"{name}.json", to_json(dict(value)))

    def prepare(self, name: str) -> dict[str, Any] | None:
        """Return the record of a preparation step, or None if there is none.

        Raises:
            ResultError: The record is damaged.
        """
        path = self.directory / "prepare" / f"{name}.json"
        try:
            value: dict[str, Any] = parse_json(read_input(path))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ResultError(
                str(path), f"is not JSON: {error}", "delete it; the preparation is then repeated"
            ) from error
        return value

    def forget_prepare(self, name: str) -> None:
        """Remove the record of a preparation step whose data no longer exist.

        Raises:
            ResultError: The file cannot be removed.
        """
        path = self.directory / "prepare" / f"{name}.json"
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            what = f"cannot be removed: {error.strerror}"
            raise ResultError(str(path), what, "make its directory writable") from error

    @contextmanager
    def _new_directory(self, run_id: str) -> Iterator[Path]:
        while True:
            stamp = f"{os.getpid()}-{os.urandom(4).hex()}"
            new = self.runs_dir / f"{_NEW}{run_id}-{stamp}"
            new.mkdir()
            handle = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            lock_exclusive(handle)
            if new.exists():
                break
            os.close(handle)  # another process removed it between mkdir and flock
        try:
            yield new
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        finally:
            os.close(handle)

    def _move_into_place(self, new: Path, target: Path) -> None:
        replaced: Path | None = None
        if target.exists():
            replaced = self.runs_dir / f"{REPLACED}{target.name}"
            shutil.rmtree(replaced, ignore_errors=True)
            target.rename(replaced)
        new.rename(target)
        fsync_directory(self.runs_dir)
        if replaced is not None:
            shutil.rmtree(replaced, ignore_errors=True)

    def _clean_leftovers(self) -> None:
        self._restore_replaced()
        for leftover in self.runs_dir.glob(f"{_NEW}*"):
            _remove_if_dead(leftover)

    def _restore_replaced(self) -> None:
        for old in self.runs_dir.glob(f"{REPLACED}*"):
            home = self.runs_dir / old.name.removeprefix(REPLACED)
            if home.exists():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.rename(home)


def _make_whole(directory: Path, files: Mapping[str, bytes]) -> None:
    """Create a result directory with its initial files, completely or not at all.

    Raises:
        OSError: The directory cannot be created.
    """
    temporary = temporary_beside(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.mkdir()
        _fill_empty(temporary, files)
        temporary.rename(directory)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    fsync_directory(directory.parent)


def _fill_empty(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make a result directory of an existing empty directory, such as a mount point.

    Raises:
        OSError: The directory is not empty, or a write failed; nothing was added to it.
    """
    if any(directory.iterdir()):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(directory))
    # If two campaigns start at the same time, this call succeeds for only one.
    (directory / _FOLDERS[0]).mkdir()
    try:
        for name in _FOLDERS[1:]:
            (directory / name).mkdir()
        for name, content in files.items():
            write_durably(directory / name, content)
        fsync_directory(directory)
    except OSError:
        for name in _FOLDERS:
            shutil.rmtree(directory / name, ignore_errors=True)
        for name in files:
            (directory / name).unlink(missing_ok=True)
        raise


def _head_files(study_text: str, plan: Plan, environment: dict[str, Any]) -> dict[str, bytes]:
    study, about = study_text.encode(), to_json(environment)
    result = {
        "schema_version": SCHEMA_VERSION,
        "storlab_version": __version__,
        "created_at": utc_now_iso(),
        "sha256": {
            "study.toml": hashlib.sha256(study).hexdigest(),
            "environment.json": hashlib.sha256(about).hexdigest(),
        },
    }
    return {
        "study.toml": study,
        "environment.json": about,
        "plan.json": _plan_file(plan),
        "result.json": to_json(result),
    }


def _plan_file(plan: Plan) -> bytes:
    return to_json({"plan_hash": plan.plan_hash, **plan.dump()})


def _write_tree(directory: Path, files: Mapping[str, bytes]) -> None:
    parents = {directory}
    for name, content in files.items():
        path = directory / name
        if path.parent not in parents:
            path.parent.mkdir(parents=True)
            parents |= {path.parent, path.parent.parent}
        write_durably(path, content)
    for parent in parents:
        fsync_directory(parent)


def _remove_if_dead(leftover: Path) -> None:
    try:
        handle = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return  # another process has finished or removed it
    try:
        if try_lock_exclusive(handle):  # without locks it is unknown whether the writer lives
            shutil.rmtree(leftover, ignore_errors=True)
    except BlockingIOError:
        pass  # the process that writes it is running
    finally:
        os.close(handle)
