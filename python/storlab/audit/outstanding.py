"""Outstanding I/O implied by published rates and latencies (Little's law)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storlab.audit.intervals import Interval, si_interval
from storlab.audit.measurements import Place, Places, point_of, read_share
from storlab.audit.table import Row


@dataclass(frozen=True, slots=True)
class Implied:
    """Operations in flight of one cell, as rate x mean latency.

    ``whole`` is False if only some kinds of operation have a latency.
    """

    span: Interval
    rows: tuple[str, ...]
    point: str  # operating point of the rate
    whole: bool = True
    latencies: tuple[str, ...] = ()  # the latency rows among ``rows``


def implied(places: Places, config: str, place: Place, op: str = "") -> list[Implied]:
    """Return the operations in flight that rate x latency implies, one entry per operating point.

    A latency without an operating point is combined with the rate at every stated point. ``op``
    restricts the result to one kind of operation.
    """
    latency = places.latency(config, place)
    wanted = {name: rows for name, rows in latency.items() if not op or name == op}
    loads: list[Implied] = []
    for at in dict.fromkeys(point_of(row) for rows in wanted.values() for row in rows):
        at_point = {name: [r for r in rows if point_of(r) == at] for name, rows in wanted.items()}
        known = {name: rows for name, rows in at_point.items() if rows}
        points = {p for name in known for p in places.rate(config, place, name)}
        for point in sorted(points) if not at else [p for p in points if p == at]:
            load = _at(places, config, place, known, point, op)
            if load is not None:
                loads.append(load)
    return loads


def _at(
    places: Places, config: str, place: Place, latency: dict[str, list[Row]], point: str, op: str
) -> Implied | None:
    parts: dict[str, tuple[Interval, tuple[str, ...], str]] = {}
    for name, rows in latency.items():
        rate = places.rate(config, place, name).get(point)
        for row in rows:
            span = si_interval(row)
            if rate is not None and span is not None and span.low > 0 and name not in parts:
                parts[name] = (rate.span * span, rate.rows, row.id)
    if "total" in parts and not op:
        parts = {"total": parts["total"]}
    if not parts:
        return None
    span, rows_used, ids = Interval(0, 0), list[str](), list[str]()
    for product, rate_rows, row_id in parts.values():
        span = span + product
        rows_used += rate_rows
        ids.append(row_id)
    rows_all = tuple(dict.fromkeys([*ids, *rows_used]))
    return Implied(span, rows_all, point, _is_whole(parts, place), tuple(ids))


def _is_whole(names: Iterable[str], place: Place) -> bool:
    share = read_share(place[1])
    known = set(names)
    if "total" in known or {"read", "write"} <= known:
        return True
    return share is not None and (
        (share == 1.0 and "read" in known) or (share == 0.0 and "write" in known)
    )


def shared_points(first: Iterable[Implied], other: Iterable[Implied]) -> Iterator[
    tuple[Implied, Implied]
]:  # fmt: skip
    """Yield pairs of implied loads at the same operating point; an unstated one matches any."""
    for a, b in itertools.product(first, other):
        if a.point == b.point or not a.point or not b.point:
            yield a, b
