"""Ratios against their cells: every defensible reading passes, all else is an error."""

from __future__ import annotations

import pytest

from support.audit_tables import cell, claim, fact, findings, severities

RULE = "ratio_arithmetic"
Row = dict[str, str]


def _two(metric: str, a: str, b: str, unit: str, **more: str) -> list[Row]:
    return [cell(metric, a, unit, "A", **more), cell(metric, b, unit, "B", **more)]


@pytest.mark.parametrize(
    ("metric", "a", "b", "unit", "claimed", "printed", "as_unit"),
    [
        ("throughput", "1,687", "235", "MB/s", "throughput_ratio", "7.2", "x"),
        ("throughput", "1,687", "235", "MB/s", "throughput_ratio", "7.1", "x"),  # truncated
        ("tput_gb_s", "8.47", "0.187", "", "tput_speedup", "45", "x"),
        ("power_efficiency", "150.5", "3.1", "MB/s/W", "power_efficiency_ratio", "48", "x"),
        ("throughput_per_watt", "150.5", "3.1", "MB/s/W", "throughput_per_watt_ratio", "47", "x"),
        ("latency_avg", "0.89", "1,606.80", "ms", "latency_ratio", "1,808", "x"),
        ("lat_p99_ms", "10", "5.0", "", "lat_p99_ratio", "2.0", "x"),  # inverted
        ("bandwidth", "130", "100", "MB/s", "bandwidth_increase", "30", "%"),
        ("power_w", "20.0", "25.0", "", "power_reduction", "20", "%"),
        ("watts", "20.0", "25.0", "W", "watts_savings", "20", "%"),
        ("iops", "50", "100", "kIOPS", "slower_iops", "50", "%"),
        ("runtime", "40.0", "100.0", "s", "faster_runtime", "60", "%"),
        ("runtime", "40.0", "100.0", "s", "faster_runtime", "150", "%"),
    ],
)
def test_what_follows_is_not_reported(
    metric: str, a: str, b: str, unit: str, claimed: str, printed: str, as_unit: str
) -> None:
    rows = [*_two(metric, a, b, unit), claim(claimed, printed, as_unit)]
    assert "error" not in severities(RULE, *rows)


@pytest.mark.parametrize(
    ("metric", "a", "b", "unit", "claimed", "printed", "as_unit"),
    [
        ("throughput", "1,687", "235", "MB/s", "throughput_ratio", "7.4", "x"),
        ("bw_mib_s", "1,687", "235", "", "bw_ratio", "6.9", "x"),
        ("power_efficiency", "359.10", "0.96", "MB/s/W", "power_efficiency_ratio", "366", "x"),
        ("latency_p99", "0.890", "1,606.80", "ms", "latency_p99_ratio", "1,850", "x"),
        ("iops", "130", "100", "kIOPS", "iops_increase", "40", "%"),
        ("energy_wh", "20.0", "25.0", "", "energy_reduction", "25", "%"),
        ("throughput", "250", "100", "MB/s", "throughput_increase", "250", "%"),
    ],
)
def test_what_does_not_follow_is_an_error(
    metric: str, a: str, b: str, unit: str, claimed: str, printed: str, as_unit: str
) -> None:
    rows = [*_two(metric, a, b, unit), claim(claimed, printed, as_unit)]
    found = [f for f in findings(RULE, *rows) if f.severity == "error"]
    assert len(found) == 1
    assert set(found[0].rows) == {"001", "002", "003"}
    assert printed in found[0].printed


def test_percent_of_and_percent_more_are_told_apart() -> None:
    rows = [*_two("throughput", "250", "100", "MB/s"), claim("throughput_increase", "250", "%")]
    assert "250 % of is 150 % more" in findings(RULE, *rows)[0].why


def test_a_prefix_that_was_mixed_up_is_named() -> None:
    rows = [*_two("latency", "0.8912", "1,606.80", "ms"), claim("latency_ratio", "1.803")]
    assert "off by 1,000" in findings(RULE, *rows)[0].why


