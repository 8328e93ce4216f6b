"""Audit rule: report a number that is published twice with different values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from storlab.audit.cells import Value, claimed_ratios, configs_of, place_of, values_of
from storlab.audit.check_units import slip_between
from storlab.audit.finding import Finding, Severity
from storlab.audit.intervals import Interval, has_places
from storlab.audit.quantities import operation_of, quantity_of
from storlab.audit.table import NOT_STATED, PublishedTable, Row

SUMMARY = "a cell that is printed twice has one value, in whatever unit"
RULE = "duplicates"

_SWEPT = {"jobs", "queue_depth", "share"}
# Kinds of size that are usually swept, so a configuration has several values of them.
_SWEPT_SIZE = re.compile(r"block|transfer|object|io|request|record|file|chunk|stripe|checkpoint")
_SETTINGS = {"capacity", "memory", "count", "price", "power", "duration", "rate", "size"}


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield findings on cells with incompatible values, and on differing software versions."""
    groups: defaultdict[tuple[object, ...], list[Value]] = defaultdict(list)
    for row in table.rows:
        if row.kind == "context" or not row.has_printed_number:
            continue
        if quantity_of(row).name == "version" or _is_swept(row):
            continue
        for value in values_of(row):
            groups[_cell(row, value)].append(value)
    seen: set[tuple[str, ...]] = set()
    for group in groups.values():
        yield from _differing(group, seen)
    yield from _versions(table)


def _is_swept(row: Row) -> bool:
    """Return whether a table row states a setting of which several values were tried."""
    quantity = quantity_of(row)
    if row.kind != "config":
        return False
    if quantity.name in _SWEPT or "tested" in row.metric.lower().split("_")[-1:]:
        return True
    return quantity.name == "size" and bool(_SWEPT_SIZE.search(quantity.part))


def _cell(row: Row, value: Value) -> tuple[object, ...]:
    quantity = quantity_of(row)
    # An empty operation column may mean "no operation" or "all operations", so such rows are only
    # compared with each other.
    op = operation_of(row) if row.op else f"{value.place[3]}?"
    whole = row.metric.lower() if quantity.name in ("other", "count") else ""
    unit = value.unit if value.unit else ""
    return (
        *(value.config, tuple(sorted(configs_of(row.compare_config))), value.place, op),
        *(quantity.same, quantity.form, quantity.bound, whole, unit, row.kind == "config"),
    )


def _differing(group: list[Value], seen: set[tuple[str, ...]]) -> Iterator[Finding]:
    for a, b in combinations(group, 2):
        if _is_one(a, b) or slip_between(a, b) is not None:
            continue
        first, second = a.rows[0], b.rows[0]
        if first.kind == "config" and quantity_of(first).name not in _SETTINGS:
            continue
        texts = tuple(sorted((first.metric, a.text, b.text, a.config)))
        if texts in seen:
            continue
        seen.add(texts)
        yield Finding(
            rule=RULE,
            severity=_severity(first, second),
            rows=[first.id, second.id],
            printed=f"{first.metric} {a.text} and {b.text} ({a.config or 'all'})",
            recomputed="one value, or the name of the parameter in which they differ",
            why=_why(first, second),
        )


def _is_one(a: Value, b: Value) -> bool:
    """Return whether two numbers agree after rounding, truncation or a change of wording."""
    readings = [claimed_ratios(v.rows[0]) for v in (a, b)]
    if a.rows[0].unit != b.rows[0].unit and any(
        x.meets(y) for x in readings[0] for y in readings[1]
    ):
        return True  # for example "33 % more" and "1.33x"
    known = [v.rounded.middle for v in (a, b)]
    if not a.interval.meets(b.interval):
        return False
    inside = any(v.interval.meets(Interval(x, x)) for v, x in zip((b, a), known, strict=True))
    return inside or not any(has_places(v.rows[0]) for v in (a, b))


def _severity(a: Row, b: Row) -> Severity:
    """Return the severity of the finding that two rows disagree.

    It is below "error" if the rows may describe two machines or two unnamed operating points.
    """
    if a.kind == "config" and not a.config:
        return "note"
    is_open = NOT_STATED in (a.x_value, b.x_value) or not any(place_of(a))
    return "warning" if a.kind in ("config", "limit") or is_open else "error"


def _why(a: Row, b: Row) -> str:
    if NOT_STATED in (a.x_value, b.x_value):
        return "One cell has two values; if these are two operating points, they are not named."
    if a.kind in ("config", "limit"):
        return "One fact of the set-up has two values: a reader cannot know which one was used."
    if not any(place_of(a)):
        return "One number has two values; if these are of two workloads, they are not named."
    return "One cell has two values that differ by more than rounding explains."


def _versions(table: PublishedTable) -> Iterator[Finding]:
    groups: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in table.rows:
        if quantity_of(row).name == "version" and "version" in (row.unit, *row.metric.split("_")):
            groups[row.config, row.workload, row.metric.lower()].append(row)
    for rows in groups.values():
        seen: set[frozenset[str]] = set()
        for a, b in combinations(rows, 2):
            first, second = (_version(r) for r in (a, b))
            pair = frozenset((first, second))
            if pair in seen or _one_version(first, second):
                continue
            seen.add(pair)
            same_digits = re.sub(r"\D", "", first) == re.sub(r"\D", "", second)
            yield Finding(
                rule=RULE,
                severity="warning",
                rows=[r.id for r in rows if _version(r) in pair],
                printed=f"{a.metric} {first} and {second}",
                recomputed="one version",
                why="The same digits are printed with the point at another position: these are two "
                "releases, or one is mistyped."
                if same_digits
                else "Two versions are printed: a reader cannot know which one was used.",
            )


def _version(row: Row) -> str:
    text = row.printed.strip().lower()
    return re.sub(r"^(?:v|version)\s*(?=\d)", "", text)


def _one_version(a: str, b: str) -> bool:
    """Return whether two versions are equal, or one is shorter, such as 20.04 for 20.04.6."""
    short, long = sorted((a, b), key=len)
    return long == short or (long.startswith(short) and not long[len(short)].isalnum())
