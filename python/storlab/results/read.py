"""Read and validate the files of a result directory; all errors are ResultErrors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storlab.base.errors import ResultError
from storlab.contracts.registry import FAMILIES
from storlab.model.point import Plan, PlannedRun, Point, about_run
from storlab.model.result import RunRecord
from storlab.model.study import StudyBase
from storlab.results.consistency import contradiction
from storlab.results.files import check_version, damaged, json_object, plan_object, read_summed


def read_study(directory: Path, result: dict[str, Any]) -> tuple[str, StudyBase]:
    """Read ``study.toml``, verify its checksum in ``result``, and return its text and the study."""
    from storlab.contracts.registry import study_class

    path = directory / "study.toml"
    text = read_summed(path, result).decode()
    try:
        return text, study_class().model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise ResultError(
            str(path),
            f"cannot be read: {_first_of(error)}",
            "read it with the storlab version that wrote it",
        ) from error


def read_environment(directory: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Read ``environment.json``; verify its checksum in ``result`` and its format version."""
    path = directory / "environment.json"
    environment = json_object(path, read_summed(path, result))
    check_version(path, environment)
    return environment


def read_plan(directory: Path) -> Plan:
    """Read and validate ``plan.json``, and verify its hash."""
    path = directory / "plan.json"
    value = plan_object(directory)
    stored_hash = value.pop("plan_hash", None)
    try:
        plan = Plan.model_validate(value)
    except ValidationError as error:
        raise damaged(path, _first_of(error)) from error
    if plan.plan_hash != stored_hash:
        raise damaged(path, f"its hash is {plan.plan_hash}, but plan_hash is {stored_hash}")
    for point in plan.points.values():
        _check_params(path, point)
    return plan


def validate_record(run_dir: Path, content: bytes, run_id: str, ramp_ns: int = 0) -> RunRecord:
    """Parse and validate the content of a ``run.json``.

    Args:
        run_dir: Folder of the run, for messages.
        content: Content of the file.
        run_id: Expected id of the run.
        ramp_ns: Length of the study's ramp, the load before the measure window.

    Raises:
        ResultError: The content is not a record of this run, or a value is impossible or
            contradicts another.
    """
    path = run_dir / "run.json"
    try:
        record = RunRecord.model_validate_json(content)
    except ValidationError as error:
        # These raise a better error if the content is not JSON, or has another format version.
        check_version(path, json_object(path, content, run_dir), run_dir)
        raise damaged(path, _first_of(error), run_dir) from error
    try:
        if record.status == "finished" and record.kind in FAMILIES:
            FAMILIES[record.kind].details.of(record)
    except ValidationError as error:
        raise damaged(path, f"its details: {_first_of(error)}", run_dir) from error
    _check_params(path, record, run_dir)
    if b"NaN" in content or b"Infinity" in content:  # in the details, which no model validates
        json_object(path, content, run_dir)
    if problem := contradiction(record, ramp_ns):
        raise damaged(path, problem, run_dir)
    if record.run_id != run_id:
        raise damaged(path, f"it is the record of another run, {record.run_id}", run_dir)
    return record


def check_planned(run_dir: Path, record: RunRecord, planned: PlannedRun, point: Point) -> None:
    """Check that a run's record agrees with the plan about its point and repeat.

    Raises:
        ResultError: A field differs.
    """
    for name, value in about_run(planned, point).items():
        if getattr(record, name) != value:
            raise damaged(run_dir / "run.json", f"{name}: it differs from the plan", run_dir)


def _first_of(error: ValidationError | tomllib.TOMLDecodeError) -> str:
    """Return the first invalid field and the reason, or the message of a TOML error."""
    if isinstance(error, tomllib.TOMLDecodeError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _check_params(path: Path, of: Point | RunRecord, run_dir: Path | None = None) -> None:
    if of.kind in FAMILIES:
        try:
            FAMILIES[of.kind].spec.params.of(of.params)
        except ValidationError as error:
            raise damaged(path, f"its params: {_first_of(error)}", run_dir) from error
