"""Measurements of a published table, by configuration and place: throughput, rates, latencies.

A place is a workload, mix and block size, measured at one or several operating points. Some rules
combine metrics of a place: watts from throughput and efficiency, outstanding I/O from rate and
latency. They take their values from this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from storlab.audit.configuration_facts import covers
from storlab.audit.intervals import Interval, hull, si_interval
from storlab.audit.quantities import operation_of, plain_part, quantity_of, size_bytes
from storlab.audit.table import PublishedTable, Row
from storlab.model.published import REMEMBERED

Place = tuple[str, str, str]
"""Workload, mix and block size, as printed."""

ONE_SIDED = {"below", "less_than", "under", "more_than", "over", "at_least", "above", "from"}
NOT_UNDER_LOAD = {"limit", "idle", "rated", "budget", "sleep", "standby", "state", "tdp"}
_PARTIAL_CAPACITY = {"drive", "usable", "node", "range", "boot", "client", "class"}
# A rate is combined with a latency only if both describe the same, whole work: not database
# transactions with the storage I/O below them, and not one part of the work with the total.
_OF_ONE_THING = ("throughput", "iops", "latency")
_MEANS = ("", "avg")
_NUMBER = re.compile(r"(\d{1,3}(,\d{3})+|\d+)(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Value:
    """Value in B, s, J or operations, with the ids of the table rows it comes from."""

    span: Interval
    rows: tuple[str, ...]
    x: str  # operating point; "" if not stated


@lru_cache(maxsize=REMEMBERED)
def place_of(row: Row) -> Place:
    """Return workload, mix and block size of a table row."""
    return (row.workload, row.rw_mix, row.block_size)


def place_words(place: Place) -> str:
    """Return workload, mix and block size as text, for example ``90/10 256KB``."""
    return " ".join(part for part in place if part) or "the whole table"


@lru_cache(maxsize=REMEMBERED)
def point_of(row: Row) -> str:
    """Return the operating point of a row if it is a single number, else ""."""
    return row.x_value if _NUMBER.fullmatch(row.x_value.strip()) else ""


def points_of(row: Row) -> set[str]:
    """Return all operating points that a table row names: three for ``4,8,16``."""
    parts = {part.strip() for part in re.split(r"[,;/]", row.x_value)}
    if point_of(row):
        return {row.x_value}
    return parts if all(_NUMBER.fullmatch(part) for part in parts) else set()


def read_share(mix: str) -> float | None:
    """Return the read share of a mix such as ``70/30``, or None if the text is not a mix."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%?\s*[/:-]\s*(\d+(?:\.\d+)?)\s*%?\s*", mix)
    if match is None or abs(float(match[1]) + float(match[2]) - 100) > 1e-9:
        return None
    return float(match[1]) / 100


