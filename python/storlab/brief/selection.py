"""Select the points that the brief of a large campaign shows; a CSV file contains all points.

A page with thousands of figures is useless and takes minutes to make. The selection does not depend
on results: mixes, block sizes and values of the sweep are spread evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import pyarrow as pa

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.audit.screening import spread
from storlab.base.csv_text import csv_bytes
from storlab.brief.model import FindingTable, Tile
from storlab.words.text import plural

LARGE = 120  # workload points; above this the page shows a selection
SECTIONS, FACETS, PLACES = 2, 2, 8  # most mixes, block sizes and sweep values on such a page


def shown(comparison: Comparison, most: int | None = None) -> Comparison:
    """Restrict a comparison with more than ``most`` points to a selection for the page."""
    if len(comparison.rows) <= (LARGE if most is None else most):
        return comparison
    wanted = spread(len(comparison.sections), SECTIONS)
    return _only(comparison, [_thinned(comparison.sections[place]) for place in wanted])


def only_points(comparison: Comparison, points: Sequence[WorkloadPoint]) -> Comparison:
    """Restrict a comparison to some of its points; sections and their points are in this order."""
    place = {point.key: number for number, point in enumerate(points)}
    sections = [
        replace(
            section,
            points=sorted(
                (point for point in section.points if point.key in place),
                key=lambda point: place[point.key],
            ),
        )
        for section in comparison.sections
    ]
    kept = [section for section in sections if section.points]
    return _only(comparison, sorted(kept, key=lambda section: place[section.points[0].key]))


def with_linked(
    whole: Comparison, part: Comparison, tiles: Sequence[Tile], tables: Sequence[FindingTable]
) -> Comparison:
    """Return a comparison of the points that the page shows or that its findings link to."""
    if part is whole:
        return whole
    linked = {tile.point_id for tile in tiles if tile.point_id}
    linked |= {point for t in tables for row in t.rows for _, point in row.values}
    points = [
        point
        for section in whole.sections
        for point in section.points
        if point.key in part.rows
        or linked & {cell.point_id for cell in whole.row(point).cells.values()}
    ]
    return only_points(whole, points)


def _only(comparison: Comparison, sections: list[Section]) -> Comparison:
    """Restrict a comparison to the points of these sections."""
    keys = {point.key for section in sections for point in section.points}
    data = comparison.dataset
    dataset = replace(
        data,
        points=[point for point in data.points if point.key in keys],
        runs={cell: runs for cell, runs in data.runs.items() if cell[0] in keys},
        planned={cell: count for cell, count in data.planned.items() if cell[0] in keys},
        point_ids={cell: name for cell, name in data.point_ids.items() if cell[0] in keys},
    )
    rows = {key: row for key, row in comparison.rows.items() if key in keys}
    present = {key for row in rows.values() for cell in row.cells.values() for key in cell.values}
    return Comparison(
        dataset,
        comparison.baseline,
        rows,
        sections,
        [column for column in comparison.columns if column.key in present],
        [cell for cell in comparison.published if cell.point_key in keys],
    )


def _thinned(section: Section) -> Section:
    facets = section.facets()
    points: list[WorkloadPoint] = []
    for place in spread(len(facets), FACETS):
        along = section.of_facet(facets[place])
        points += [along[at] for at in spread(len(along), PLACES)]
    keys = {point.key for point in points}
    return replace(section, points=[point for point in section.points if point.key in keys])


def caveat(whole: Comparison, part: Comparison, table: str) -> list[str]:
    """Return a caveat that the page does not show all points; empty if it does."""
    if part is whole:
        return []
    mixes = "mix" if len(whole.sections) == 1 else "mixes"
    return [
        f"The campaign has {plural(len(whole.rows), 'workload point')}, and this page shows "
        f"{len(part.rows):,} of them, spread evenly over the sweep whatever their results: "
        f"{len(part.sections)} of {len(whole.sections)} {mixes}. The "
        f"sentences above count all of them, and the runs of the points that they lead to are "
        f"listed, too. Every point is in {table} beside this page; `storlab compare` and `storlab "
        "export` print tables of any."
    ]


def every_point(comparison: Comparison) -> bytes:
    """Return the results of all points as CSV: a row per point and target, with intervals."""
    columns = comparison.columns
    names = list(dict.fromkeys(n for row in comparison.rows.values() for n in row.point.params))
    cells = [
        (row, cell)
        for row in comparison.rows.values()
        for cell in row.cells.values()
        if cell.point_id is not None
    ]
    table: dict[str, Sequence[str | float | int | None]] = {
        "point_id": [cell.point_id for _, cell in cells],
        "workload": [row.point.workload for row, _ in cells],
        "engine": [row.point.engine for row, _ in cells],
        "target": [cell.target for _, cell in cells],
        "runs": [len(cell.runs) for _, cell in cells],
        "failed": [len(cell.failed) for _, cell in cells],
    }
    for name in names:
        values = [row.point.params.get(name) for row, _ in cells]
        texts = [None if v is None else str(v) for v in values]
        if len(set(texts)) > 1:
            table[f"param_{name}"] = texts
    for column in columns:
        intervals = [cell.values.get(column.key) for _, cell in cells]
        for part in ("estimate", "low", "high"):
            end_of = attrgetter(part)
            ends = [None if v is None else end_of(v) for v in intervals]
            if ends.count(None) < len(ends):
                suffix = "" if part == "estimate" else f":{part}"
                table[f"{column.key}{suffix}"] = ends
    return csv_bytes(pa.table(table))
