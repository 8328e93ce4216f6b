"""Cells of a published table as typed values, and pairs of values that a claim compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from storlab.audit import intervals
from storlab.audit.intervals import Interval, rounded_interval
from storlab.audit.quantities import (
    HIGHER_IS_BETTER,
    LOWER_IS_BETTER,
    NEUTRAL,
    Quantity,
    factor_of,
    operation_of,
    quantity_of,
)
from storlab.audit.table import NOT_STATED, PublishedTable, Row
from storlab.base.units import exact_number
from storlab.model.published import REMEMBERED

Place = tuple[str, str, str, str, str, str]
"""Normalised workload, mix, block size, operation, and name and value of the operating point."""

HEADLINES = {"up_to", "headline", "range_min", "range_max", "max", "table_max"}
MEANS = {"avg", "geomean"}
MAXIMUM = re.compile(r"max|best|peak|highest")


@dataclass(frozen=True, slots=True)
class Value:
    """Number of one configuration, stated in a published table or derived from stated numbers."""

    config: str
    place: Place
    quantity: Quantity
    rows: tuple[Row, ...]
    interval: Interval
    """Possible true values, in B, s, J or operations if ``unit`` is empty, else in ``unit``."""
    rounded: Interval
    unit: str = ""
    text: str = ""


def configs_of(name: str) -> list[str]:
    """Split a configuration cell into its names; several names are separated by " / "."""
    return [part.strip() for part in name.split(" / ")] if " / " in name else [name]


@lru_cache(maxsize=REMEMBERED)
def normal(text: str) -> str:
    """Return a cell's text for comparison: lower case, without spaces and trailing zeros."""
    clean = re.sub(r"\s+", "", text).lower()
    return re.sub(r"^(\d+)\.0+$", r"\1", clean)


@lru_cache(maxsize=REMEMBERED)
def place_of(row: Row) -> Place:
    """Return the workload and operating point at which a row's number was measured."""
    x_value = "" if row.x_value == NOT_STATED else normal(row.x_value)
    return (
        normal(row.workload),
        normal(row.rw_mix),
        normal(row.block_size),
        operation_of(row) if row.op or operation_of(row) in _OPERATIONS else "",
        normal(row.x_name) if x_value else "",
        x_value,
    )


_OPERATIONS = {"read", "write", "get", "put", "total"}


def is_one_mix(value: Value) -> bool:
    """Return whether reads and writes ran in one test, judging by the workload or mix column."""
    shares = value.place[1].split("/")
    return "mix" in value.place[0] or (len(shares) == 2 and not {"0", "100"} & set(shares))


def is_headline(row: Row) -> bool:
    """Return whether a claim summarises several cells, as a maximum, a range or a headline does."""
    bounded = quantity_of(row).bound != ""
    return row.kind == "headline_claim" or row.qualifier.lower() in HEADLINES or bounded


def values_of(row: Row) -> Iterator[Value]:
    """Yield a table row's number once for each configuration that the row names."""
    printed, rounded = intervals.printed_interval(row), rounded_interval(row)
    if printed is None or rounded is None:
        return
    quantity = quantity_of(row)
    factor = factor_of(row)
    part = quantity.part.split("_") if quantity.part else []
    kept = "_".join(word for word in part if word not in (*_OPERATIONS, "limit"))
    quantity = replace(quantity, part=kept)
    if factor is not None:
        printed, rounded = printed.scaled(factor), rounded.scaled(factor)
    for config in configs_of(row.config):
        yield Value(
            config,
            place_of(row),
            quantity,
            (row,),
            printed,
            rounded,
            "" if factor is not None else row.unit,
            shown(row),
        )


def shown(row: Row) -> str:
    """Return a row's number as published, with its unit appended if the text has none."""
    text = row.printed or ("" if row.value is None else exact_number(row.value))
    has_unit = re.search(r"[A-Za-z%]", text)
    unit = row.unit if row.unit not in ("x", "count", "version", "model", "%") else ""
    mark = row.unit if row.unit in ("x", "%") and not has_unit else ""
    return f"{text}{mark}" if has_unit or not unit else f"{text} {unit}"


def measured(table: PublishedTable) -> list[Value]:
    """Return all measured numbers of the table, without claims, settings and range ends."""
    if "measured" not in table.memo:
        rows = [r for r in table.rows if r.kind == "measured" and not quantity_of(r).is_claim]
        table.memo["measured"] = [
            value for row in rows if not quantity_of(row).bound for value in values_of(row)
        ]
    return list(table.memo["measured"])


def facts(table: PublishedTable) -> list[Value]:
    """Return the settings and limits that a table states: capacities, prices, counts, limits."""
    if "facts" not in table.memo:
        kinds = ("config", "limit")
        rows = [r for r in table.rows if r.kind in kinds and not quantity_of(r).is_claim]
        table.memo["facts"] = [value for row in rows for value in values_of(row)]
    return list(table.memo["facts"])


@dataclass(frozen=True, slots=True)
class Pair:
    """Two values that a claim compares: one of each of the two configurations."""

    config: Value
    compare: Value

    @property
    def ratio(self) -> Interval:
        """Ratio of the two values, as the range that the published precision allows."""
        return self.config.interval / self.compare.interval

    @property
    def rounded(self) -> Interval:
        """Ratio of the two values, assuming that both were rounded rather than truncated."""
        return self.config.rounded / self.compare.rounded

    @property
    def rows(self) -> list[str]:
        """Ids of the table rows that state the two values."""
        return [row.id for row in (*self.config.rows, *self.compare.rows)]


