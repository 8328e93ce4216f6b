"""Figure: a chart specification with its title, description and data table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.figures.common import figure_name, place_at, place_of, point_ids, x_text


@dataclass(frozen=True, slots=True)
class Figure:
    """One drawing: a Vega-Lite specification, its text and its data.

    Colours in ``spec`` are theme roles such as ``var(--s1)``. ``title`` states the result, ``alt``
    describes the figure for readers who cannot see it; ``columns`` and ``rows`` hold its data.
    """

    name: str  # unique, valid as a file name
    kind: str
    title: str
    alt: str
    spec: dict[str, Any]
    columns: list[str]
    rows: list[list[str]]
    point_ids: list[str] = field(default_factory=list)
    note: str = ""
    remark: str = ""  # remark below this figure only
    foot: tuple[str, ...] = ()  # lines below the drawing: source, flags, scale
    latencies: bool = False  # whether it shows latencies, so that their flags stand below it

    @classmethod
    def of(
        cls,
        comparison: Comparison,
        points: list[WorkloadPoint],
        *,
        kind: str,
        name: str,
        title: str,
        shows: str,
        spec: dict[str, Any],
        columns: list[str],
        rows: list[list[str]],
        **more: Any,
    ) -> Figure:
        """Return a figure of points of a comparison.

        Args:
            comparison: Comparison that has the points.
            points: Points that are drawn.
            kind: Name of the figure's kind.
            name: File name.
            title: Result that the figure shows.
            shows: Description of the drawing for readers who cannot see it, without the result.
            spec: Vega-Lite specification.
            columns: Heads of the data table.
            rows: Rows of the data table.
            more: Further fields of the figure.
        """
        alt, ids = f"{shows}. {title}", point_ids(comparison, points)
        return cls(name, kind, title, alt, spec, columns, rows, ids, **more)


@dataclass(frozen=True, slots=True)
class Place:
    """Points that a figure shows: of one section and facet value, with their words for titles."""

    comparison: Comparison
    section: Section
    facet: Any
    points: list[WorkloadPoint]
    words: str

    @classmethod
    def at(
        cls, comparison: Comparison, section: Section, facet: Any, point: WorkloadPoint
    ) -> Place:
        """Create the record for a figure of one point."""
        return cls(comparison, section, facet, [point], place_at(section, facet, point))

    @classmethod
    def along(cls, comparison: Comparison, section: Section, facet: Any) -> Place:
        """Create the record for a figure of all points of a section and facet value."""
        words = place_of(section, facet)
        return cls(comparison, section, facet, section.of_facet(facet), words)

    @property
    def targets(self) -> list[str]:
        """Targets on which any of the points is planned."""
        return self.comparison.planned(self.points)

    @property
    def cells(self) -> dict[str, Cell]:
        """Cells of the first point by target."""
        cells = self.comparison.row(self.points[0]).cells
        return {target: cells[target] for target in self.targets}

    @property
    def order(self) -> list[str]:
        """Positions of the points on the axis."""
        return [x_text(self.section, point) for point in self.points]

    def figure(self, *, name: str, text: str, **fields: Any) -> Figure:
        """Return the figure of these points.

        Args:
            name: Beginning of its file name.
            text: Result that the title states after the place.
            fields: Further arguments of ``Figure.of``.
        """
        name, title = figure_name(name, self.section, self.facet), f"{self.words}: {text}"
        return Figure.of(
            self.comparison, self.points, name=name, title=title, note=self.words, **fields
        )
