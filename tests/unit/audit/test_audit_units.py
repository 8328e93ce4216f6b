"""Mixed-up units, distinguished from merely wrong numbers."""

from __future__ import annotations

import pytest

from support.audit_tables import cell, fact, findings, severities

RULE = "units"


@pytest.mark.parametrize(
    ("printed", "unit", "expected"),
    [
        ("0.512", "ms", []),
        ("512", "ms", ["error"]),
        ("0.512", "us", ["error"]),
        ("700", "us", []),  # wrong, but not by a unit factor: reported by "duplicates"
    ],
)
def test_ms_and_us_of_one_cell(printed: str, unit: str, expected: list[str]) -> None:
    rows = [cell("latency_avg", "512", "us"), cell("latency_avg", printed, unit)]
    assert severities(RULE, *rows) == expected


@pytest.mark.parametrize(
    ("printed", "unit", "expected"),
    [("1,000.0", "MiB/s", ["warning"]), ("953.7", "MiB/s", []), ("1.000", "GB/s", [])],
)
def test_mb_and_mib_of_one_cell(printed: str, unit: str, expected: list[str]) -> None:
    rows = [cell("throughput", "1,000.0", "MB/s"), cell("bandwidth", printed, unit)]
    assert severities(RULE, *rows) == expected


def test_an_identity_that_is_off_by_a_thousand() -> None:
    rows = [
        fact("capacity", "245.76", "TB"),
        cell("throughput", "8,473", "MB/s"),
        cell("throughput_per_tb", "34.5", "GB/s/TB"),
    ]
    found = findings(RULE, *rows)
    assert [f.severity for f in found] == ["error"]
    assert "1,000" in found[0].why
    assert severities("identities", *rows) == []


def test_a_density_in_tib_called_tb() -> None:
    rows = [
        fact("capacity", "245.76", "TB"),
        cell("throughput", "8,473", "MB/s"),
        cell("throughput_per_tb", "37.91", "MB/s/TB"),
    ]
    found = findings(RULE, *rows)
    assert [f.severity for f in found] == ["warning"]
    assert "TB and TiB" in found[0].why


def test_iops_times_a_block_that_counts_in_1024s() -> None:
    rows = [
        cell("iops", "100,123", "IOPS", block_size="1MiB"),
        cell("throughput", "100,123", "MB/s", block_size="1MiB"),
    ]
    assert severities(RULE, *rows) == ["warning"]
    right = cell("throughput", "104,987", "MB/s", block_size="1MiB")
    assert severities(RULE, rows[0], right) == []


def test_a_data_set_of_1024_files() -> None:
    rows = [fact("files", "1,024", "count", ""), fact("file_size", "48", "GB", "")]
    assert severities(RULE, *rows, fact("data_set_size", "48", "TB", "")) == ["warning"]
    assert severities(RULE, *rows, fact("data_set_size", "49.2", "TB", "")) == []


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (("4", "MB"), ("4", "MiB"), ["warning"]),
        (("256", "KB"), ("256", "KiB"), ["warning"]),
        (("4", "MiB"), ("4", "MiB"), []),
        (("256", "KB"), ("4", "MiB"), []),
    ],
)
def test_one_size_in_two_units(a: tuple[str, str], b: tuple[str, str], expected: list[str]) -> None:
    assert severities(RULE, fact("object_size", *a), fact("object_size", *b)) == expected


def test_what_is_merely_wrong_is_for_identities() -> None:
    rows = [
        cell("power_efficiency", "145.6", "MB/s/W"),
        cell("energy_efficiency", "600", "TB/kWh"),
    ]
    assert severities(RULE, *rows) == []
    assert severities("identities", *rows) == ["error"]
