"""Reading a result directory: every problem becomes a ResultError that names the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storlab.base.errors import ResultError
from storlab.contracts.registry import FAMILIES
from storlab.lab.results.consistency import contradiction
from storlab.lab.results.files import check_version, damaged, json_object, plan_object, read_summed
from storlab.model.point import Plan, PlannedRun, Point, about_run
from storlab.model.result import RunRecord
from storlab.model.study import StudyBase


def read_study(directory: Path, result: dict[str, Any]) -> tuple[str, StudyBase]:
    """``study.toml``: its text and what it says."""
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
    """``environment.json``."""
    path = directory / "environment.json"
    environment = json_object(path, read_summed(path, result))
    check_version(path, environment)
    return environment


def read_plan(directory: Path) -> Plan:
    """``plan.json``, after checking its hash."""
    path = directory / "plan.json"
    value = plan_object(directory)
    stored_hash = value.pop("plan_hash", None)
    try:
        plan = Plan.model_validate(value)
    except ValidationError as error:
        raise damaged(path, _first_of(error)) from error
    if plan.plan_hash != stored_hash:
        raise damaged(path, f"its hash is {plan.plan_hash}, and it says {stored_hash}")
    for point in plan.points.values():
        _check_params(path, point)
    return plan


def validate_record(run_dir: Path, content: bytes, run_id: str, ramp_ns: int = 0) -> RunRecord:
    """Return the record in ``run.json`` after checking it.

    Args:
        run_dir: The folder of the run, for messages.
        content: The text of the file.
        run_id: The run that it must be of.
        ramp_ns: Load before the measure window, as the study has it.

    Raises:
        ResultError: The text is no record of that run, a value cannot be, or two contradict.
    """
    path = run_dir / "run.json"
    try:
        record = RunRecord.model_validate_json(content)
    except ValidationError as error:
        # These say more where it is not JSON at all, or of another version.
        check_version(path, json_object(path, content, run_dir), run_dir)
        raise damaged(path, _first_of(error), run_dir) from error
    try:
        if record.status == "finished" and record.kind in FAMILIES:
            FAMILIES[record.kind].details.of(record)
    except ValidationError as error:
        raise damaged(path, f"its details: {_first_of(error)}", run_dir) from error
    _check_params(path, record, run_dir)
    if b"NaN" in content or b"Infinity" in content:  # where no model looks: in details
        json_object(path, content, run_dir)
    if problem := contradiction(record, ramp_ns):
        raise damaged(path, problem, run_dir)
    if record.run_id != run_id:
        raise damaged(path, f"it is the record of {record.run_id}", run_dir)
    return record


def check_planned(run_dir: Path, record: RunRecord, planned: PlannedRun, point: Point) -> None:
    """Raise ResultError if a record is not of its run and point as the plan has them."""
    for name, value in about_run(planned, point).items():
        if getattr(record, name) != value:
            raise damaged(run_dir / "run.json", f"{name}: it is not that of the plan", run_dir)


def _first_of(error: ValidationError | tomllib.TOMLDecodeError) -> str:
    """Name the first field that a model refuses, and why; or say why TOML cannot be read."""
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
