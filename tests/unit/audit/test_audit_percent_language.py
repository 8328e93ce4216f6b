"""Impossible percentages, and pairs that contradict each other."""

from __future__ import annotations

import pytest

from support.audit_tables import claim, findings, severities

RULE = "percent_language"


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("slower_throughput", "135"),
        ("throughput_reduction", "120"),
        ("bw_decrease", "101"),
        ("latency_reduction", "150"),
        ("lower_power", "110"),
        ("energy_savings", "200"),
    ],
)
def test_nothing_falls_by_more_than_all_of_it(metric: str, value: str) -> None:
    found = findings(RULE, claim(metric, value, "%"))
    assert [f.severity for f in found] == ["error"]


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("slower_throughput", "57"),
        ("throughput_increase", "151"),
        ("slower_time", "151"),
        ("faster_throughput", "250"),
        ("faster_time", "150"),
        ("latency_reduction", "100"),
        ("energy_increase", "209"),
    ],
)
def test_possible_changes_pass(metric: str, value: str) -> None:
    assert severities(RULE, claim(metric, value, "%")) == []


def test_repeated_claims_are_one_finding() -> None:
    found = findings(RULE, *(claim("slower_throughput", "135", "%") for _ in range(3)))
    assert [f.rows for f in found] == [["001", "002", "003"]]


@pytest.mark.parametrize(
    ("rate", "value", "unit", "expected"),
    [
        ("throughput_reduction", "60", "%", []),  # 1 / 2.51 = 0.398
        ("throughput_ratio", "0.40", "x", []),
        ("throughput_reduction", "35", "%", ["error"]),
        ("throughput_ratio", "0.5", "x", ["error"]),
    ],
)
def test_time_and_throughput_are_reciprocal(
    rate: str, value: str, unit: str, expected: list[str]
) -> None:
    time = claim("time_increase", "151", "%", op="")
    assert severities(RULE, time, claim(rate, value, unit, op="")) == expected


def test_an_up_to_among_them_makes_it_a_warning() -> None:
    time = claim("time_increase", "151", "%", op="")
    rate = claim("throughput_reduction", "35", "%", op="", qualifier="up_to")
    assert severities(RULE, time, rate) == ["warning"]


def test_a_throughput_of_reads_says_nothing_about_the_whole_time() -> None:
    time = claim("time_increase", "151", "%", op="")
    assert severities(RULE, time, claim("throughput_reduction", "35", "%", op="read")) == []


@pytest.mark.parametrize(("back", "expected"), [("20", []), ("25", ["error"])])
def test_both_directions_agree(back: str, expected: list[str]) -> None:
    up = claim("power_increase", "25.0", "%", "A", "B")
    down = claim("power_reduction", f"{back}.0", "%", "B", "A")
    assert severities(RULE, up, down) == expected


@pytest.mark.parametrize(("percent", "expected"), [("150", []), ("250", ["error"])])
def test_a_ratio_of_two_and_a_half_is_150_percent_more(percent: str, expected: list[str]) -> None:
    ratio = claim("throughput_ratio", "2.50")
    assert severities(RULE, ratio, claim("throughput_increase", percent, "%")) == expected
