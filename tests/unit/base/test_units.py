"""Parsing, rejection and display of sizes and durations."""

from __future__ import annotations

import pytest

from storlab.base.nearest import nearest, suggest
from storlab.base.units import (
    LARGEST,
    exact_duration,
    exact_number,
    format_bytes_si,
    format_duration,
    format_latency,
    format_quantity,
    format_size,
    parse_duration,
    parse_size,
    significant,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("4KiB", 4096),
        ("4KB", 4000),
        ("4kib", 4096),
        ("1.5TB", 1_500_000_000_000),
        ("0.5KiB", 512),
        ("245.76TB", 245_760_000_000_000),
        (" 1 MiB ", 1 << 20),
        ("1_000B", 1000),
        ("7", 7),
        (7, 7),
        ("0", 0),
    ],
)
def test_sizes_are_exact(text: str | int, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64K", "write KiB"),
        ("1g", "write GiB"),
        ("4 parsecs", 'unknown unit "parsecs"'),
        ("0.3B", "not a whole number of bytes"),
        ("0.1KiB", "not a whole number of bytes"),
        ("-4KiB", "is not a size"),
        ("", "is not a size"),
        (-1, "negative"),
        (True, "true is not a size"),
        (1.5, "is not a size"),
        (None, "is not a size"),
        ("9000PiB", "too large for a size"),
        (LARGEST + 1, "too large for a size"),
        ("9" * 5000, "is not a size"),
    ],
)
def test_other_sizes_are_refused_with_the_reason(text: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_size(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("300s", 300_000_000_000),
        ("10min", 600_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("250ms", 250_000_000),
        ("3us", 3_000),
        ("9ns", 9),
        ("2", 2_000_000_000),
        (2, 2_000_000_000),
        (0.25, 250_000_000),
    ],
)
def test_durations_are_exact(text: str | float, duration_ns: int) -> None:
    assert parse_duration(text) == duration_ns
    assert parse_duration(exact_duration(duration_ns)) == duration_ns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5m", 'unknown unit "m"'),
        ("1.5ns", "not a whole number of nanoseconds"),
        (-1, "negative"),
        (False, "false is not a duration"),
        (float("nan"), "nan is not a duration"),
        (float("inf"), "inf is not a duration"),
        (1e30, "too large for a size or duration"),
    ],
)
def test_other_durations_are_refused_with_the_reason(text: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_duration(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size_bytes", "exact", "shown"),
    [
        (0, "0B", "0 B"),
        (999, "999B", "999 B"),
        (4096, "4KiB", "4.1 KB"),
        (262_144, "256KiB", "262 KB"),
        (999_999_999, "999999999B", "1 GB"),
        (1_500_000_000_000, "1500GB", "1.5 TB"),
        (2**50, "1PiB", "1.13 PB"),
        (4 * 10**18, "4000PB", "4000 PB"),
    ],
)
def test_sizes_are_shown_in_both_spellings(size_bytes: int, exact: str, shown: str) -> None:
    assert format_size(size_bytes) == exact
    assert format_bytes_si(size_bytes) == shown


@pytest.mark.parametrize(
    ("duration_ns", "shown"),
    [
        (0, "0 s"),
        (250_000_000, "250 ms"),
        (95 * 10**9, "95 s"),
        (185 * 10**9, "3 min 5 s"),
        (600 * 10**9, "10 min"),
        (144_000 * 10**9, "40 h"),
        (8_400 * 10**9, "2 h 20 min"),
    ],
)
def test_durations_are_shown_for_people(duration_ns: int, shown: str) -> None:
    assert format_duration(duration_ns) == shown


@pytest.mark.parametrize(
    ("latency_ns", "shown"),
    [
        (0, "0 ns"),
        (85_100, "85.1 µs"),
        (999_999, "1.00 ms"),
        (2_500_000_000, "2.50 s"),
        (4_000_000_000_000, "4,000 s"),
        (0.000_015, "0.0000150 ns"),
    ],
)
def test_latencies_never_show_an_exponent(latency_ns: float, shown: str) -> None:
    assert format_latency(latency_ns) == shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1_234_000, "ns", "1.23 ms"),
        (8210.4, "MB/s", "8,210 MB/s"),
        (36_850, "1/s", "36,850 /s"),
        (3.5, "1", "3.50"),
        (0.97, "x", "0.970 x"),
        (1.5e-5, "s/GB", "0.0000150 s/GB"),
        (99.96, "W", "100 W"),
        (0.0, "MB/s", "0 MB/s"),
    ],
)
def test_quantities_are_told_in_their_unit(value: float, unit: str, shown: str) -> None:
    assert format_quantity(value, unit) == shown


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (12_345.6, 4, "12,350"),
        (1024.3, 3, "1,020"),
        (99.96, 3, "100"),
        (2.5, 4, "2.5"),
        (1.234e-5, 2, "0.000012"),
        (0.0, 3, "0"),
    ],
)
def test_significant_digits_never_show_an_exponent(value: float, digits: int, shown: str) -> None:
    assert significant(value, digits) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1_500_000.0, "1500000"),
        (1_234_567, "1234567"),
        (10**16 + 1, "10000000000000001"),
        (0.1 + 0.2, "0.3"),
        (1e-5, "0.00001"),
        (70.0, "70"),
        (-0.0, "0"),
    ],
)
def test_declared_numbers_are_shown_in_full(value: float, shown: str) -> None:
    assert exact_number(value) == shown


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("Block_Szie", ["jobs", "block_size"]) == "block_size"
    assert nearest("zzz", ["jobs", "block_size"]) is None
    assert suggest("job", ["jobs", "batch"]) == 'did you mean "jobs"?'
    assert suggest("zzz", ["jobs", "batch"]) == "use one of jobs, batch"
