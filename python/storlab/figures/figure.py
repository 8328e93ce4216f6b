"""Records of a figure and of the points that it shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.figures.common import figure_name, place_at, place_of, point_ids, x_text

DAGGER = "†"
"""Footnote mark of figures and numbers whose runs have flags."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure of a brief: Vega-Lite specification, texts and data table.

    Colours in ``spec`` are names such as ``var(--s1)``, to which a theme assigns values. ``title``
    states the result. ``alt`` describes the figure for readers who cannot see it. ``columns`` and
    ``rows`` are the headings and cells of its data table.
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
    remark: str = ""  # sentence to print below this figure
    foot: tuple[str, ...] = ()  # lines below the drawing: scale, remark, source
    flags: tuple[str, ...] = ()  # flags of the points shown, such as "client-bound: A at 1 of 4"
    latencies: bool = False  # whether it shows latencies; if so, flags about them are listed below

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
        """Make a figure of some points of a comparison.

        Args:
            comparison: Comparison that contains the points.
            points: Points that the figure shows.
            kind: Name of the figure's kind.
            name: File name.
            title: Result that the figure shows.
            shows: Description of the drawing for readers who cannot see it, without the result.
            spec: Vega-Lite specification.
            columns: Headings of the data table.
            rows: Rows of the data table.
            more: Further fields of ``Figure``.
        """
        alt, ids = f"{shows}. {title}", point_ids(comparison, points)
        return cls(name, kind, title, alt, spec, columns, rows, ids, **more)


@dataclass(frozen=True, slots=True)
class Place:
    """Points that a figure shows: those of one mix and block size, with a text for titles."""

    comparison: Comparison
    section: Section
    facet: Any
    points: list[WorkloadPoint]
    words: str

    @classmethod
    def at(
        cls, comparison: Comparison, section: Section, facet: Any, point: WorkloadPoint
    ) -> Place:
        """Make the record for a figure of one point."""
        return cls(comparison, section, facet, [point], place_at(section, facet, point))

    @classmethod
    def along(cls, comparison: Comparison, section: Section, facet: Any) -> Place:
        """Make the record for a figure of a whole sweep at one mix and block size."""
        words = place_of(section, facet)
        return cls(comparison, section, facet, section.of_facet(facet), words)

    @property
    def targets(self) -> list[str]:
        """Names of the targets on which the study runs any of the points."""
        return self.comparison.planned(self.points)

    @property
    def cells(self) -> dict[str, Cell]:
        """Results of each target at the first point, by target."""
        cells = self.comparison.row(self.points[0]).cells
        return {target: cells[target] for target in self.targets}

    @property
    def order(self) -> list[str]:
        """Values of the swept parameter at the points, as text."""
        return [x_text(self.section, point) for point in self.points]

    def figure(self, *, name: str, text: str, **fields: Any) -> Figure:
        """Make a figure of these points.

        Args:
            name: Beginning of the file name; mix and block size are added.
            text: Result for the title; mix and block size are put in front of it.
            fields: Further arguments of ``Figure.of``.
        """
        name, title = figure_name(name, self.section, self.facet), f"{self.words}: {text}"
        return Figure.of(
            self.comparison, self.points, name=name, title=title, note=self.words, **fields
        )
