"""Qualitative words against numbers, with generous bounds."""

from __future__ import annotations

import pytest

from storlab.audit.check_words import bounds
from unit.audit.audit_rows import check, row


def claim(printed: str, value: float, unit: str = "x", **more: object) -> dict[str, str]:
    known: dict[str, object] = {
        "config": "A",
        "compare_config": "B",
        "op": "read",
        "metric": "latency_ratio",
        "kind": "ratio_claim",
        "qualifier": "approx",
    }
    return row(**{**known, **more}, printed=printed, value=value, unit=unit)


@pytest.mark.parametrize(
    ("printed", "value", "unit", "metric"),
    [
        ("slightly (30 %)", 30, "%", "throughput_increase"),
        ("nearly double, 3.1x", 3.1, "x", "throughput_ratio"),
        ("double (2.9x)", 2.9, "x", "throughput_ratio"),
        ("similar: 1.6x", 1.6, "x", "speedup"),
        ("negligible, 18%", 18, "%", "throughput_reduction"),
        ("less than half: 0.61x", 0.61, "x", "latency_ratio"),
        ("three orders of magnitude (240x)", 240, "x", "latency_ratio"),
        ("dramatically, 1.1x", 1.1, "x", "bandwidth_ratio"),
    ],
)
def test_a_word_that_does_not_fit_its_number(
    printed: str, value: float, unit: str, metric: str
) -> None:
    found = check("words", [claim(printed, value, unit, metric=metric)])
    assert [f.severity for f in found] == ["warning"]
    assert found[0].rows == ["001"]


@pytest.mark.parametrize(
    ("printed", "value", "unit", "metric"),
    [
        ("slightly (12 %)", 12, "%", "throughput_increase"),
        ("nearly double, 1.9x", 1.9, "x", "throughput_ratio"),
        ("twice, 2.2x", 2.2, "x", "throughput_ratio"),
        ("more than double: 4x", 4, "x", "throughput_ratio"),
        ("similar: 0.9x", 0.9, "x", "speedup"),
        ("half: 52%", 52, "%", "energy_reduction"),
        ("less than half: 0.41x", 0.41, "x", "latency_ratio"),
        ("two orders of magnitude (240x)", 240, "x", "latency_ratio"),
        ("two orders of magnitude (80x)", 80, "x", "latency_ratio"),
        ("an order of magnitude, 13x", 13, "x", "latency_ratio"),
        ("up to 45x", 45, "x", "throughput_ratio"),
        ("significantly, 30%", 30, "%", "throughput_increase"),
    ],
)
def test_ordinary_usage_is_left_alone(printed: str, value: float, unit: str, metric: str) -> None:
    assert check("words", [claim(printed, value, unit, metric=metric)]) == []


def test_a_word_without_digits_is_held_against_the_ratio_of_the_same_cell() -> None:
    words = claim("two orders of magnitude", 100, metric="latency_ratio_text")
    found = check("words", [words, claim("1,030x", 1030)])
    assert [f.rows for f in found] == [["001", "002"]]
    assert check("words", [words, claim("930x", 930)]) == []
    assert check("words", [words]) == []  # nothing to compare with


def test_a_word_is_held_against_the_measured_values() -> None:
    word = claim("slightly", 1.1, metric="throughput_ratio", op="read")
    values = [
        row(config=c, op="read", metric="throughput", value=v, unit="MB/s", kind="measured")
        for c, v in (("A", 1900), ("B", 1000))
    ]
    found = check("words", [word, *values])
    assert [f.rows for f in found] == [["001", "002", "003"]]
    values[0]["value"] = values[0]["printed"] = "1100"
    assert check("words", [word, *values]) == []


def test_words_of_measurements_are_not_judged() -> None:
    same = row(config="A", metric="throughput", value=5, unit="GB/s", printed="a similar 5 GB/s")
    assert check("words", [same]) == []


def test_bounds_of_phrases() -> None:
    assert bounds("no word at all 7x") is None
    found = bounds("More than two orders of magnitude")
    assert found is not None
    assert found[1].low == 100
    almost, twice = bounds("almost double"), bounds("double")
    assert almost is not None
    assert twice is not None
    assert almost[1].high < twice[1].high
