"""Recomputation of numbers per node, drive, rack unit, accelerator, terabyte or currency unit.

All totals and counts that the table states for the configuration are tried. A number is reported
only if no quotient of a total and a count agrees with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from storlab.audit.cells import Value, configs_of, facts, measured, place_of, shown
from storlab.audit.configuration_facts import covers, metric_name
from storlab.audit.derived import capacities, products
from storlab.audit.intervals import Interval, printed_interval
from storlab.audit.intervals import shown as number
from storlab.audit.quantities import quantity
from storlab.audit.relations import Broken
from storlab.audit.table import PublishedTable, Row
from storlab.audit.units import BYTES, MONEY, Unit, parse_unit
from storlab.base.units import exact_number

_NUMERATORS = ("throughput", "iops", "power", "price", "capacity")
_COUNTED: tuple[tuple[str, str], ...] = (
    (r"node|server|controller", r"(?:\w+_)?(?:nodes|servers|controllers)|(?:\w+_)?node_count"),
    (r"drive|ssd|hdd|disk|device", r"(?:\w+_)?(?:drives|ssds|hdds|disks|devices)|drive_count"),
    (r"rack_unit|ru|u", r"(?:\w+_)?(?:rack_units|height_u|rack_height|height)"),
    (r"accelerator|gpu", r"(?:\w+_)?(?:accelerators|gpus)|(?:accelerator|gpu)_count"),
    (r"client|host", r"(?:\w+_)?(?:clients|hosts)|(?:client|host)_count"),
)
_PER_TIME = re.compile(r"month|year|hour|annual|day|opex|energy|tco")


@dataclass(frozen=True, slots=True)
class Part:
    """Numerator or denominator of a quotient, with the table rows it comes from."""

    interval: Interval
    rows: tuple[Row, ...]
    text: str


def broken_quotients(table: PublishedTable) -> Iterator[Broken]:
    """Yield numbers, such as MB/s per drive, that equal no quotient of a stated total and count."""
    values = [v for v in (*measured(table), *facts(table)) if not v.unit]
    for row in table.rows:
        left, _, right = metric_name(row).partition("_per_")
        if right and row.value and row.kind in ("measured", "config") and not row.compare_config:
            yield from _broken(table, row, left, right, values)


def _broken(
    table: PublishedTable, row: Row, left: str, right: str, values: list[Value]
) -> Iterator[Broken]:
    unit, is_whole = _unit(row, right)
    printed = printed_interval(row)
    if unit is None or printed is None or " / " in row.config:
        return
    above = _above(table, row, left, values, right)
    below = _below(table, row, right, is_whole)
    made = [(a.interval / b.interval, a, b) for a in above for b in below if b.interval.low > 0]
    stated = printed.scaled(unit.factor)
    if not made or any(stated.meets(interval) for interval, _, _ in made):
        return
    best, a, b = min(made, key=lambda m: abs(math.log(m[0].middle / stated.middle)))
    yield Broken(
        (row, *a.rows, *b.rows),
        f"{row.metric} {shown(row)} ({row.config})",
        f"{a.text} / {b.text} = {number(best.middle / unit.factor)} {row.unit}",
        f"A number per {right.replace('_', ' ')} is a total divided by a count. No total and count "
        "that the table states for this configuration give this number.",
        stated,
        best,
        binary=True,
    )


def _unit(row: Row, right: str) -> tuple[Unit | None, bool]:
    """Return a row's unit, and whether only the metric's name states the divisor (as "per TB")."""
    unit = parse_unit(row.unit)
    if unit is None and "/" in row.unit:
        head, _, tail = row.unit.rpartition("/")
        is_counted = any(
            re.fullmatch(f"(?:{name})s?", tail.strip().lower()) for name, _ in _COUNTED
        )
        unit = parse_unit(head) if is_counted else None
        return unit, True
    if unit is None:
        return None, False
    below = {dims for dims, sign in unit.parts if sign < 0}
    in_unit = BYTES in below if _is_size(right) else MONEY in below if _is_money(right) else False
    return unit, not in_unit


def _is_size(right: str) -> bool:
    return bool(re.fullmatch(r"(?:raw_|usable_|effective_)?(?:tb|gb|pb|tib|gib|pib)", right))


def _is_money(right: str) -> bool:
    return right in ("dollar", "usd", "eur", "euro")


def _above(
    table: PublishedTable, row: Row, left: str, values: list[Value], right: str
) -> list[Part]:
    """Return the totals from which a published number per unit may have been computed.

    Only totals at the row's workload and operating point count, or all if the row names neither.
    """
    whole_unit = {"throughput": "MB/s", "iops": "IOPS", "power": "W", "price": "USD"}
    wanted = quantity(left, "")
    if wanted.name not in _NUMERATORS or (
        wanted.name in ("throughput", "iops") and _is_size(right)
    ):
        return []  # values per TB have an identity of their own
    if wanted.name == "capacity":
        return [Part(c.interval, c.rows, c.text) for c in capacities(table, row.config)]
    wanted = quantity(left, whole_unit[wanted.name])
    place = place_of(row)
    above = [
        v
        for v in values
        if v.config == row.config
        and v.quantity.name == wanted.name
        and v.rows[0].kind != "limit"
        and (not any(place) or v.place == place or wanted.name == "price")
        and "per" not in metric_name(v.rows[0]).split("_")
        and (wanted.statistic in ("", v.quantity.statistic) or v.quantity.statistic == "")
    ]
    if wanted.name == "price":
        lasting = [v for v in above if not _PER_TIME.search(metric_name(v.rows[0]))]
        above = lasting if len({v.quantity.part for v in lasting}) == 1 else []
    return [Part(v.interval, v.rows, v.text) for v in above]


def _below(table: PublishedTable, row: Row, right: str, is_whole: bool) -> list[Part]:
    if _is_size(right):
        return _sizes(table, row, right, is_whole)
    if _is_money(right):
        return _prices(table, row) if not is_whole else []
    for name, metric in _COUNTED:
        if re.fullmatch(f"(?:{name})s?", right):
            parts = [
                Part(
                    Interval(counted.value, counted.value),
                    (counted,),
                    exact_number(counted.value),
                )
                for counted in table.rows
                if counted.value and covers(counted, row.config) and _counts(counted, row, metric)
            ]
            if re.fullmatch(metric, row.x_name.lower()) and row.x:
                parts.append(Part(Interval(row.x, row.x), (row,), exact_number(row.x)))
            if "drive" in name:
                parts += _all_drives(table, row.config)
            return parts
    return []


def _counts(counted: Row, row: Row, metric: str) -> bool:
    """Return whether a row states the count by which another row's number is divided."""
    here = counted.kind == "config" or (
        counted.kind == "measured" and counted.workload == row.workload
    )
    return here and re.fullmatch(metric, metric_name(counted)) is not None


