"""Audit rule: words such as "slightly", "double" or "orders of magnitude" must fit the numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from storlab.audit.configuration_facts import members
from storlab.audit.finding import Finding
from storlab.audit.intervals import Interval, hull, shown, si_interval
from storlab.audit.quantities import operation_of, quantity_of
from storlab.audit.table import PublishedTable, Row

SUMMARY = "words such as slightly, double or orders of magnitude against the number"
_N = {"an": 1, "one": 1, "a": 1, "two": 2, "three": 3, "four": 4, "five": 5, "several": 2}
_ORDERS = re.compile(r"\b(?:(more than|over|nearly|almost|about) )?(\w+) orders? of magnitude")

# Phrases with the lower and upper bound of the ratio larger / smaller value that they may describe,
# wide enough for ordinary usage. The first match counts, so longer phrases come first.
_WORDS: tuple[tuple[str, float, float], ...] = (
    (r"no (measurable |noticeable |significant )?difference|negligibl[ey]|insignificant", 1.0, 1.1),
    (r"(less|lower|fewer) than half|under half|below half", 1.9, math.inf),
    (r"(more|greater|higher) than half|over half", 1.0, 2.1),
    (r"(more|greater|higher) than (double|twice)|over (double|twice)", 1.9, math.inf),
    (r"(less|lower) than (double|twice)", 1.0, 2.1),
    (r"(nearly|almost|close to) (double|twice|doubled|half)", 1.55, 2.1),
    (r"(nearly|almost|close to) (triple|three times)", 2.4, 3.15),
    (r"double[sd]?|doubling|twice|two-?fold", 1.7, 2.5),
    (r"triple[sd]?|tripling|three-?fold", 2.5, 3.6),
    (r"quadruple[sd]?|four-?fold", 3.4, 4.8),
    (r"ten-?fold", 8.0, 12.5),
    (r"half|halve[sd]?|halving", 1.6, 2.5),
    (r"slight(ly)?|marginal(ly)?|a little|a bit|minor", 1.0, 1.25),
    (r"similar(ly)?|comparable|on par|par|equal(ly)?|the same|identical|equivalent", 1.0, 1.25),
    (r"dramatic(ally)?|drastic(ally)?|massive(ly)?|huge(ly)?|vast(ly)?", 1.5, math.inf),
    (r"significant(ly)?|substantial(ly)?|considerabl[ey]", 1.05, math.inf),
)
_PATTERNS = tuple((re.compile(rf"\b(?:{words})\b", re.I), a, b) for words, a, b in _WORDS)


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield one finding per table row whose wording does not fit its number."""
    for row in table.rows:
        if not quantity_of(row).is_claim and not row.compare_config:
            continue
        stated = bounds(f"{row.printed} {row.qualifier}".replace("_", " "))
        if stated is None:
            continue
        words, allowed = stated
        for number, rows, source in _numbers(table, row):
            if number.low > allowed.high * 1.001 or number.high < allowed.low * 0.999:
                yield _finding(row, words, allowed, number, rows, source)
                break


def bounds(text: str) -> tuple[str, Interval] | None:
    """Return the first phrase like "double" in a text, with the range of ratios it may describe.

    None if the text has no such phrase.
    """
    match = _ORDERS.search(text.lower())
    if match is not None and match[2] in _N:
        power = _N[match[2]]
        open_end = match[1] in ("more than", "over") or match[2] == "several"
        high = math.inf if open_end else 10.0 ** (power + 1) * (1 - 1e-9)
        # "n orders of magnitude": n may be the logarithm rounded down or to the nearest integer.
        low = 10.0**power if match[1] in ("more than", "over") else 10.0 ** (power - 0.5)
        return match.group(), Interval(low, high) if open_end else _orders(power, low)
    for pattern, low, high in _PATTERNS:
        hit = pattern.search(text)
        if hit is not None:
            return hit.group(), Interval(low, high)
    return None


def _orders(power: int, low: float) -> Interval:
    return Interval(low, 10.0 ** (power + 1) * (1 - 1e-9))


