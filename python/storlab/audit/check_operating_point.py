"""Audit rule: report numbers that are compared but belong to different operating points."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from storlab.audit.configuration_facts import is_load_x, members
from storlab.audit.finding import Finding
from storlab.audit.intervals import Interval, si_interval
from storlab.audit.measurements import Place, place_of, place_words, point_of, points_of
from storlab.audit.quantities import operation_of, quantity_of
from storlab.audit.table import NOT_STATED, PublishedTable, Row

SUMMARY = "efficiency or one side of a ratio read at another operating point, or at none stated"
PERFORMANCE = ("throughput", "iops")
EFFICIENCY = ("power_efficiency", "energy_efficiency", "iops_per_watt")
_AT_BEST = re.compile(r"(\w+?)_(?:at|for)_max(?:imum)?_(?:performance|throughput|iops)")


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield findings on values and claims whose operating points differ or are not stated."""
    yield from _efficiency_values(table)
    yield from _claims_apart(table)
    yield from _claims_off_peak(table)
    yield from _ratios_across(table)
    yield from _different_points(table)


def _efficiency_values(table: PublishedTable) -> Iterator[Finding]:
    """Yield findings on efficiencies that lack an operating point, or throughput at that point."""
    points: dict[tuple[str, Place], set[str]] = {}
    rates: dict[tuple[str, Place], list[str]] = {}
    for row in table.rows:
        if row.is_measured and quantity_of(row).name in PERFORMANCE and point_of(row):
            points.setdefault((row.config, place_of(row)), set()).add(point_of(row))
            rates.setdefault((row.config, place_of(row)), []).append(row.id)
    unstated: list[Row] = []
    for row in table.rows:
        name, key = quantity_of(row), (row.config, place_of(row))
        if not row.is_measured or name.name not in EFFICIENCY or name.is_claim or key not in points:
            continue
        if not point_of(row) and row.x_value in ("", NOT_STATED) and len(points[key]) > 1:
            unstated.append(row)
        elif point_of(row) and point_of(row) not in points[key]:
            yield Finding(
                rule="operating_point",
                severity="warning",
                rows=[row.id, *rates[key]],
                printed=f"{row.config}, {place_words(place_of(row))}: {row.metric} at "
                f"{row.x_name} {row.x_value}",
                recomputed=f"throughput is printed at {', '.join(sorted(points[key]))} only",
                why="Efficiency and performance of one cell are stated at different operating "
                "points, so the storage never had both at the same time.",
            )
    if unstated:
        names = ", ".join(dict.fromkeys(row.metric for row in unstated))
        seen = sorted({p for r in unstated for p in points[r.config, place_of(r)]}, key=_order)
        x_name = next((row.x_name for row in unstated if row.x_name), "the swept parameter")
        yield Finding(
            rule="operating_point",
            severity="warning",
            rows=[row.id for row in unstated],
            printed=f"{names} without a value of {x_name}",
            recomputed=f"throughput of the same cells is printed at {x_name} {', '.join(seen)}",
            why="Efficiency depends on the load. Without its operating point it cannot be compared "
            "with the throughput of the same cell, and its ratio may have been taken at the load "
            "that makes it largest.",
        )


def _order(text: str) -> tuple[float, str]:
    try:
        return float(text.replace(",", "")), text
    except ValueError:
        return float("inf"), text


def _claims_apart(table: PublishedTable) -> Iterator[Finding]:
    """Yield findings if a cell's gains in efficiency and performance are at different loads."""
    claims: dict[tuple[str, str, Place], dict[str, list[Row]]] = {}
    for row in table.rows:
        quantity = quantity_of(row)
        kind = (
            "efficiency"
            if quantity.name in EFFICIENCY
            else "performance" if quantity.name in PERFORMANCE else ""
        )  # fmt: skip
        if quantity.is_claim and kind and point_of(row):
            key = (row.config, row.compare_config, place_of(row))
            claims.setdefault(key, {}).setdefault(kind, []).append(row)
    for (config, compared, place), kinds in claims.items():
        first, other = kinds.get("efficiency", []), kinds.get("performance", [])
        if not first or not other or {r.x_value for r in first} & {r.x_value for r in other}:
            continue
        places = [f"{r.metric} {r.printed} at {r.x_name} {r.x_value}" for r in (*other, *first)]
        yield Finding(
            rule="operating_point",
            severity="warning",
            rows=[row.id for row in (*other, *first)],
            printed=f"{config} against {compared}, {place_words(place)}: {'; '.join(places)}",
            recomputed="the two gains have no operating point in common",
            why="The two gains were measured at different operating points. A system runs at only "
            "one of them, at which the size of the other gain is not stated.",
        )


