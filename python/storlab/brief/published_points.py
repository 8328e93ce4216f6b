"""Find the measured points with the mix, block size and load of a published number."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.audit.quantities import size_bytes
from storlab.contracts.page import Page
from storlab.figures.common import last_point
from storlab.model.published import NOT_STATED, Row

ORDERS = {"rand": "random", "random": "random", "seq": "sequential", "sequential": "sequential"}
"""Order of offsets, random or sequential, by the first word of a published workload's name."""


def reads_of(row: Row, operations: Collection[str], page: Page) -> float | None:
    """Return the percentage of reads of a published number: 70 for mix ``70/30``.

    Without a mix it is 100 or 0 if the workload only reads or only writes, else None.
    """
    first, slash, _ = row.rw_mix.partition("/")
    if slash:
        try:
            return float(first)
        except ValueError:
            return None
    if len(page.operations.moved) != 2 or len(operations) != 1:
        return None
    return {page.operations.moved[0]: 100.0, page.operations.moved[1]: 0.0}.get(
        next(iter(operations))
    )


def points_of(
    comparison: Comparison, sections: Sequence[Section], row: Row, operations: Collection[str]
) -> Iterator[tuple[WorkloadPoint, str]]:
    """Yield the measured points that match a published number, each with a note.

    The note is empty if the publication states the operating point (such as the number of jobs).
    Otherwise the last point of the sweep matches, and the note is the publication's text for the
    operating point, or ``not stated``.
    """
    reads = reads_of(row, operations, sections[0].page)
    sizes = size_bytes(row.block_size) if row.block_size else ()
    values = _operating_values(row)
    for section in sections:
        for facet in section.facets():
            points = [p for p in section.of_facet(facet) if _same_work(p, row, reads, sizes)]
            if values is None:
                last = last_point(comparison, section, facet)
                at = "not stated" if row.x_value in (NOT_STATED, "") else _plain(row.x_value)
                yield from ((p, at) for p in points if last is not None and p.key == last.key)
            else:
                yield from ((p, "") for p in points if p.params.get(_axis(p.page, row)) in values)


def _plain(text: str) -> str:
    return text.replace("_", " ")


def _axis(page: Page, row: Row) -> str:
    printed = row.x_name.lower()
    return next((name for name, columns in page.load.outstanding.items() if printed in columns), "")


def _operating_values(row: Row) -> set[float] | None:
    """Return the published values of the swept parameter, usually one; None if not stated."""
    try:
        return {float(part) for part in row.x_value.split(",")}
    except ValueError:
        return None


def _same_work(point: WorkloadPoint, row: Row, reads: float | None, sizes: Sequence[float]) -> bool:
    page, params = point.page, point.params
    size = params.get(page.parameters.facet or "")
    order = ORDERS.get(row.workload.lower().replace("_", " ").replace("-", " ").partition(" ")[0])
    same_order = order is None or params.get(page.published.access, order) == order
    same_mix = reads is not None and params.get(page.parameters.mix or "") == reads
    return same_mix and same_order and isinstance(size, int) and size in sizes
