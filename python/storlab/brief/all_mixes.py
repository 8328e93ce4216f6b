"""Section of a brief that covers all mixes of a workload: figures, table and failed requests."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.columns import table_keys
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, title_of
from storlab.brief import tables
from storlab.brief.flags import mark
from storlab.brief.model import DataTable, FigureGroup, Number, SectionBlock
from storlab.figures.common import family_place, far_points, last_point, last_point_text, slug
from storlab.words.text import percent_digits


def family_section(
    comparison: Comparison,
    sections: Sequence[Section],
    groups: list[FigureGroup],
    scale: tables.Scale,
) -> SectionBlock | None:
    """Build the section that covers all mixes of a workload; None if it would have no figures."""
    if not groups:
        return None
    first = sections[0]
    name = first.prefix or first.workload
    candidates = [_mix_table(comparison, sections, scale), _error_table(comparison, sections)]
    return SectionBlock(
        anchor=f"all-{slug(first.workload, first.engine)}",
        title="All mixes" if not first.prefix else f"All mixes of {name}",
        opening=None,
        groups=groups,
        tables=[table for table in candidates if table is not None],
        short="All mixes" if not first.prefix else f"All of {name}",
        numbers="All mixes in numbers",
    )


def _mix_table(
    comparison: Comparison, sections: Sequence[Section], scale: tables.Scale
) -> DataTable:
    """Build a table of each mix and block size at the last point of its sweep."""
    first = sections[0]
    page = first.page
    columns = tables.known_columns(comparison, sections, table_keys(page))
    leaves, facets = [], far_points(comparison, sections).values()
    sized = len(facets) > 1
    for facet, places in facets:
        for section, point in places:
            heads = [section.mix, section.facet_text(facet)]
            for target in comparison.planned([point]):
                cell = comparison.row(point).cells[target]
                numbers = [tables.number_of(cell, column, scale) for column in columns]
                leaves.append(tables.Leaf(heads if sized else heads[:1], cell, numbers))
    head = [title_of(page, page.parameters.mix or "mix")]
    head += [title_of(page, first.axes.facet)] if sized and first.axes.facet else []
    shared = {family_place(places, facet) for facet, places in facets}
    where = (
        shared.pop()
        if len(shared) == 1
        else f"{last_point_text(first)} {reach(comparison, sections)}"
    )
    return tables.table_of(
        comparison,
        f"Every mix at {where}: {tables.mean_words(leaves)}",
        head,
        [(c.short, scale.of(c)[0]) for c in columns],
        leaves,
    )


def reach(comparison: Comparison, sections: Sequence[Section]) -> str:
    """Return a clause on the last points of sweeps, ``at which all targets were measured``.

    If a target was not measured at one of them, the clause says ``the most targets`` instead.
    """
    far = (last_point(comparison, s, facet) for s in sections for facet in s.facets())
    rows = [comparison.row(point) for point in far if point is not None]
    missed = any(cell.point_id and not cell.measured for r in rows for cell in r.cells.values())
    who = "the most targets" if missed else "all targets"
    return f"at which {who} were measured"


def _error_table(comparison: Comparison, sections: Sequence[Section]) -> DataTable | None:
    """Build the table of failed requests by kind and operation; None if none failed."""
    leaves = []
    for section in sections:
        for point in section.points:
            for target in comparison.planned([point]):
                leaves += _error_rows(
                    section, section.where(point), comparison.row(point).cells[target]
                )
    if not leaves:
        return None
    return tables.table_of(
        comparison,
        "Failed requests of all finished runs, by kind; they are part of no other number",
        ["workload point", "operation", "kind"],
        [("failed", ""), ("of all its requests", "%")],
        leaves,
    )


def _error_rows(section: Section, where: str, cell: Cell) -> list[tables.Leaf]:
    done = {
        operation: sum(
            run.record.totals[operation].operations
            for run in cell.runs
            if operation in run.record.totals
        )
        for operation in cell.errors
    }
    rows = []
    for operation, kinds in cell.errors.items():
        every = done[operation] + sum(kinds.values())
        for kind, count in kinds.items():
            heads = [where, section.page.operations.name_of(operation), kind]
            marks = (mark("errors", f"{count:,} of {every:,} requests"),)
            numbers = [
                Number(f"{count:,}", "", cell.point_id, marks),
                Number(percent_digits(count / every), "", cell.point_id),
            ]
            rows.append(tables.Leaf(heads, cell, numbers))
    return rows
