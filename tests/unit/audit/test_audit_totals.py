"""Totals against their parts."""

from __future__ import annotations

import pytest

from support.audit_tables import cell, fact, findings, severities

RULE = "totals"


@pytest.mark.parametrize("ops", [("GET", "PUT", "total"), ("read", "write", "read+write")])
@pytest.mark.parametrize(("total", "expected"), [("8,473", []), ("8,900", ["error"])])
def test_operations_make_the_total(
    ops: tuple[str, str, str], total: str, expected: list[str]
) -> None:
    values = zip(ops, ("7,626", "847", total), strict=True)
    rows = [cell("throughput", value, "MB/s", op=op) for op, value in values]
    assert severities(RULE, *rows) == expected


def test_operations_in_names_and_other_units() -> None:
    parts = [
        cell("read_bandwidth", "7.626", "GB/s", op=""),
        cell("write_bw_mb_s", "847", "", op=""),
    ]
    assert severities(RULE, *parts, cell("total_throughput", "8,473", "MB/s", op="")) == []
    assert severities(RULE, *parts, cell("total_throughput", "7,626", "MB/s", op="")) == ["error"]


def test_other_requests_may_be_counted_and_maxima_need_not_coincide() -> None:
    requests = [cell("iops", v, "ops/s", op=o) for o, v in (("GET", "45"), ("PUT", "15"))]
    assert severities(RULE, *requests, cell("iops", "100", "ops/s", op="total")) == []
    assert severities(RULE, *requests, cell("iops", "50", "ops/s", op="total")) == ["error"]
    best = {"qualifier": "up_to"}
    maxima = [cell("throughput", "60", "MB/s", op=o, **best) for o in ("read", "write")]
    assert severities(RULE, *maxima, cell("throughput", "100", "MB/s", op="all", **best)) == []
    assert severities(RULE, *maxima, cell("throughput", "130", "MB/s", op="all", **best)) != []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("drive_count", "16", "count"), ("drive_capacity", "16", "TB")], []),
        ([("drives", "14", "count"), ("drive_capacity", "16.0", "TB")], ["error"]),
        ([("ssd_count", "32", "count"), ("ssd_capacity_tb", "16.0", "")], ["error"]),
        ([("drive_capacity", "16.0", "TB")], []),
    ],
)
def test_drives_times_capacity(rows: list[tuple[str, str, str]], expected: list[str]) -> None:
    parts = [fact(*row) for row in rows]
    assert severities(RULE, *parts, fact("rated_capacity", "256", "TB")) == expected


@pytest.mark.parametrize(("raw", "expected"), [("461", []), ("460", []), ("486", ["error"])])
def test_drives_times_capacity_times_nodes(raw: str, expected: list[str]) -> None:
    rows = [
        fact("cluster_nodes", "6", "count", ""),
        fact("drives_per_node", "10", "count"),
        fact("drive_capacity", "7.68", "TB"),
        fact("storage_per_node", "76.8", "TB"),
        fact("raw_cluster_capacity", raw, "TB", "A / B"),
    ]
    assert severities(RULE, *rows) == expected


@pytest.mark.parametrize(("memory", "expected"), [("768", []), ("824", []), ("256", ["error"])])
def test_memory_modules_in_gb_of_either_kind(memory: str, expected: list[str]) -> None:
    rows = [fact("dimms", "12", "count"), fact("dimm_size", "64", "GB")]
    assert severities(RULE, *rows, fact("memory", memory, "GB")) == expected


@pytest.mark.parametrize(("write", "expected"), [("30", []), ("40", ["error"])])
def test_shares_make_a_hundred(write: str, expected: list[str]) -> None:
    rows = [
        cell("read_share", "70", "%", op="", kind="config"),
        cell("write_share", write, "%", op="", kind="config"),
    ]
    assert severities(RULE, *rows) == expected


@pytest.mark.parametrize(("mix", "expected"), [("70/30", []), ("2/1", []), ("70/40", ["error"])])
def test_a_mix_makes_a_hundred(mix: str, expected: list[str]) -> None:
    rows = [cell("throughput", v, "MB/s", rw_mix=mix, at=v) for v in ("100", "200")]
    assert severities(RULE, *rows) == expected


@pytest.mark.parametrize(
    ("total", "expected"), [("35,500", []), ("30,000", ["error"]), ("41,000", ["warning"])]
)
def test_parts_of_a_cost(total: str, expected: list[str]) -> None:
    rows = [
        fact("server_cost", "20,500", "USD"),
        fact("network_cost", "5,000", "USD"),
        fact("storage_cost", "10,000", "USD"),
        fact("total_cost", total, "USD"),
    ]
    found = findings(RULE, *rows)
    assert [f.severity for f in found] == expected
    assert all(len(f.rows) == 4 for f in found)


def test_reads_writes_and_a_mix_may_be_three_tests() -> None:
    place = {"workload": "", "rw_mix": ""}
    rows = [
        cell("throughput", "7,000", "MB/s", op="read", **place),
        cell("throughput", "5,000", "MB/s", op="write", **place),
    ]
    assert severities(RULE, *rows, cell("throughput", "6,100", "MB/s", op="mixed", **place)) == []
    total = cell("throughput", "6,100", "MB/s", op="total", **place)
    assert severities(RULE, *rows, total) == ["error"]


def test_a_rated_capacity_may_be_that_of_one_drive() -> None:
    rows = [fact("drive_count", "16", "count"), fact("drive_capacity", "16", "TB")]
    assert severities(RULE, *rows, fact("rated_capacity", "16", "TB")) == []
    assert severities(RULE, *rows, fact("raw_capacity", "16", "TB")) == ["error"]


def test_memory_of_another_machine() -> None:
    rows = [
        fact("dimms", "12", "count", ""),
        fact("dimm_size", "64", "GB", ""),
        fact("memory", "768", "GB", ""),
    ]
    assert severities(RULE, *rows, fact("memory", "256", "GB", "")) == []
    assert severities(RULE, *rows[:2], fact("memory", "256", "GB", "")) == ["error"]


def test_other_places_and_configurations_are_no_parts() -> None:
    rows = [
        cell("throughput", "10", "MB/s", op="GET", at="1"),
        cell("throughput", "10", "MB/s", op="PUT", at="8"),
        cell("throughput", "90", "MB/s", op="total", at="8"),
        cell("throughput", "10", "MB/s", "B", op="GET"),
    ]
    assert severities(RULE, *rows) == []
