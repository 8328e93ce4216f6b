"""Best values of a brief about one target: tiles for its cover, and a table by workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storlab.analysis.columns import Column, name_of, ratio_table_keys, short_of
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.brief.model import DataTable, Number, Tile
from storlab.brief.tables import Leaf, Scale, Scales, known_columns, number_of, table_of
from storlab.contracts.page import Page
from storlab.figures.common import is_swept, place_of
from storlab.words import findings as words


def main_keys(page: Page) -> list[str]:
    """Return the keys of a workload family's main columns: its rate, and what questions ask for."""
    asked = {key for question in page.metrics.questions for key in question.keys}
    rate = f"{page.operations.rate.name}.all"
    return list(dict.fromkeys([rate, *(key for key in ratio_table_keys(page) if key in asked)]))


def best_tables(comparison: Comparison, scales: Scales) -> list[DataTable]:
    """Build a table of best values per workload family; empty if there are several targets."""
    if len(comparison.targets) > 1:
        return []
    tables = (
        _table(comparison, sections, scales[kind]) for kind, sections in comparison.kinds.items()
    )
    return [table for table in tables if table.rows and table.columns]


def best_tiles(comparison: Comparison, scales: Scales) -> list[Tile]:
    """Build a tile with the best value of each main quantity; empty with several targets."""
    if len(comparison.targets) > 1:
        return []
    return [
        _tile(section, point, cell, column, scales[kind])
        for kind, sections in comparison.kinds.items()
        for column in _columns(comparison, sections)
        for section, point, cell in _best(
            [(s, point, cell) for s in sections for point, cell in _cells(comparison, s)], column
        )
    ]


def _columns(comparison: Comparison, sections: Sequence[Section]) -> list[Column]:
    columns = known_columns(comparison, sections, main_keys(sections[0].page))
    return [column for column in columns if column.better]


def _cells(
    comparison: Comparison, section: Section, points: Sequence[WorkloadPoint] | None = None
) -> list[tuple[WorkloadPoint, Cell]]:
    (target,) = comparison.targets
    chosen = section.points if points is None else points
    return [(point, comparison.row(point).cells[target]) for point in chosen]


def _best(
    places: Sequence[tuple[Section, WorkloadPoint, Cell]], column: Column
) -> Iterator[tuple[Section, WorkloadPoint, Cell]]:
    """Yield the place with the best value of a column; nothing without values."""
    known = [place for place in places if column.key in place[2].values]
    choose = max if column.better == "more" else min
    if known:
        yield choose(known, key=lambda place: place[2].values[column.key].estimate)


def _tile(section: Section, point: WorkloadPoint, cell: Cell, column: Column, scale: Scale) -> Tile:
    number = number_of(cell, column, scale)
    return Tile(
        title=words.best_title(_name(section.page, column), column.better),
        name="",
        index=None,
        texts=[],
        amount=number.text
        if _counts(column)
        else f"{number.text}\u00a0{scale.of(column)[0]}".rstrip(),
        beside=f"[{number.spread}]" if number.spread else "",
        detail=section.where(point),
        point_id=cell.point_id,
        marks=number.marks,
    )


def _counts(column: Column) -> bool:
    """Return whether a column's short heading contains its unit, such as IOPS."""
    return column.unit == "1/s"


def _name(page: Page, column: Column) -> str:
    return short_of(page, column) if _counts(column) else name_of(page, column)


def _table(comparison: Comparison, sections: Sequence[Section], scale: Scale) -> DataTable:
    """Build a table with a row per mix and size; each number names the point that it is of."""
    columns = _columns(comparison, sections)
    leaves = [
        Leaf(
            [place_of(section, facet)],
            cells[0][1],
            [_number(section, cells, column, scale) for column in columns],
        )
        for section in sections
        for facet in section.facets()
        if (cells := _cells(comparison, section, section.of_facet(facet)))
    ]
    page = sections[0].page
    return table_of(
        comparison,
        words.best_caption(sections[0].workload if len(comparison.kinds) > 1 else ""),
        ["workload"],
        [(short_of(page, column), scale.of(column)[0]) for column in columns],
        leaves,
        linked=False,
    )


def _number(
    section: Section, cells: Sequence[tuple[WorkloadPoint, Cell]], column: Column, scale: Scale
) -> Number:
    """Return the best value of a column, with the point of the sweep below it."""
    places = [(section, point, cell) for point, cell in cells]
    for _, point, cell in _best(places, column):
        number = number_of(cell, column, scale)
        at = section.at(point) if is_swept(section) else ""
        return Number(number.text, at, cell.point_id, number.marks)
    return number_of(cells[0][1], column, scale)
