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


@dataclass(frozen=True, slots=True)
class Place:
    """Points of one section and small multiple that a figure shows, with their words in titles."""

    comparison: Comparison
    section: Section
    facet: Any
    points: list[WorkloadPoint]
    words: str

    @classmethod
    def at(
        cls, comparison: Comparison, section: Section, facet: Any, point: WorkloadPoint
    ) -> Place:
        """Return the place of one point on the axis."""
        return cls(comparison, section, facet, [point], place_at(section, facet, point))

    @classmethod
    def along(cls, comparison: Comparison, section: Section, facet: Any) -> Place:
        """Return the place of all points along the axis."""
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

    def figure(
        self,
        *,
        kind: str,
        name: str,
        text: str,
        shows: str,
        spec: dict[str, Any],
        columns: list[str],
        rows: list[list[str]],
        **more: Any,
    ) -> Figure:
        """Return the figure of these points.

        Args:
            kind: Name of the figure's kind.
            name: Beginning of its file name.
            text: Result that the title states after the place.
            shows: Description of the drawing for readers who cannot see it.
            spec: Vega-Lite specification.
            columns: Heads of the data table.
            rows: Rows of the data table.
            more: Further fields of the figure.
        """
        title = f"{self.words}: {text}"
        return Figure(
            name=figure_name(name, self.section, self.facet),
            kind=kind,
            title=title,
            alt=f"{shows}. {title}",
            spec=spec,
            columns=columns,
            rows=rows,
            point_ids=point_ids(self.comparison, self.points),
            note=self.words,
            **more,
        )