class Places:
    """Measurements of a table, indexed by configuration and place (workload, mix, block size)."""

    def __init__(self, table: PublishedTable) -> None:
        self.table = table
        self._rows: dict[tuple[str, Place], list[Row]] = {}
        # Caches, since several rules make the same queries.
        self._rows_of: dict[tuple[str, Place, str], list[Row]] = {}
        self._rates: dict[tuple[str, Place, str], dict[str, Value]] = {}
        for row in table.rows:
            if _is_measurement(row):
                self._rows.setdefault((row.config, place_of(row)), []).append(row)

    def configs(self) -> list[str]:
        """Return the configurations with measurements, in table order."""
        return list(dict.fromkeys(name for name, _ in self._rows))

    def of_config(self, config: str) -> list[Place]:
        """Return the places at which a configuration was measured, in table order."""
        return [place for name, place in self._rows if name == config]

    def of(self, config: str, place: Place, quantity: str) -> list[Row]:
        """Return the rows that state a quantity under load: means, plain values and maxima."""
        asked = (config, place, quantity)
        if asked not in self._rows_of:
            self._rows_of[asked] = [
                row
                for row in self._rows.get((config, place), [])
                if quantity_of(row).name == quantity
                and quantity_of(row).statistic in (*_MEANS, "max")
                and not set(quantity_of(row).part.split("_")) & NOT_UNDER_LOAD
                and not (quantity in _OF_ONE_THING and plain_part(row))
            ]
        return self._rows_of[asked]

    def throughput(self, config: str, place: Place) -> dict[str, Value]:
        """Return total throughput by operating point.

        It is the stated total, the sum of reads and writes, or throughput per TB times capacity.
        """
        rows = self.of(config, place, "throughput")
        values = {point: value for point in _points(rows) if (value := _total(rows, point, place))}
        return values or self._from_density(config, place)

    def rate(self, config: str, place: Place, op: str) -> dict[str, Value]:
        """Return operations per second of one kind, or "total", by operating point."""
        asked = (config, place, op)
        if asked in self._rates:
            return self._rates[asked]
        rates = self._rates[asked] = {}
        for quantity in ("iops", "throughput"):
            rows = self.of(config, place, quantity)
            for point in _points(rows):
                value = _single(rows, point, op, place) or _shared(rows, point, op, place)
                if value is not None and quantity == "throughput":
                    value = _divided(value, place)
                if value is not None:
                    rates.setdefault(point, value)
        return rates

    def latency(self, config: str, place: Place) -> dict[str, list[Row]]:
        """Return rows of mean latency by kind of operation: read, write or total."""
        rows_of: dict[str, list[Row]] = {}
        for row in self.of(config, place, "latency"):
            if quantity_of(row).statistic in _MEANS:
                rows_of.setdefault(_operation(row, place), []).append(row)
        return rows_of

    def capacity(self, config: str) -> Value | None:
        """Return the raw capacity of a configuration, as the range of its stated values."""
        rows = [
            row
            for row in self.table.rows
            if row.kind == "config"
            and row.config
            and covers(row, config)
            and quantity_of(row).name == "capacity"
            and quantity_of(row).form == "value"
            and not _PARTIAL_CAPACITY & set(re.split(r"\W|_", row.metric.lower()))
        ]
        spans = [span for row in rows if (span := si_interval(row)) is not None]
        return Value(hull(spans), tuple(row.id for row in rows), "") if spans else None

    def _from_density(self, config: str, place: Place) -> dict[str, Value]:
        rows = self.of(config, place, "throughput_per_tb")
        capacity = self.capacity(config)
        if capacity is None:
            return {}
        values = {point: _total(rows, point, place) for point in _points(rows)}
        return {
            point: Value(value.span * capacity.span, (*value.rows, *capacity.rows), point)
            for point, value in values.items()
            if value is not None
        }


def _is_measurement(row: Row) -> bool:
    return (
        row.is_measured
        and row.value is not None
        and bool(row.config)
        and row.qualifier.lower() not in ONE_SIDED
        and quantity_of(row).form == "value"
    )


def _points(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(point_of(row) for row in rows))


def _operation(row: Row, place: Place) -> str:
    op = {"get": "read", "put": "write"}.get(operation_of(row), operation_of(row))
    share = read_share(place[1])
    if op not in ("read", "write", "total") and share in (0.0, 1.0):
        return "read" if share == 1.0 else "write"
    return op if op in ("read", "write") else "total"


def _single(rows: Iterable[Row], point: str, op: str, place: Place) -> Value | None:
    """Return the stated value of one operation; the most precise one if there are several."""
    values = [
        Value(span, (row.id,), point)
        for row in rows
        if point_of(row) == point
        and _operation(row, place) == op
        and (span := si_interval(row)) is not None
        and span.low > 0
    ]
    return min(values, key=lambda v: v.span.high / v.span.low) if values else None


def _total(rows: Iterable[Row], point: str, place: Place) -> Value | None:
    """Return the total over operations: as stated, of the only operation, or reads + writes."""
    rows = list(rows)
    whole = _single(rows, point, "total", place)
    if whole is not None:
        return whole
    read, write = (_single(rows, point, op, place) for op in ("read", "write"))
    share = read_share(place[1])
    if read is not None and write is not None:
        return Value(read.span + write.span, (*read.rows, *write.rows), point)
    if share in (0.0, 1.0):
        return read if share == 1.0 else write
    return None


def _shared(rows: Iterable[Row], point: str, op: str, place: Place) -> Value | None:
    """Return the value of one operation, computed from the total and the read/write mix."""
    whole, share = _total(rows, point, place), read_share(place[1])
    if op == "total" or whole is None or share is None:
        return whole if op == "total" else None
    part = share if op == "read" else 1 - share
    return Value(whole.span.scaled(part), whole.rows, point) if part > 0 else None


def _divided(value: Value, place: Place) -> Value | None:
    """Convert bytes per second to operations per second; KB may mean 1,000 or 1,024 bytes."""
    sizes = size_bytes(place[2])
    if not sizes:
        return None
    return Value(value.span / Interval(min(sizes), max(sizes)), value.rows, value.x)
