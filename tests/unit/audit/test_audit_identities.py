"""Identities between metrics, in several spellings."""

from __future__ import annotations

import pytest

from support.audit_tables import cell, claim, fact, findings, severities

RULE = "identities"


@pytest.mark.parametrize(
    ("power", "energy", "expected"),
    [
        (("power_efficiency", "150.5", "MB/s/W"), ("energy_efficiency", "541.7", "TB/kWh"), []),
        (("power_efficiency", "145.6", "MB/s/W"), ("energy_efficiency", "512.9", "TB/kWh"), [1]),
        (("throughput_per_watt", "145.6", "MB/s/W"), ("TB/kWh", "524.1", "TB/kWh"), []),
        (("MB/s/W", "145.6", "MB/s/W"), ("tb_per_kwh", "530", ""), [1]),
        (("power_efficiency", "1.456", "GB/s/W"), ("energy_efficiency", "5,241", "TB/kWh"), []),
        (("power_efficiency", "100.0", "MB/J"), ("energy_per_tb", "10,000", "J/TB"), []),
        (("power_efficiency", "100.0", "MB/J"), ("energy_per_tb", "12,500", "J/TB"), [1]),
    ],
)
def test_energy_and_power_efficiency(
    power: tuple[str, str, str], energy: tuple[str, str, str], expected: list[int]
) -> None:
    found = findings(RULE, cell(*power), cell(*energy))
    assert len(found) == len(expected)
    assert all(f.severity == "error" and set(f.rows) == {"001", "002"} for f in found)


def test_efficiency_without_an_operation_is_that_of_all() -> None:
    rows = [
        cell("power_efficiency", "145.6", "MB/s/W", op="total"),
        cell("energy_efficiency", "600", "TB/kWh", op=""),
    ]
    assert severities(RULE, *rows) == ["error"]


@pytest.mark.parametrize(("efficiency", "expected"), [("250", []), ("205", ["error"])])
@pytest.mark.parametrize("power", [("power", "20.0", "W"), ("power_avg_w", "20.0", "")])
def test_throughput_over_watts(
    power: tuple[str, str, str], efficiency: str, expected: list[str]
) -> None:
    rows = [
        cell("throughput", "5,012", "MB/s"),
        cell(*power),
        cell("power_efficiency", efficiency, "MB/s/W"),
    ]
    assert severities(RULE, *rows) == expected


def test_peak_power_is_no_mean_power() -> None:
    rows = [
        cell("throughput", "5,012", "MB/s"),
        cell("power_max", "30.0", "W"),
        cell("power_efficiency", "250", "MB/s/W"),
    ]
    assert severities(RULE, *rows) == []


@pytest.mark.parametrize(
    ("rate", "density", "expected"),
    [
        (("throughput", "8,473", "MB/s"), ("throughput_per_tb", "34.6", "MB/s/TB"), []),
        (("throughput", "8,473", "MB/s"), ("throughput_per_tb", "39.6", "MB/s/TB"), ["error"]),
        (("bw", "8.473", "GB/s"), ("bw_per_tb", "34.5", "MB/s/TB"), []),
        (("iops", "5.2 million", "IOPS"), ("iops_per_tb", "21,159", "IOPS/TB"), []),
        (("iops", "5.2 million", "IOPS"), ("iops_per_tb", "26,000", "IOPS/TB"), ["error"]),
    ],
)
def test_per_tb_is_the_rate_over_any_stated_capacity(
    rate: tuple[str, str, str], density: tuple[str, str, str], expected: list[str]
) -> None:
    value = {"value": "5200000"} if "million" in rate[1] else {}
    rows = [
        fact("rated_capacity", "245", "TB"),
        fact("tested_capacity", "245.76", "TB"),
        cell(*rate, **value),
        cell(*density),
    ]
    assert severities(RULE, *rows) == expected


def test_the_capacity_of_one_drive_of_unknown_many_proves_nothing() -> None:
    rows = [
        fact("drive_capacity", "7.68", "TB"),
        cell("throughput", "104.0", "GB/s"),
        cell("throughput_per_tb", "0.23", "GB/s/TB"),
    ]
    assert severities(RULE, *rows) == []
    counts = [fact("drives_per_node", "10", "count"), fact("nodes", "6", "count", "")]
    assert severities(RULE, *rows, *counts) == []
    wrong = cell("throughput_per_tb", "0.33", "GB/s/TB")
    assert severities(RULE, *rows[:2], wrong, *counts) == ["error"]


@pytest.mark.parametrize(
    ("throughput", "expected"), [("1,000", []), ("1,024", []), ("1,300", ["error"])]
)
def test_iops_times_block_size(throughput: str, expected: list[str]) -> None:
    rows = [
        cell("iops", "250,123", "IOPS", block_size="4 KB"),
        cell("throughput", throughput, "MB/s", block_size="4KB"),
    ]
    assert severities(RULE, *rows) == expected