def test_a_ratio_the_wrong_way_round_is_a_warning() -> None:
    rows = [*_two("throughput", "100", "250", "MB/s"), claim("throughput_ratio", "2.5")]
    assert severities(RULE, *rows) == ["warning"]


def test_more_digits_than_the_cells_carry_is_a_note() -> None:
    rows = [*_two("ttfb", "3", "289", "ms"), claim("ttfb_ratio", "96")]
    found = findings(RULE, *rows)
    assert [f.severity for f in found] == ["note"]
    assert "82" in found[0].recomputed


@pytest.mark.parametrize("change", [{"x_value": "1"}, {"op": "read"}, {"rw_mix": "30/70"}])
def test_another_place_proves_nothing(change: Row) -> None:
    rows = [*_two("throughput", "1,687", "235", "MB/s"), claim("throughput_ratio", "9.9", **change)]
    assert severities(RULE, *rows) == []


def test_a_statistic_of_another_kind_proves_nothing() -> None:
    rows = [*_two("latency_p99", "1.00", "9.00", "ms"), claim("latency_avg_ratio", "2.0")]
    assert severities(RULE, *rows) == []


def test_a_claim_that_leaves_the_place_open_may_be_a_mean_over_places() -> None:
    cells = [
        *(cell("throughput", v, "MB/s", c, at="1") for c, v in (("A", "200"), ("B", "100"))),
        *(cell("throughput", v, "MB/s", c, at="8") for c, v in (("A", "400"), ("B", "100"))),
    ]
    open_point = {"x_name": "", "x_value": ""}
    assert severities(RULE, *cells, claim("throughput_ratio", "3.0", **open_point)) == []
    assert severities(RULE, *cells, claim("throughput_ratio", "4.5", **open_point)) == ["error"]


def test_totals_stand_in_for_cells_that_are_printed_in_parts() -> None:
    rows = [
        cell("throughput", v, "MB/s", c, op=op)
        for c, op, v in (
            *(("A", "GET", "1,251"), ("A", "PUT", "2,920")),
            *(("B", "GET", "24"), ("B", "PUT", "57")),
        )
    ]
    assert severities(RULE, *rows, claim("throughput_ratio", "51", op="total")) == []
    assert severities(RULE, *rows, claim("throughput_ratio", "56", op="total")) == ["error"]


def test_limits_and_capacities_are_compared_too() -> None:
    limits = [
        fact("power_limit", "20", "W", "A", kind="limit", x_name="power_state", x_value="PS1"),
        fact("power_limit", "25", "W", "B", kind="limit", x_name="power_state", x_value="PS0"),
    ]
    place = dict.fromkeys(("workload", "rw_mix", "block_size", "op", "x_name", "x_value"), "")
    assert severities(RULE, *limits, claim("max_power_reduction", "20", "%", **place)) == []
    assert severities(RULE, *limits, claim("max_power_reduction", "40", "%", **place)) == ["error"]


def test_words_and_unknown_units_are_let_alone() -> None:
    cells = _two("throughput", "100", "50", "MB/s")
    word = claim("throughput_ratio", "three times", value="3")
    assert severities(RULE, *cells, word) == []
    assert severities(RULE, *cells, claim("throughput_ratio", "3", "bananas")) == []


def test_a_printed_zero_contradicts_a_ratio_as_any_number_does() -> None:
    rows = [*_two("throughput", "0", "5", "MB/s"), claim("throughput_ratio", "3")]
    (printed,) = findings(RULE, *rows)
    assert printed.severity == "warning"
    assert printed.recomputed.startswith("0 MB/s / 5 MB/s = 0x (")
    assert ", the other way round" not in printed.recomputed  # it would divide by zero
    below = [*_two("latency_avg", "0.0", "5.0", "ms"), claim("latency_reduction", "20", "%")]
    assert severities(RULE, *below) == ["error"]