def pairs(claim: Row, values: list[Value]) -> list[Pair]:
    """Return the pairs of values that a claim may compare.

    A column that is empty in the claim matches any text, but the two values of a pair must have the
    same text in that column.
    """
    quantity = quantity_of(claim)
    wanted = place_of(claim)
    config_values = _candidates(quantity, wanted, configs_of(claim.config), values)
    compare_values = _candidates(quantity, wanted, configs_of(claim.compare_config), values)
    return [
        Pair(a, b)
        for a in config_values
        for b in compare_values
        if a.config != b.config  # else a gain over a swept parameter
        and a.quantity.same == b.quantity.same
        and a.unit == b.unit
        and same_place(a, b)
    ]


def across_sizes(claim: Row, values: list[Value]) -> list[Pair]:
    """Return the pairs of values at different block sizes that a claim may compare.

    A pair that has the claimed ratio shows that the gain was computed between unequal block sizes.
    """
    quantity, wanted = quantity_of(claim), place_of(claim)
    anywhere: Place = (wanted[0], wanted[1], "", *wanted[3:])
    config_values = _candidates(quantity, anywhere, configs_of(claim.config), values)
    compare_values = _candidates(quantity, anywhere, configs_of(claim.compare_config), values)
    return [
        Pair(a, b)
        for a in config_values
        for b in compare_values
        if a.quantity.same == b.quantity.same
        and a.unit == b.unit
        and "" not in (a.place[2], b.place[2])
        and a.place[2] != b.place[2]
        and (*a.place[:2], *a.place[3:]) == (*b.place[:2], *b.place[3:])
    ]


def across_words(claim: Row, readings: list[Interval], values: list[Value]) -> str:
    """Return a sentence that names two block sizes whose values have the claimed ratio, or ""."""
    for pair in across_sizes(claim, values):
        turned = Interval(1.0, 1.0) / pair.ratio
        if any(r.meets(pair.ratio) or r.meets(turned) for r in readings):
            sizes = [value.rows[0].block_size for value in (pair.config, pair.compare)]
            return (
                f" It is the ratio between two block sizes: {pair.config.text} at {sizes[0]} and "
                f"{pair.compare.text} at {sizes[1]}."
            )
    return ""


def same_place(a: Value, b: Value) -> bool:
    """Return whether two values were measured with the same workload at the same operating point.

    For limits the operating point is ignored.
    """
    if a.rows[0].kind == "limit":
        return a.place[:4] == b.place[:4]
    return a.place == b.place


def _candidates(
    quantity: Quantity, wanted: Place, configs: list[str], values: list[Value]
) -> list[Value]:
    return [
        v
        for v in values
        if v.config in configs and is_about(quantity, v.quantity) and _fits(wanted, v)
    ]


def is_about(claim: Quantity, value: Quantity) -> bool:
    """Return whether a claim about one quantity can be checked against values of another one."""
    part = [word for word in claim.part.split("_") if word and word not in _OPERATIONS]
    if claim.name == "other" and value.name in ("other", "count"):
        return _is_named_after(claim, value)
    if claim.name != value.name or (part and "_".join(part) != value.part):
        return False
    if claim.statistic in ("", value.statistic):
        return True
    return (claim.statistic in MEANS and value.statistic == "") or (
        claim.statistic == "max" and claim.name == "power" and value.statistic == ""
    )


def _is_named_after(claim: Quantity, value: Quantity) -> bool:
    """Return whether a claim about an unrecognised quantity has the same name as the value."""
    words = [word for word in re.split("[^a-z0-9]+", value.part) if word not in NEUTRAL]
    return bool(words) and "_".join(sorted(words)) == claim.part


def _fits(wanted: Place, value: Value) -> bool:
    if value.rows[0].kind != "measured":
        return value.place[0] in ("", wanted[0]) or wanted[0] == ""
    return all(want in ("", have) for want, have in zip(wanted, value.place, strict=True))


def claimed_ratios(row: Row) -> list[Interval]:
    """Return the ratios of configuration to counterpart that the wording of a claim admits.

    A latency ratio may be published either way round, and "x % faster" of a time may mean
    1 / (1 + x) or 1 - x. Every defensible reading is returned; none if the unit is unknown.
    """
    quantity, printed = quantity_of(row), intervals.printed_interval(row)
    unit = quantity.unit
    if printed is None or not row.has_printed_number:
        return []
    unnamed = "x" if quantity.form == "ratio" and not row.unit.strip() else ""
    kind = unit.kind if unit is not None else unnamed
    if kind == "percent":
        return _of_percent(quantity, printed.scaled(0.01))
    if kind == "x" or (kind == "count" and quantity.form == "ratio"):
        return _of_times(quantity, printed)
    return []


_ONE = Interval(1.0, 1.0)


def _of_percent(quantity: Quantity, v: Interval) -> list[Interval]:
    lower = quantity.name in LOWER_IS_BETTER
    more, less, inverse = v.plus(1.0), _ONE - v, _ONE / v.plus(1.0)
    readings = {
        "ratio": [v, *([_ONE / v] if quantity.name not in HIGHER_IS_BETTER else [])],
        "increase": [more],
        "reduction": [less],
        "faster": [inverse, less] if lower else [more],
        "slower": [more] if lower else [less, inverse],
        "better": [less, inverse] if lower else [more],
        "worse": [more] if lower else [less, inverse],
    }
    return readings.get(quantity.form, [])


def _of_times(quantity: Quantity, v: Interval) -> list[Interval]:
    lower = quantity.name in LOWER_IS_BETTER
    up, down = [v, v.plus(1.0)], [_ONE / v, _ONE / v.plus(1.0)]
    readings = {
        "ratio": [v, *([_ONE / v] if quantity.name not in HIGHER_IS_BETTER else [])],
        "increase": up,
        "reduction": down,
        "faster": down if lower else up,
        "slower": up if lower else down,
        "better": down if lower else up,
        "worse": up if lower else down,
    }
    return readings.get(quantity.form, [])
