"""Reading a result directory: every problem becomes a ResultError that names the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storlab.base.errors import ResultError
from storlab.contracts.registry import FAMILIES
from storlab.lab.results.files import check_version, damaged, json_object, plan_object, read_summed
from storlab.model.point import Plan, Point
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
            str(path), f"cannot be read: {error}", "read it with the storlab version that wrote it"
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
        raise damaged(path, str(error)) from error
    if plan.plan_hash != stored_hash:
        raise damaged(path, f"its hash is {plan.plan_hash}, and it says {stored_hash}")
    for point in plan.points.values():
        _check_params(path, point)
    return plan


def validate_record(run_dir: Path, content: bytes, run_id: str) -> RunRecord:
    """The record in ``run.json``, which must be that of ``run_id``."""
    path = run_dir / "run.json"
    try:
        record = RunRecord.model_validate_json(content)
    except ValidationError as error:
        value = json_object(path, content)  # which says more where it is not JSON at all
        check_version(path, value)
        raise damaged(path, str(error), run_dir) from error
    try:
        if record.status == "finished" and record.kind in FAMILIES:
            FAMILIES[record.kind].details.of(record)
    except ValidationError as error:
        raise damaged(path, f"its details: {error}", run_dir) from error
    _check_params(path, record, run_dir)
    if record.run_id != run_id:
        raise damaged(path, f"it is the record of {record.run_id}", run_dir)
    return record


def _check_params(path: Path, of: Point | RunRecord, run_dir: Path | None = None) -> None:
    if of.kind in FAMILIES:
        try:
            FAMILIES[of.kind].spec.params.of(of.params)
        except ValidationError as error:
            raise damaged(path, f"its params: {error}", run_dir) from error