def _claims_off_peak(table: PublishedTable) -> Iterator[Finding]:
    """Yield notes on gains that are not stated at the load with the best performance."""
    best: dict[tuple[str, str], list[Row]] = {}
    for row in table.rows:
        if row.value is not None and _AT_BEST.fullmatch(row.metric.strip().lower()):
            for config in members(row.config) or [""]:
                best.setdefault((config, row.block_size), []).append(row)
    for row in table.rows:
        quantity = quantity_of(row)
        if not quantity.is_claim or quantity.name not in PERFORMANCE or not point_of(row):
            continue
        peaks = [*best.get((row.config, row.block_size), []), *best.get(("", row.block_size), [])]
        if peaks and row.x is not None and all(peak.value != row.x for peak in peaks):
            yield Finding(
                rule="operating_point",
                severity="note",
                rows=[row.id, *(peak.id for peak in peaks)],
                printed=f"{place_words(place_of(row))}: {row.metric} {row.printed} at {row.x_name} "
                f"{row.x_value}",
                recomputed=f"performance is best at {', '.join(p.printed for p in peaks)}",
                why="The gain is stated at a load at which neither side performs best. The gain at "
                "best performance is missing.",
            )


def _ratios_across(table: PublishedTable) -> Iterator[Finding]:
    """Yield findings on ratios that only match values at two different operating points."""
    for row in table.rows:
        quantity, printed = quantity_of(row), si_interval(row)
        if quantity.form != "ratio" or printed is None or row.kind != "ratio_claim":
            continue
        sides = [_values(table, row, config) for config in (row.config, row.compare_config)]
        pairs = [(a, b, _ratio(a, b)) for a in sides[0] for b in sides[1]]
        same = [ratio for a, b, ratio in pairs if point_of(a) == point_of(b)]
        if not same or any(_agrees(ratio, printed) for ratio in same):
            continue
        across = [(a, b) for a, b, r in pairs if point_of(a) != point_of(b) and _agrees(r, printed)]
        if len(across) == 1:
            a, b = across[0]
            yield Finding(
                rule="operating_point",
                severity="warning",
                rows=[row.id, a.id, b.id],
                printed=f"{place_words(place_of(row))}: {row.metric} {row.printed}",
                recomputed=f"{a.printed} at {a.x_name} {a.x_value} over {b.printed} at {b.x_name} "
                f"{b.x_value}; no common point gives it",
                why="The two sides of the ratio were read at different operating points.",
            )


def _values(table: PublishedTable, claim: Row, config: str) -> list[Row]:
    about = quantity_of(claim)
    return [
        row
        for row in table.rows
        if row.is_measured
        and row.config == config
        and point_of(row)
        and place_of(row) == place_of(claim)
        and quantity_of(row).name == about.name
        and quantity_of(row).form == "value"
        and about.statistic in ("", quantity_of(row).statistic)
        and (not claim.op or operation_of(row) == operation_of(claim))
    ]


def _ratio(above: Row, below: Row) -> Interval | None:
    first, other = si_interval(above), si_interval(below)
    if first is None or other is None or first.low <= 0 or other.low <= 0:
        return None
    return first / other


def _agrees(ratio: Interval | None, printed: Interval) -> bool:
    """Return whether a ratio or its inverse matches a published one.

    The inverse is allowed, because latency ratios are often published as gains.
    """
    if ratio is None:
        return False
    return ratio.meets(printed) or (Interval(1, 1) / ratio).meets(printed)


def _different_points(table: PublishedTable) -> Iterator[Finding]:
    """Yield one note if a table compares configurations that have no load in common."""
    rows_by_config: dict[tuple[str, str, Place], dict[str, list[Row]]] = {}
    for row in table.rows:
        quantity = quantity_of(row)
        is_rate = row.is_measured and quantity.name in PERFORMANCE
        if is_rate and is_load_x(row.x_name) and points_of(row):
            key = (quantity.name, operation_of(row), place_of(row))
            rows_by_config.setdefault(key, {}).setdefault(row.config, []).append(row)
    rows: list[str] = []
    places: list[str] = []
    x_name = ""
    for (_, _, place), by_config in rows_by_config.items():
        points = {
            config: {x for row in config_rows for x in points_of(row)}
            for config, config_rows in by_config.items()
        }
        if len(points) < 2 or set.intersection(*points.values()):
            continue
        x_name = next(iter(by_config.values()))[0].x_name
        rows += [row.id for config_rows in by_config.values() for row in config_rows]
        at = ", ".join(f"{config} {'/'.join(sorted(p))}" for config, p in points.items())
        places.append(f"{place_words(place)}: {at}")
    if rows:
        yield Finding(
            rule="operating_point",
            severity="note",
            rows=rows,
            printed="; ".join(places),
            recomputed=f"no {x_name} at which all of these configurations are printed",
            why="Each configuration is shown at its own load. That compares maxima; latency, "
            "efficiency and gains at equal load do not follow from it.",
        )
