"""Bounds are printed in the field's unit: 1ms rather than 1000000."""

from __future__ import annotations

import pytest

from storlab.base.errors import StudyError
from storlab.lab.study.file import parse_study
from storlab.meters.options import read_options
from storlab.meters.quarch import QuarchOptions
from storlab.model.study import MeterSpec, Target

BLOCK = """
[study]
name = "t"
{study}
[[target]]
name = "n"
path = "null:"
{target}
[[workload]]
kind = "block"
{workload}
{more}
"""
TRAINING = """
[study]
name = "t"
[[target]]
name = "n"
directory = "/mnt/n"
[[workload]]
kind = "training"
profile = "unet3d-h100"
accelerators = 1
{workload}
"""


@pytest.mark.parametrize(
    ("fields", "bound", "value"),
    [
        ({"study": 'interval = "1us"'}, "1ms", "1us"),
        ({"study": "interval = 0.0000005"}, "1ms", "500ns"),
        ({"study": 'runtime = "0s"'}, "0s", "0s"),
        ({"target": 'stripe_chunk = "0B"'}, "0B", "0B"),
        ({"workload": 'total_bytes = "0KiB"'}, "0B", "0KiB"),
        ({"workload": "rate_iops = 2e9"}, "1000000000", "2000000000"),
        ({"workload": "rate_iops = [1000, -1]"}, "0", "-1"),
        ({"more": '[rack]\npower_budget = "0W"'}, "0W", "0W"),
    ],
)
def test_a_bound_of_a_study_has_the_unit_of_its_field(
    fields: dict[str, str], bound: str, value: str
) -> None:
    text = BLOCK.format(**{"study": "", "target": "", "workload": "", "more": "", **fields})
    with pytest.raises(StudyError) as caught:
        parse_study(text)
    what = caught.value.what
    assert what.split(", not ")[0].endswith(f" {bound}")
    assert what.split(", not ")[1] == value


def test_a_bound_of_a_family_has_the_unit_of_its_field() -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(TRAINING.format(workload='read_size = "2GiB"'))
    assert "1GiB" in caught.value.what
    assert "2GiB" in caught.value.what


def test_a_bound_of_a_meter_has_the_unit_of_its_field() -> None:
    spec = MeterSpec.model_validate({"kind": "quarch", "period": "10ns"})
    with pytest.raises(StudyError) as caught:
        read_options(QuarchOptions, spec, Target(name="n", path="null:"))
    (period,) = (p["what"] for p in caught.value.problems if p["where"].endswith("period"))
    assert "1us" in period
    assert "10ns" in period
