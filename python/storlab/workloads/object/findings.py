"""Table in a brief of requests by endpoint, for targets with several endpoints or addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.base.units import NS_PER_S, format_number
from storlab.brief.family_additions import FamilyAdditions
from storlab.brief.flags import Mark, mark
from storlab.brief.model import DataTable, ExtraSection, Number
from storlab.brief.tables import Leaf, Scale, table_of
from storlab.figures.common import far_places, place_of
from storlab.words.text import latency_text
from storlab.workloads.object.details import ObjectDetails
from storlab.workloads.object.endpoints import (
    UNEVEN,
    Traffic,
    merged_endpoints,
    slow_endpoints,
    traffic_by_server,
)
from storlab.workloads.object.page import WORDS

KIND = "object"
MOST_SERVERS = 8  # largest number of rows for one kind of request of one target
NONE = Number("–", missing=True)
KINDS = {**WORDS, "part": "part of an upload", "upload": "other request of an upload"}
CAPTION = (
    "Requests by endpoint at the last point of the axis, over all repeats. An "
    "upload in parts counts as several requests; a retried attempt counts as failed"
)
LEAD = (
    "Rates and percentiles of a target are over all its endpoints, which hides a "
    "single slow one. Here, every request counts at the endpoint to which it was "
    "sent."
)
HEAD = [
    ("requests", ""), ("share", "%"), ("throughput", "MB/s"), ("p50", ""), ("p99", ""),
    ("errors", ""),
]  # fmt: skip


def endpoint_table(comparison: Comparison) -> DataTable | None:
    """Build the table of endpoints; None if no target has several endpoints or addresses."""
    leaves: list[Leaf] = []
    for section, facet, point in far_places(comparison, comparison.kinds.get(KIND, ())):
        where = ", ".join(text for text in (place_of(section, facet), section.at(point)) if text)
        for target in comparison.planned([point]):
            leaves += _leaves(where, comparison.row(point).cells[target])
    if not leaves:
        return None
    return table_of(comparison, CAPTION, ["workload point", "request", "endpoint"], HEAD, leaves)


def _leaves(where: str, cell: Cell) -> Iterator[Leaf]:
    traffic = traffic_by_server(
        row for run in cell.runs for row in ObjectDetails.of(run.record).endpoints
    )
    if len({name for own in traffic.values() for name in own}) < 2:
        return
    slow = {(one.kind, one.name) for run in cell.runs for one in slow_endpoints(run.record)}
    records = (run.record for run in cell.runs)
    seconds = sum(r.window_end_ns - r.window_start_ns for r in records) / NS_PER_S
    for kind, word in KINDS.items():
        own = traffic.get(kind, {})
        every = sum(each.requests for each in own.values())
        more = f" (one of {len(own)})" if len(own) > MOST_SERVERS else ""
        for name in _shown(own):
            marks = _marks(cell) if (kind, name) in slow else ()
            numbers = _numbers(cell, own[name], every, seconds, marks)
            yield Leaf([where, word, f"{name}{more}"], cell, numbers)


def _shown(traffic: dict[str, Traffic]) -> list[str]:
    """Return the servers to list; of many, only those with the highest median latency."""
    if len(traffic) <= MOST_SERVERS:
        return list(traffic)
    slowest = sorted(traffic, key=lambda name: traffic[name].p50_ns, reverse=True)
    return slowest[:MOST_SERVERS]


def _marks(cell: Cell) -> tuple[Mark, ...]:
    """Return the marks to print beside the latencies of a slow endpoint."""
    runs = len(cell.runs)
    return tuple(
        mark(flag.kind, f"{flag.message} ({flag.runs} of {runs} runs)")
        for flag in cell.flags
        if flag.kind == UNEVEN
    )


def _numbers(
    cell: Cell, own: Traffic, every: int, seconds: float, marks: tuple[Mark, ...]
) -> list[Number]:
    point = cell.point_id
    errors = Number(f"{own.errors:,}", "", point)
    if not own.requests:
        return [Number("0", "", point), NONE, NONE, NONE, NONE, errors]
    moved = own.bytes / seconds / 1e6 if seconds > 0 else 0.0
    return [
        Number(f"{own.requests:,}", "", point),
        Number(format_number(100 * own.requests / every), "", point),
        Number(format_number(moved), "", point) if own.bytes else NONE,
        Number(latency_text(own.p50_ns), "", point, marks),
        Number(latency_text(own.p99_ns), "", point, marks),
        errors,
    ]


def endpoint_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the requests of each endpoint, server address and kind at every point.

    Repeats are merged. Targets with a single endpoint and address are left out.
    """
    return [
        {
            "where": section.where(point),
            "target": target,
            "point": cell.point_id,
            **{name: value for name, value in row.items() if name != "latency"},
        }
        for section in comparison.kinds.get(KIND, ())
        for point in section.points
        for target, cell in comparison.row(point).cells.items()
        for row in _rows(cell)
    ]


def _rows(cell: Cell) -> list[dict[str, Any]]:
    told = [row for run in cell.runs for row in ObjectDetails.of(run.record).endpoints]
    if len({(row.endpoint, row.address) for row in told}) < 2:
        return []
    return merged_endpoints(told)


class Findings(FamilyAdditions):
    """Section, table and data on requests by endpoint, for a brief."""

    def section(self, comparison: Comparison, scale: Scale) -> ExtraSection | None:
        """Build the section on endpoints; None if every target has only one endpoint."""
        del scale
        table = endpoint_table(comparison)
        if table is None:
            return None
        return ExtraSection(
            anchor="endpoints",
            title="Endpoints of the stores",
            short="Endpoints",
            lead=[LEAD],
            tables=[table],
        )

    def tables(self, comparison: Comparison) -> list[DataTable]:
        """Build the table of endpoints for ``storlab compare``."""
        table = endpoint_table(comparison)
        return [] if table is None else [table]

    def data(self, comparison: Comparison) -> dict[str, Any]:
        """Return the counters of each endpoint at every point."""
        rows = endpoint_data(comparison)
        return {"endpoints": rows} if rows else {}
