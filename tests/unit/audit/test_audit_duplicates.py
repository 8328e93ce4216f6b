"""One cell printed twice."""

from __future__ import annotations

import pytest

from support.audit_tables import cell, claim, fact, findings, severities

RULE = "duplicates"
Printed = tuple[str, str, str]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (("latency_avg", "1,607", "ms"), ("latency_avg", "1,606.80", "ms"), []),
        (("latency_avg", "1,606.80", "ms"), ("latency_mean", "1.607", "s"), []),
        (("latency_avg", "1,606.80", "ms"), ("lat_avg_ms", "1,660.80", ""), ["error"]),
        (("throughput", "4,168", "MB/s"), ("tput", "4.2", "GB/s"), []),
        (("throughput", "4,168", "MB/s"), ("tput", "4.4", "GB/s"), ["error"]),
        (("energy", "3,600", "J"), ("energy", "1.00", "Wh"), []),
        (("energy", "3,600", "J"), ("energy_wh", "1.20", ""), ["error"]),
        (("latency_p50", "1.0", "ms"), ("latency_p99", "9.0", "ms"), []),
    ],
)
def test_one_measured_cell(a: Printed, b: Printed, expected: list[str]) -> None:
    found = findings(RULE, cell(*a), cell(*b))
    assert [f.severity for f in found] == expected
    assert all(f.rows == ["001", "002"] for f in found)


@pytest.mark.parametrize(
    "change", [{"x_value": "1"}, {"op": "read"}, {"config": "B"}, {"block_size": "4MB"}]
)
def test_another_cell_may_differ(change: dict[str, str]) -> None:
    first = cell("throughput", "4,168", "MB/s")
    assert severities(RULE, first, {**cell("throughput", "735", "MB/s"), **change}) == []


def test_unnamed_operating_points_may_be_two() -> None:
    rows = [cell("throughput", v, "MB/s", at="not_stated") for v in ("4,168", "735")]
    assert severities(RULE, *rows) == ["warning"]


def test_claims_are_printed_twice_as_well() -> None:
    assert severities(RULE, claim("throughput_ratio", "56"), claim("throughput_ratio", "56")) == []
    rows = [claim("throughput_ratio", "56"), claim("throughput_ratio", "65")]
    assert severities(RULE, *rows) == ["error"]
    up_to = claim("throughput_ratio", "65", qualifier="up_to")
    assert severities(RULE, claim("throughput_ratio", "56"), up_to) == []


def test_ends_of_a_range_are_two_numbers() -> None:
    ends = {"30": "range_min", "50": "range_max"}
    rows = [cell("latency_avg", v, "ms", qualifier=q) for v, q in ends.items()]
    assert severities(RULE, *rows) == []
    claims = [claim("throughput_ratio", v, qualifier=q) for v, q in ends.items()]
    assert severities(RULE, *claims) == []


def test_what_names_no_place_may_be_of_two() -> None:
    place = dict.fromkeys(("workload", "rw_mix", "block_size", "op", "x_name", "x_value"), "")
    rows = [claim("throughput_ratio", v, **place) for v in ("3", "9")]
    assert severities(RULE, *rows) == ["warning"]
    memory = [fact("memory", v, "GB", "") for v in ("256", "768")]
    assert severities(RULE, *memory) == ["note"]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (("ramp_time", "300", "s"), ("ramp_time", "5", "min"), []),
        (("ramp_time", "300", "s"), ("ramp_time", "10", "min"), ["warning"]),
        (("memory", "768", "GB"), ("memory", "256", "GB"), ["warning"]),
        (("memory_total", "1.5", "TB"), ("memory_total", "1,536", "GB"), []),
        (("rated_capacity", "245", "TB"), ("tested_capacity", "256", "TB"), []),
        (("block_size", "256", "KB"), ("block_size", "4", "MB"), []),
        (("jobs_tested", "1", "count"), ("jobs_tested", "8", "count"), []),
        (("iodepth", "1", "count"), ("iodepth", "64", "count"), []),
        (("drive_count", "16", "count"), ("drive_count", "24", "count"), ["warning"]),
    ],
)
def test_facts_of_the_setup(a: Printed, b: Printed, expected: list[str]) -> None:
    assert severities(RULE, fact(*a), fact(*b)) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("3.4.1", "3.41", ["warning"]),
        ("3.29", "3.41", ["warning"]),
        ("3.41", "v3.41", []),
        ("20.04", "20.04.6", []),
        ("5.15.0-105", "5.15.0-105-generic", []),
        ("3.4", "3.41", ["warning"]),
    ],
)
def test_versions(a: str, b: str, expected: list[str]) -> None:
    rows = [fact("fio_version", text, "version", "", value=text) for text in (a, b)]
    assert severities(RULE, *rows) == expected
