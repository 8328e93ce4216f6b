"""Details and parameters of a run as family models, from old and new results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ResultError
from storlab.base.units import NS_PER_S
from storlab.contracts.registry import FAMILIES
from storlab.model.result import EngineInfo, RunRecord
from storlab.results.read import validate_record
from storlab.workloads.checkpoint.params import CheckpointParams

EPOCH: dict[str, Any] = {
    "start_ns": 1,
    "end_ns": 5,
    "bytes": 7,
    "samples": 2,
    "accelerators": [],
}


def record(kind: str, details: dict[str, Any], status: str = "finished") -> RunRecord:
    return RunRecord.model_validate(
        {
            "run_id": "p-r1",
            "point_id": "p",
            "repeat": 1,
            "target": "t",
            "workload": "w",
            "kind": kind,
            "params": {"profile": "unet3d-h100"},  # required by some families
            "status": status,
            "engine": EngineInfo(name="native", version="0"),
            "started_at": "2026-11-20T10:00:00+00:00",
            "window_start_ns": 0,
            "window_end_ns": 9,
            "totals": {},
            "details": details,
        }
    )


@pytest.mark.parametrize("kind", FAMILIES)
def test_what_older_versions_did_not_tell_has_a_default(kind: str) -> None:
    told = FAMILIES[kind].details.of(record(kind, {}))
    assert told.device is None


@pytest.mark.parametrize("kind", FAMILIES)
def test_what_nobody_here_knows_is_kept(kind: str, tmp_path: Path) -> None:
    stored = record(kind, {"of_tomorrow": {"value": 1}, "device": {"read_bytes": 3, "more": 4}})
    read = validate_record(tmp_path, stored.model_dump_json().encode(), "p-r1")
    assert read.details == stored.details
    told = FAMILIES[kind].details.of(read)
    assert told.device is not None
    assert told.device.read_bytes == 3
    assert told.model_dump()["of_tomorrow"] == {"value": 1}


@pytest.mark.parametrize(
    ("kind", "details", "field"),
    [
        ("training", {"epochs": [EPOCH, {**EPOCH, "bytes": "many"}]}, "epochs.1.bytes"),
        ("checkpoint", {"writes": [{"start_ns": 1, "bytes": 2}]}, "writes.0.durable_ns"),
        ("preprocess", {"stages": [{"rows": "many"}]}, "stages.0.rows"),
        ("object", {"error_examples": {"timeout": 3}}, "error_examples.timeout"),
        ("block", {"device": {}}, "device.read_bytes"),
    ],
)
def test_details_that_are_damaged_are_told_by_their_field(
    kind: str, details: dict[str, Any], field: str, tmp_path: Path
) -> None:
    content = json.dumps(record(kind, details).dump()).encode()
    with pytest.raises(ResultError) as caught:
        validate_record(tmp_path, content, "p-r1")
    assert field in str(caught.value)
    failed = record(kind, details, status="failed")  # a failed run may have incomplete details
    assert validate_record(tmp_path, failed.model_dump_json().encode(), "p-r1") == failed


@pytest.mark.parametrize(
    ("kind", "params", "field"),
    [
        ("block", {"queue_depth": "deep"}, "queue_depth"),
        ("object", {"object_size": 0}, "object_size"),
        ("checkpoint", {"profile": "p", "scale": 0}, "scale"),
        ("training", {"computation_time": -1}, "computation_time"),
        ("preprocess", {"numerical": "float8"}, "numerical"),
    ],
)
def test_params_that_are_damaged_are_told_by_their_field(
    kind: str, params: dict[str, Any], field: str, tmp_path: Path
) -> None:
    damaged = record(kind, {}).model_copy(update={"params": params})
    with pytest.raises(ResultError) as caught:
        validate_record(tmp_path, damaged.model_dump_json().encode(), "p-r1")
    assert f"its params: {field}: " in str(caught.value)


def test_params_of_a_point_are_not_read_as_a_study_is() -> None:
    stored = {"profile": "p", "training_interval": 60}  # 60 seconds in a study
    told = CheckpointParams.of(stored)
    assert told.training_interval == 60
    assert (told.retries, told.preallocate) == (0, None)  # behaviour of older results
    assert told.request_timeout == 60 * NS_PER_S
