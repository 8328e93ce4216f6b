"""Numbers as text in a brief equal the measured values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.analysis.stats import mean_interval, printable
from storlab.base.units import format_number
from storlab.brief.fact_tables import capacity_text, flatten
from storlab.model.decision import Interval
from storlab.words.text import (
    and_list,
    breakable,
    cell_texts,
    change,
    date_range,
    interval_text,
    latency_text,
    latency_unit,
    percent_digits,
    ratio_text,
)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (0.29, "71\u00a0% less"),
        (0.985, "1.5\u00a0% less"),
        (1.034, "3.4\u00a0% more"),
        (1.4, "40\u00a0% more"),
        (2.0, "2.00 times as much"),
        (3.5, "3.50 times as much"),
        (120.4, "120 times as much"),
    ],
)
def test_more_and_less_mean_what_they_say(ratio: float, words: str) -> None:
    assert change(ratio).words == words


@given(st.floats(min_value=1e-3, max_value=0.9999))
def test_nothing_is_more_than_a_hundred_percent_less(ratio: float) -> None:
    text = change(ratio).words
    assert text.endswith(" less")
    assert 0 <= float(text.split("\u00a0")[0]) <= 100


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0123, "0.0123"),
        (0.3, "0.300"),
        (1.005, "1.01"),
        (9.996, "10.0"),
        (99.96, "100"),
        (1234.5, "1,235"),
        (1e6, "1,000,000"),
        (4e-7, "0.000000400"),
        (-4e-7, "-0.000000400"),
        (8.5e-5, "0.0000850"),
        (9.9996e-4, "0.00100"),
    ],
)
def test_three_digits_and_never_an_exponent(value: float, text: str) -> None:
    assert format_number(value) == text


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_three_digits_are_within_half_a_percent(value: float) -> None:
    text = format_number(value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.71, "71"),
        (0.865, "87"),
        (1.2, "120"),
        (0.0301, "3.0"),
        (0.0004, "0.040"),
        (3e-7, "0.000030"),
        (0, "0"),
        (1e-16, "0"),
    ],
)
def test_a_small_share_is_not_nothing(share: float, text: str) -> None:
    assert percent_digits(share) == text


def test_an_interval_stands_with_its_number() -> None:
    assert interval_text(Interval(1234.4, 1200.0, 1260.0, 3)) == "1,234 [1,200–1,260]"
    assert interval_text(Interval(84.4, 50.2, 152.0, 3)) == "84.4 [50.2–152]"
    assert cell_texts(Interval(5.0e6, 4.0e6, 6.0e6, 3), 1e6) == ("5.00", "4.00–6.00")
    assert ratio_text(Interval(0.42, 0.4, 0.44, 3)) == "0.42× [0.40–0.44]"
    assert ratio_text(Interval(0.017, 0.0074, 0.11, 3)) == "at most 0.11×"
    assert interval_text(None) == "not measured"
    assert interval_text(Interval(7.5, None, None, 1)) == "7.50 (one run)"
    assert interval_text(Interval(7.5, None, None, 3)) == "7.50 (no interval)"


def test_two_repeats_stand_in_place_of_an_interval() -> None:
    both = printable(mean_interval([59.0, 2_164.0]), [59.0, 2_164.0])
    assert interval_text(both) == "1,112 [59.0 to 2,164]"
    assert cell_texts(both) == ("1,112", "59.0 to 2,164")


def test_an_interval_that_reaches_zero_has_no_printed_bounds() -> None:
    values = [0.0, 10.0, 20.0]
    shown = printable(mean_interval(values).within(0.0, None), values)
    assert (shown.estimate, shown.is_known) == (10.0, False)
    stalled = printable(mean_interval([0.0, 0.0, 0.0]), [0.0, 0.0, 0.0])
    assert (stalled.low, stalled.high) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (950, "950\u00a0ns"),
        (85_100, "85.1\u00a0µs"),
        (999_960, "1.00\u00a0ms"),
        (2.5e9, "2.50\u00a0s"),
    ],
)
def test_latencies_are_si(value: float, text: str) -> None:
    assert latency_text(value) == text


def test_one_unit_serves_a_whole_column() -> None:
    assert latency_unit([2e6, 900e6]) == ("ms", 1e6)
    assert latency_unit([40e3, 900e6]) == ("µs", 1e3)
    assert latency_unit([103e6, 397e6], least=1) == ("ms", 1e6)
    assert latency_unit([103e6, 397e6]) == ("s", 1e9)
    assert latency_unit([30.0]) == ("ns", 1.0)
    assert latency_unit([]) == ("ms", 1e6)


def test_days_are_named_once() -> None:
    assert date_range(["2026-11-20T10:00:00+00:00", "2026-11-20T12:00:00+00:00"]) == (
        "20 November 2026"
    )
    assert date_range(["2026-11-20T23:00:00+00:00", "2026-11-22T01:00:00+00:00"]) == (
        "20–22 November 2026"
    )
    assert date_range(["2026-11-30T23:30:00-01:00", "2026-11-30T10:00:00+00:00"]) == (
        "30 November 2026 – 1 December 2026"
    )
    assert date_range([]) == ""


def test_lists_read_as_sentences() -> None:
    assert [and_list(["a", "b", "c"][:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]


def test_a_capacity_is_as_exact_as_it_is_sold() -> None:
    assert capacity_text(245_760_000_000_000) == "245.76\u00a0TB"
    assert capacity_text(512) == "512\u00a0B"


def test_an_environment_is_flattened_without_its_blanks() -> None:
    found = flatten(
        {
            "cpu": {"model": "X", "memory_bytes": 8_000_000_000, "none": None, "flags": ["a", "b"]},
            "drives": [{"name": "one"}, {"name": "two"}],
            "uring": True,
            "empty": [],
        }
    )
    assert found == [
        ("cpu.model", "X"),
        ("cpu.memory", "8 GB"),
        ("cpu.flags", "a, b"),
        ("drive 1.name", "one"),
        ("drive 2.name", "two"),
        ("uring", "yes"),
    ]


def test_a_list_without_spaces_may_be_broken_after_commas_and_nowhere_else() -> None:
    assert breakable("rw,relatime,size=5k") == "rw,\u200brelatime,\u200bsize=5k"
    for text in ("a, b", "256 KiB", "ends,", ""):
        assert breakable(text) == text
