"""A printed size parses back to the same size, and is shown with three digits."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from storlab.base.units import (
    DURATION_UNITS,
    LARGEST,
    SIZE_UNITS,
    format_bytes_si,
    format_latency,
    format_size,
    parse_duration,
    parse_size,
)


@given(st.integers(0, LARGEST))
def test_the_exact_spelling_is_read_back(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@given(st.integers(0, 4000), st.sampled_from(sorted(SIZE_UNITS)))
def test_a_unit_is_its_factor_in_either_case(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * SIZE_UNITS[unit]
    assert parse_size(f"{number} {unit.lower()}") == number * SIZE_UNITS[unit]


@given(st.integers(0, 2000), st.sampled_from(sorted(DURATION_UNITS)))
def test_durations_are_their_factor(number: int, unit: str) -> None:
    assert parse_duration(f"{number}{unit}") == number * DURATION_UNITS[unit]


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_size, parse_duration):
        try:
            assert 0 <= parse(text) <= LARGEST
        except ValueError as refusal:
            assert text in str(refusal)


_SHOWN = re.compile(r"([\d,]+(?:\.\d+)?) (\w+)")


@given(st.integers(0, LARGEST))
def test_shown_sizes_are_within_half_a_percent(size_bytes: int) -> None:
    match = _SHOWN.fullmatch(format_bytes_si(size_bytes))
    assert match is not None
    shown = float(match.group(1)) * SIZE_UNITS[match.group(2)]
    assert abs(shown - size_bytes) <= 0.0051 * size_bytes


@given(st.floats(1, 1e15))
def test_shown_latencies_are_within_half_a_percent(latency_ns: float) -> None:
    match = _SHOWN.fullmatch(format_latency(latency_ns))
    assert match is not None
    unit = DURATION_UNITS[match.group(2).replace("µ", "u")]
    shown = float(match.group(1).replace(",", "")) * unit
    assert abs(shown - latency_ns) <= 0.0051 * latency_ns