def _numbers(table: PublishedTable, row: Row) -> Iterator[tuple[Interval, tuple[str, ...], str]]:
    """Yield the ratios (at least 1) that a row's words may describe, with row ids and source."""
    own = multiple(row) if row.has_printed_number else None
    if own is not None:
        yield own, (row.id,), "the number beside the words"
    measured = _from_cells(table, row)
    if measured is not None:
        yield measured[0], measured[1], "the measured values"
    about = quantity_of(row).name
    for other in table.rows:
        if other is not row and quantity_of(other).name == about and _same_cell(row, other):
            number = multiple(other) if other.has_printed_number else None
            if number is not None and quantity_of(other).is_claim:
                yield number, (other.id,), "the ratio printed for the same cell"


def _same_cell(row: Row, other: Row) -> bool:
    names = ("config", "compare_config", "workload", "rw_mix", "block_size", "x_value")
    same = all(getattr(row, name) == getattr(other, name) for name in names)
    return same and operation_of(row) == operation_of(other) and other.qualifier != "up_to"


def multiple(row: Row) -> Interval | None:
    """Return the ratio larger / smaller value that a row claims; None if it claims none."""
    quantity, span = quantity_of(row), si_interval(row)
    if span is None or not math.isfinite(span.low) or not math.isfinite(span.high):
        return None
    if quantity.form == "ratio":
        ends = [span.low, span.high]
    elif quantity.form == "value":
        return None
    elif quantity.unit is not None and quantity.unit.kind == "x":
        ends = [span.low, span.high]
    elif quantity.form == "reduction" and span.high < 1:
        ends = [1 - span.high, 1 - span.low]
    else:
        ends = [1 + span.low, 1 + span.high]
    if min(ends) <= 0:
        return None
    larger = [max(end, 1 / end) for end in ends]
    return Interval(1.0 if min(ends) <= 1 <= max(ends) else min(larger), max(larger))


def _from_cells(table: PublishedTable, row: Row) -> tuple[Interval, tuple[str, ...]] | None:
    """Return the range of ratios between measured values of both configurations of a claim.

    Returns:
        The range of larger / smaller value, and the row ids; None if one configuration has no
        values in the table.
    """
    name = quantity_of(row).name
    bounds: list[Interval] = []
    ids: list[str] = []
    sides = [
        [
            other
            for other in table.rows
            if other.is_measured
            and other.config in members(config)
            and quantity_of(other).name == name
            and quantity_of(other).form == "value"
            and operation_of(other) == operation_of(row)
            and (other.workload, other.rw_mix, other.block_size)
            == (row.workload, row.rw_mix, row.block_size)
            and (not row.x_value or other.x_value == row.x_value)
        ]
        for config in (row.config, row.compare_config)
    ]
    for first in sides[0]:
        for other in sides[1]:
            if (first.x_value, quantity_of(first).same) != (other.x_value, quantity_of(other).same):
                continue
            above, below = si_interval(first), si_interval(other)
            if above is None or below is None or above.low <= 0 or below.low <= 0:
                continue
            ratio = above / below
            up = max(ratio.high, 1 / ratio.low)
            down = min(max(ratio.low, 1 / ratio.low), max(ratio.high, 1 / ratio.high))
            bounds.append(Interval(1.0 if ratio.low <= 1 <= ratio.high else down, up))
            ids += [first.id, other.id]
    return (hull(bounds), tuple(dict.fromkeys(ids))) if bounds else None


def _finding(
    row: Row, words: str, allowed: Interval, number: Interval, rows: tuple[str, ...], source: str
) -> Finding:
    most = f"less than {shown(allowed.high)}" if math.isfinite(allowed.high) else ""
    least = f"at least {shown(allowed.low)}" if allowed.low > 1 else ""
    meant = " and ".join(part for part in (least, most) if part)
    return Finding(
        rule="words",
        severity="warning",
        rows=list(dict.fromkeys([row.id, *rows])),
        printed=f'"{words}" ({row.metric} of {row.config} against {row.compare_config})',
        recomputed=f"{number} times, by {source}",
        why=f'"{words}" suggests a multiple of {meant}, which the number contradicts.',
    )
