"""Section of a brief on targets that end when they are steady, with the matrix of their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storlab.analysis.columns import COLUMNS, Column
from storlab.analysis.compare import PLACES, Comparison
from storlab.analysis.points import Section, WorkloadPoint, format_value, title_of
from storlab.brief.model import DataTable, ExtraSection, FigureGroup
from storlab.brief.tables import Leaf, Scale, Scales, number_of, table_of
from storlab.words.text import sentence_case

LEAD = (
    "All points are run in rounds until the tracked metric is steady over five of them, as in the "
    "SNIA Solid State Storage Performance Test Specification. Results are those of these five "
    "rounds, the measurement window; earlier rounds are kept as raw data."
)


def rounds_section(
    comparison: Comparison, group: FigureGroup | None, scales: Scales
) -> ExtraSection | None:
    """Build the section on rounds; None if the study does not ask for steady rounds.

    Args:
        comparison: Comparison with the points to show.
        group: Figures of the rounds.
        scales: Units of numbers by workload family.
    """
    rounds = comparison.dataset.rounds
    if not rounds:
        return None
    metrics = dict.fromkeys(own.rule.metric for own in rounds.values())
    return ExtraSection(
        "rounds",
        "Steady state",
        "Steady state",
        [LEAD],
        groups=[] if group is None else [group],
        tables=[table for key in metrics for table in _matrices(comparison, key, scales)],
        notes=[f"{label}: {own.text}." for label, own in rounds.items()],
    )


def _matrices(comparison: Comparison, key: str, scales: Scales) -> Iterator[DataTable]:
    """Yield a table of the tracked metric per workload: block sizes down, mixes across.

    If the metric is of one operation, each operation that has it gets a table.
    """
    tracked = COLUMNS[PLACES[key]]
    columns = [c for c in comparison.columns if c.name == tracked.name]
    if tracked.operation == "all":
        columns = [tracked]
    for family in dict.fromkeys(section.family for section in comparison.sections):
        sections = [section for section in comparison.sections if section.family == family]
        for column in columns if len(sections) > 1 else ():
            table = _matrix(comparison, sections, column, scales[sections[0].kind])
            if table is not None:
                yield table


def _matrix(
    comparison: Comparison, sections: Sequence[Section], column: Column, scale: Scale
) -> DataTable | None:
    """Build the table of one metric; None if the mixes have other sizes, or all the same one."""
    page, axes = sections[0].page, sections[0].axes
    names = [name for name in (axes.facet, axes.x) if name is not None]

    def place(point: WorkloadPoint) -> tuple[str, ...]:
        return tuple(format_value(page, name, point.params.get(name)) for name in names)

    ordered = [p for facet in sections[0].facets() for p in sections[0].of_facet(facet)]
    swept = [n for n, _ in enumerate(names) if len({place(p)[n] for p in ordered}) > 1]
    by_place = [{place(point): point for point in section.points} for section in sections]
    if not swept or any(known.keys() != by_place[0].keys() for known in by_place):
        return None
    leaves = []
    for point in ordered:
        heads = [place(point)[n] for n in swept]
        across = [comparison.row(known[place(point)]) for known in by_place]
        for target in comparison.planned([point]):
            numbers = [number_of(row.cells[target], column, scale) for row in across]
            leaves.append(Leaf(heads, across[0].cells[target], numbers))
    return table_of(
        comparison,
        sentence_case(f"{column.label}: means over the measurement window"),
        [title_of(page, names[n]) for n in swept],
        [(section.mix, scale.of(column)[0]) for section in sections],
        leaves,
        linked=False,
    )