def test_requests_of_an_object_store_carry_no_block() -> None:
    rows = [
        cell("throughput", "700", "MB/s", op="GET"),
        cell("iops", "9,000", "ops/s", op="total", block_size="4MiB"),
        cell("throughput", "1,000", "MB/s", op="total", block_size="4MiB"),
    ]
    assert severities(RULE, *rows) == []


@pytest.mark.parametrize(("energy", "expected"), [("50", []), ("70", ["error"])])
def test_energy_is_power_times_time(energy: str, expected: list[str]) -> None:
    rows = [
        cell("power", "300", "W"),
        cell("elapsed_time", "10.0", "min"),
        cell("energy_wh", energy, ""),
    ]
    assert severities(RULE, *rows) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (("latency_p50", "0.50", "ms"), ("latency_p99", "900", "us"), []),
        (("latency_p50", "0.50", "ms"), ("lat_p99_us", "90.0", ""), ["error"]),
        (("latency_p99", "5.0", "ms"), ("latency_p99_9", "4.0", "ms"), ["error"]),
        (("latency_avg", "5.0", "ms"), ("latency_max", "4.0", "ms"), ["error"]),
        # Possible with a long tail.
        (("latency_mean", "5.0", "ms"), ("latency_p99", "4.0", "ms"), []),
    ],
)
def test_percentiles_ascend(
    low: tuple[str, str, str], high: tuple[str, str, str], expected: list[str]
) -> None:
    assert severities(RULE, cell(*low), cell(*high)) == expected


def test_the_factor_cancels_in_ratios() -> None:
    power, energy = "power_efficiency_ratio", "energy_efficiency_ratio"
    assert severities(RULE, claim(power, "48"), claim(energy, "48")) == []
    assert severities(RULE, claim(power, "48"), claim(energy, "55")) == ["error"]
    cells = [
        cell("power_efficiency", "221.2", "MB/s/W", "A"),
        cell("power_efficiency", "2.4", "MB/s/W", "B"),
        cell("energy_efficiency", "796.3", "TB/kWh", "A"),
        cell("energy_efficiency", "8.6", "TB/kWh", "B"),
    ]
    both = (claim(power, "92.2"), claim(energy, "92.5"))
    assert severities(RULE, *cells, *both) == ["note"]


def test_another_place_proves_nothing() -> None:
    rows = [
        cell("power_efficiency", "100", "MB/s/W", at="1"),
        cell("energy_efficiency", "700", "TB/kWh", at="8"),
    ]
    assert severities(RULE, *rows) == []


@pytest.mark.parametrize(
    ("energy", "severity", "digits"),
    [
        ("521.9", "warning", "3 digits"),  # 145 x 3.6, with 145.6 printed beside it
        ("523.8", "warning", "4 digits"),
        ("521.0", "error", ""),  # off by 0.56 %: no value with three digits explains it
        ("527.5", "error", ""),
        ("526.0", "warning", "3 digits"),
    ],
)
def test_what_rounding_on_the_way_explains_is_a_warning(
    energy: str, severity: str, digits: str
) -> None:
    rows = (
        cell("power_efficiency", "145.6", "MB/s/W"),
        cell("energy_efficiency", energy, "TB/kWh"),
    )
    (found,) = findings(RULE, *rows)
    assert found.severity == severity
    assert ("would explain it" in found.why) is (severity == "warning")
    assert digits in found.why


def test_ratios_of_one_gain_that_are_hardly_apart_are_a_warning() -> None:
    def of(power: str, energy: str) -> list[str]:
        return severities(
            RULE,
            claim("power_efficiency_ratio", power),
            claim("energy_efficiency_ratio", energy),
        )

    assert of("92.2", "92.5") == ["warning"]
    assert of("92.2", "94.0") == ["error"]
    assert of("92.2", "92.3") == []


@pytest.mark.parametrize(
    ("printed", "rate", "expected"),
    [
        ("0.1", "76", ["warning"]),  # 0.076
        ("0.08", "76", []),
        ("0.1", "98", []),  # within a tenth
        ("0.076", "76", []),
        ("0.3", "76", ["error"]),  # no rounding explains that
    ],
)
def test_one_digit_per_terabyte_misleads(printed: str, rate: str, expected: list[str]) -> None:
    rows = (
        cell("throughput", rate, "GB/s"),
        cell("throughput_per_tb", printed, "GB/s/TB"),
        fact("raw_capacity", "1,000", "TB"),
    )
    assert severities(RULE, *rows) == expected
