"""Study text made from the tables of a translation."""

from __future__ import annotations

import tomllib

import pytest

from storlab.base.errors import StudyError
from storlab.contracts.translation import Remark, TranslatedTable, Translation
from storlab.lab.study.translated import study_text


def _translation(**fields: object) -> Translation:
    return Translation(
        targets=[TranslatedTable("file of a.job", {"name": "a", "path": "a.dat", "size": "1GiB"})],
        workloads=[
            TranslatedTable(
                "job [x], a.job:3",
                {"kind": "block", "name": 'x "1"', "targets": ["a"], **fields},
                {"name": "line one\nline two"},
            )
        ],
        remarks=[Remark("a.job:4", "turbo=1", "has no effect here; " + "word " * 40)],
        ramp_ns=2_500_000_000,
        runtime_ns=60_000_000_000,
    )


def test_the_text_is_a_study_with_the_given_fields() -> None:
    weights = {"4KiB": 70, "64KiB": 30.0}
    text = study_text(_translation(block_size=weights, read_percent=70.0), "a.job")
    study = tomllib.loads(text)
    assert study["study"] == {"name": "a.job", "repeats": 3, "ramp": "2500ms", "runtime": "1min"}
    assert study["target"] == [{"name": "a", "path": "a.dat", "size": "1GiB"}]
    (workload,) = study["workload"]
    assert workload["name"] == 'x "1"'
    assert workload["block_size"] == weights
    assert workload["read_percent"] == 70
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert max(map(len, comments)) <= 100
    assert any("a.job:4: turbo=1" in line for line in comments)


def test_a_value_that_no_study_has_is_named_with_its_job() -> None:
    with pytest.raises(StudyError) as error:
        study_text(_translation(queue_depth=0), "a.job")
    assert "job [x], a.job:3" in error.value.where
    assert "queue_depth" in error.value.where
