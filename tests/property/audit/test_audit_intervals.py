"""Rounded or truncated true values never give an error; wrong values always do."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from hypothesis import assume, given
from hypothesis import strategies as st

from storlab.audit.check_ratio_arithmetic import check
from storlab.audit.intervals import Interval, printed_interval
from support.audit_tables import cell, claim, fact, severities, table

DIGITS = st.integers(min_value=2, max_value=6)
HOW = st.sampled_from([ROUND_DOWN, ROUND_HALF_UP])
TRUE = st.floats(min_value=0.05, max_value=50_000.0)
RULES = ("ratio_arithmetic", "identities", "totals", "units", "duplicates", "headlines")


def _print(value: float, digits: int, how: str) -> str:
    """Print the value with ``digits`` significant digits, rounded or truncated."""
    exact = Decimal(value)
    places = digits - 1 - exact.adjusted()
    step = Decimal(1).scaleb(-max(places, 0))
    return f"{exact.quantize(step, rounding=how):,f}"


printed = st.builds(lambda digits, how: (digits, how), DIGITS, HOW)


@given(TRUE, TRUE, printed, printed, printed)
def test_a_true_ratio_is_never_an_error(
    a: float, b: float, first: tuple[int, str], two: tuple[int, str], three: tuple[int, str]
) -> None:
    rows = [
        cell("throughput", _print(a, *first), "MB/s", "A"),
        cell("throughput", _print(b, *two), "MB/s", "B"),
        claim("throughput_ratio", _print(a / b, *three)),
    ]
    assert "error" not in severities("ratio_arithmetic", *rows)


@given(TRUE, TRUE, printed, printed, printed, st.floats(1.0001, 50.0), st.booleans())
def test_a_ratio_outside_of_the_intervals_is_always_reported(
    a: float,
    b: float,
    printed_a: tuple[int, str],
    two: tuple[int, str],
    three: tuple[int, str],
    factor: float,
    up: bool,
) -> None:
    first = cell("throughput", _print(a, *printed_a), "MB/s", "A")
    second = cell("throughput", _print(b, *two), "MB/s", "B")
    printed_ratio = claim(
        "throughput_ratio", _print(a / b * (factor if up else 1 / factor), *three)
    )
    found = table(first, second, printed_ratio)
    above, below, ratio = (printed_interval(row) for row in found.rows)
    assert above is not None
    assert below is not None
    assert ratio is not None
    possible = Interval(
        above.low / below.high, above.high / below.low if below.low > 0 else math.inf
    )
    outside = ratio.low > possible.high * (1 + 1e-6) or ratio.high < possible.low * (1 - 1e-6)
    assume(outside)
    assert [f.severity for f in check(found)] in (["error"], ["warning"])


@given(
    throughput=st.floats(50.0, 20_000.0),
    share=st.floats(0.1, 0.9),
    watts=st.floats(5.0, 500.0),
    capacity=st.floats(1.0, 2_000.0),
    latency_ms=st.floats(0.1, 5_000.0),
    prints=st.lists(printed, min_size=12, max_size=12),
)
def test_a_true_table_has_no_errors(
    throughput: float,
    share: float,
    watts: float,
    capacity: float,
    latency_ms: float,
    prints: list[tuple[int, str]],
) -> None:
    how = iter(prints)

    def say(value: float) -> str:
        return _print(value, *next(how))

    rows = [
        fact("capacity", say(capacity), "TB"),
        cell("throughput", say(throughput * share), "MB/s", op="read"),
        cell("throughput", say(throughput * (1 - share)), "MB/s", op="write"),
        cell("throughput", say(throughput), "MB/s", op="total"),
        cell("bandwidth", say(throughput / 1000), "GB/s", op="total"),
        cell("iops", say(throughput * 1e6 / 262_144), "IOPS", op="total", block_size="256KiB"),
        cell("power_avg", say(watts), "W", op="total"),
        cell("power_efficiency", say(throughput / watts), "MB/s/W", op="total"),
        cell("energy_efficiency", say(3.6 * throughput / watts), "TB/kWh", op="total"),
        cell("throughput_per_tb", say(throughput / capacity), "MB/s/TB", op="total"),
        cell("latency_avg", say(latency_ms), "ms", op="total"),
        cell("latency_avg", say(latency_ms * 1000), "us", op="total"),
    ]
    for row in rows:
        row["block_size"] = "256KiB" if row["kind"] == "measured" else ""
    for rule in RULES:
        assert severities(rule, *rows) == []


@given(TRUE, printed)
def test_the_interval_holds_what_was_printed(value: float, digits_how: tuple[int, str]) -> None:
    (row,) = table(cell("throughput", _print(value, *digits_how), "MB/s")).rows
    found = printed_interval(row)
    assert found is not None
    assert found.low - 1e-9 <= value <= found.high + 1e-9


ends = st.tuples(st.floats(0.001, 1e6), st.floats(0.001, 1e6)).map(sorted)
shares = st.floats(0.0, 1.0)


@given(ends, ends, shares, shares)
def test_arithmetic_holds_every_result(a: list[float], b: list[float], s: float, t: float) -> None:
    x, y = Interval(*a), Interval(*b)
    p, q = a[0] + s * (a[1] - a[0]), b[0] + t * (b[1] - b[0])
    for result, made in ((p + q, x + y), (p - q, x - y), (p * q, x * y), (p / q, x / y)):
        assert (
            made.meets(Interval(result, result))
            or math.isclose(result, made.low, abs_tol=1e-6)
            or math.isclose(result, made.high, abs_tol=1e-6)
        )
