"""Gains between two points of a swept parameter of one configuration."""

from __future__ import annotations

import pytest

from storlab.audit import audit_table
from support.audit_tables import PLACE, cell, claim, severities, table

RULE = "swept_gains"
Row = dict[str, str]
OPEN = dict.fromkeys((*PLACE, "x_name", "x_value"), "")


def _cells(config: str = "A") -> list[Row]:
    """Return cells with 3.9x from 256 KB to 4 MB in one mix, and 14.8x in the other."""
    values = {("30/70", "256KB"): "735", ("30/70", "4MB"): "2,871"}
    values |= {("70/30", "256KB"): "161", ("70/30", "4MB"): "2,379"}
    return [
        cell("throughput", value, "MB/s", config, rw_mix=mix, block_size=size)
        for (mix, size), value in values.items()
    ]


def _gain(metric: str, printed: str, unit: str = "x", to: str = "A", **more: str) -> Row:
    return claim(metric, printed, unit, to=to, **{**OPEN, "qualifier": "approx", **more})


SPELLINGS = [
    {"metric": "block_size_gain", "to": ""},
    {"metric": "block_size_gain"},
    {"metric": "throughput_gain_block_size", "to": ""},
    {"metric": "throughput_ratio"},
    {"metric": "block_size_speedup", "to": ""},
    {"metric": "throughput_gain", "to": "", "block_size": "256KB -> 4MB"},
    {"metric": "throughput_gain", "to": "", "block_size": "4MB vs 256KB"},
    {"metric": "throughput_gain", "to": "", "x_name": "block_size"},
    {"metric": "gain", "to": "", "x_name": "block_size", "x_value": "256KB to 4MB"},
    {"metric": "throughput_ratio", "block_size": "4MB"},
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("kind", ["ratio_claim", "headline_claim"])
@pytest.mark.parametrize("qualifier", ["exact", "approx", "up_to", "more_than", "headline"])
def test_a_gain_that_no_cell_gives_is_found(
    spelling: dict[str, str], kind: str, qualifier: str
) -> None:
    made = _gain(printed="17", **{**spelling, "kind": kind, "qualifier": qualifier})
    found = audit_table(table(*_cells(), made))
    found = [f for f in found if f.severity != "note" and "005" in f.rows]
    assert [f.rule for f in found] == [RULE]
    assert found[0].rows[:3] == ["005", "004", "003"]  # the nearest cells


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("printed", ["14.8", "3.9"])
def test_a_gain_that_a_cell_gives_is_left_alone(spelling: dict[str, str], printed: str) -> None:
    made = _gain(printed=printed, **spelling)
    found = audit_table(table(*_cells(), made))
    assert [f for f in found if "005" in f.rows and f.rule != "missing"] == []


def test_a_mean_over_cells_is_left_alone() -> None:
    assert severities(RULE, *_cells(), _gain("block_size_gain", "9.3", to="")) == []


def test_a_gain_at_one_mix_is_held_against_that_mix() -> None:
    assert severities(RULE, *_cells(), _gain("block_size_gain", "14.8", rw_mix="30/70")) == [
        "error"
    ]


def test_a_gain_in_percent() -> None:
    assert severities(RULE, *_cells(), _gain("throughput_increase", "1,380", "%")) == []
    assert severities(RULE, *_cells(), _gain("throughput_increase", "1,600", "%")) == ["error"]


def test_a_latency_that_falls_with_depth() -> None:
    rows = [cell("latency_avg", v, "ms", at=at) for at, v in (("1", "0.80"), ("8", "2.00"))]
    assert severities(RULE, *rows, _gain("latency_reduction", "60", "%", x_name="jobs")) == []
    assert severities(RULE, *rows, _gain("latency_reduction", "80", "%", x_name="jobs")) == [
        "error"
    ]


def test_scaling_over_the_operating_point() -> None:
    rows = [cell("iops", v, "IOPS", at=at) for at, v in (("1", "100.0"), ("8", "750.0"))]
    assert severities(RULE, *rows, _gain("iops_ratio", "7.5", to="", x_name="jobs")) == []
    assert severities(RULE, *rows, _gain("iops_ratio", "8.0", to="", x_name="jobs")) == ["error"]
    assert severities(RULE, *rows, _gain("jobs_scaling", "8.0", to="")) == ["error"]


def test_a_counterpart_that_the_table_does_not_name_is_no_gain_of_a_sweep() -> None:
    assert severities(RULE, *_cells(), _gain("throughput_increase", "30", "%", to="")) == []


def test_a_gain_over_block_size_without_cells_is_left_alone() -> None:
    assert severities(RULE, *_cells()[::2], _gain("block_size_gain", "16", to="")) == []
    assert severities(RULE, *_cells("B"), _gain("block_size_gain", "16", to="")) == []


def test_a_ratio_of_the_block_sizes_themselves_is_left_alone() -> None:
    assert severities(RULE, *_cells(), _gain("block_size_ratio", "16", to="")) == []
