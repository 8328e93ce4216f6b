"""Table of each target's best points: by throughput, and by throughput per watt."""

from __future__ import annotations

from dataclasses import replace

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.density import scaled
from storlab.analysis.points import Section
from storlab.base.units import format_number
from storlab.brief.model import DataTable, Number
from storlab.brief.tables import Leaf, Scale, number_of, table_of
from storlab.figures.common import is_swept, place_of
from storlab.words.text import spread_text
from storlab.workloads.gpudirect.figures.best import EFFICIENCY, THROUGHPUT, Best, best_points
from storlab.workloads.gpudirect.job import GpuDirectJob

GB = 1e-3
NONE = Number("–", missing=True)


def sections_of(comparison: Comparison) -> list[Section]:
    """Return the sections of a comparison that show GPUDirect workloads."""
    return list(comparison.kinds.get(GpuDirectJob.kind, ()))


def best_table(comparison: Comparison, scale: Scale) -> DataTable | None:
    """Build the table of each target's best points; None if no parameter is swept."""
    leaves = []
    for section in sections_of(comparison):
        if not is_swept(section):
            continue
        for facet in section.facets():
            fast = {b.target: b for b in best_points(comparison, section, facet, THROUGHPUT)}
            lean = {b.target: b for b in best_points(comparison, section, facet, EFFICIENCY)}
            leaves += [
                Leaf(
                    [place_of(section, facet)],
                    best.cell,
                    [
                        *_numbers(comparison, best, scale),
                        *_numbers(comparison, lean.get(target), scale),
                    ],
                )
                for target, best in fast.items()
            ]
    if not leaves:
        return None
    head = [
        ("most throughput at", ""), ("throughput", "GB/s"), ("per watt there", "GB/s/W"),
        ("most per watt at", ""), ("throughput there", "GB/s"), ("per watt", "GB/s/W"),
    ]  # fmt: skip
    return table_of(
        comparison,
        "The best point of each target by throughput, and by throughput per watt. The largest of "
        "several means is a little too large: read its interval with that in mind",
        ["workload"],
        head,
        leaves,
    )


def _numbers(comparison: Comparison, best: Best | None, scale: Scale) -> list[Number]:
    if best is None:
        return [NONE] * 3
    return [
        Number(best.at, "", best.cell.point_id, strong=True),
        gb_number(comparison, best.cell, THROUGHPUT, scale),
        gb_number(comparison, best.cell, EFFICIENCY, scale),
    ]


def gb_number(comparison: Comparison, cell: Cell, key: str, scale: Scale) -> Number:
    """Return a metric, converted from MB to GB, as a table number with its marks."""
    column = comparison.column(key)
    value = cell.values.get(key)
    if column is None or value is None:
        return NONE
    number = number_of(cell, column, scale)
    shown = scaled(value, GB) or value
    spread = spread_text(shown) if number.spread else ""
    return replace(number, text=format_number(shown.estimate), spread=spread)