def _all_drives(table: PublishedTable, config: str) -> Iterator[Part]:
    for made in products(table, config, "drive"):
        counts = [r.value for r in made.rows[1:] if r.value]
        if counts:
            all_of = math.prod(counts)
            yield Part(Interval(all_of, all_of), made.rows[1:], exact_number(all_of))


def _sizes(table: PublishedTable, row: Row, right: str, is_whole: bool) -> list[Part]:
    """Return a configuration's capacities; only raw or usable ones if the row names the kind."""
    unit = parse_unit(_SIZE_UNITS[right.rpartition("_")[2]])
    scale = 1 / unit.factor if is_whole and unit is not None else 1.0
    sizes = capacities(table, row.config)
    kind = right.partition("_")[0] if "_" in right else ""
    named = [v for v in sizes if kind and kind in v.quantity.part.split("_")]
    return [Part(v.interval.scaled(scale), v.rows, v.text) for v in named or sizes]


_SIZE_UNITS = {"tb": "TB", "gb": "GB", "pb": "PB", "tib": "TiB", "gib": "GiB", "pib": "PiB"}


def _prices(table: PublishedTable, row: Row) -> list[Part]:
    prices = [
        v
        for v in facts(table)
        if v.quantity.name == "price" and not v.unit and v.config in configs_of(row.config)
    ]
    lasting = [v for v in prices if not _PER_TIME.search(metric_name(v.rows[0]))]
    return [Part(v.interval, v.rows, v.text) for v in lasting] if len(lasting) == 1 else []
