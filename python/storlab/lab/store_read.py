"""Reading a result directory: every problem becomes a ResultError that names the file."""

from __future__ import annotations

import gc
import hashlib
import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storlab.base.errors import ResultError
from storlab.model.point import Plan
from storlab.model.result import SCHEMA_VERSION, RunRecord
from storlab.model.study import StudyBase


def read_result(directory: Path) -> dict[str, Any]:
    """``result.json``, of a format that this version reads."""
    if not directory.is_dir():
        raise ResultError(
            str(directory), "is not a directory", "give the directory that run printed"
        )
    path = directory / "result.json"
    if not path.exists():
        raise ResultError(
            str(directory),
            "is not a result directory (no result.json)",
            "give the one that run printed",
        )
    result = _json_object(path, path.read_bytes())
    _check_version(path, result)
    return result


def read_study(directory: Path, result: dict[str, Any]) -> tuple[str, StudyBase]:
    """``study.toml``: its text and what it says."""
    from storlab.workloads import Study

    path = directory / "study.toml"
    text = _read_summed(path, result).decode()
    try:
        return text, Study.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise ResultError(
            str(path), f"cannot be read: {error}", "read it with the storlab version that wrote it"
        ) from error


def read_environment(directory: Path, result: dict[str, Any]) -> dict[str, Any]:
    """``environment.json``."""
    path = directory / "environment.json"
    environment = _json_object(path, _read_summed(path, result))
    _check_version(path, environment)
    return environment


def read_plan(directory: Path) -> Plan:
    """``plan.json``, after checking its hash."""
    path = directory / "plan.json"
    value = _json_object(path, _read(path))
    _check_version(path, value)
    said = value.pop("plan_hash", None)
    try:
        plan = Plan.model_validate(value)
    except ValidationError as error:
        raise _damaged(path, str(error)) from error
    if plan.plan_hash != said:
        raise _damaged(path, f"its hash is {plan.plan_hash}, and it says {said}")
    return plan


def read_checked(run_dir: Path, name: str) -> bytes:
    """One file of a run, after comparing it with the run's SHA256SUMS."""
    if not run_dir.is_dir():
        raise ResultError(str(run_dir), "is missing", "`storlab resume` measures missing runs")
    content = _read(run_dir / name)
    sums: dict[str, str] = {}
    for line in _read(run_dir / "SHA256SUMS").decode(errors="replace").splitlines():
        checksum, _, of_name = line.partition("  ")
        sums[of_name] = checksum
    if sums.get(name) != hashlib.sha256(content).hexdigest():
        raise _damaged(run_dir / name, "its content is not what was written", run_dir)
    return content


def validate_record(run_dir: Path, content: bytes, run_id: str) -> RunRecord:
    """The record in ``run.json``, which must be that of ``run_id``."""
    path = run_dir / "run.json"
    try:
        record = RunRecord.model_validate_json(content)
    except ValidationError as error:
        value = _json_object(path, content)  # which says more where it is not JSON at all
        _check_version(path, value)
        raise _damaged(path, str(error), run_dir) from error
    if record.run_id != run_id:
        raise _damaged(path, f"it is the record of {record.run_id}", run_dir)
    return record


@contextmanager
def without_collector() -> Iterator[None]:
    """While many objects are made that all stay, looking for garbage among them is lost time.

    It stays lost afterwards: what is there at the end is not looked at again. It has no circles,
    and goes when nothing refers to it any more.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ResultError(
            str(path),
            f"cannot be read: {error.strerror}",
            "restore it from a copy, or measure again",
        ) from error


def _read_summed(path: Path, result: dict[str, Any]) -> bytes:
    content = _read(path)
    if result.get("sha256", {}).get(path.name) != hashlib.sha256(content).hexdigest():
        raise _damaged(path, "its content is not what was written")
    return content


def _json_object(path: Path, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError as error:
        raise _damaged(path, f"it is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise _damaged(path, "it is not a JSON object")
    return value


def _check_version(path: Path, value: dict[str, Any]) -> None:
    found = value.get("schema_version")
    if found != SCHEMA_VERSION:
        raise ResultError(
            str(path),
            f"has format version {found}, and this storlab reads version {SCHEMA_VERSION}",
            "read it with the storlab version that wrote it",
        )


def _damaged(path: Path, why: str, run_dir: Path | None = None) -> ResultError:
    fix = "restore it from a copy"
    if run_dir is not None:
        fix = f"delete {run_dir} and `storlab resume` to measure that run again"
    return ResultError(str(path), f"is damaged: {why}", fix)
