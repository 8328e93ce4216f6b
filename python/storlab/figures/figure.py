"""Records of a figure and of the points that it shows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.figures.common import figure_name, place_of, point_ids, x_text
from storlab.figures.theme import HEIGHT, WIDTH
from storlab.words.text import sentence_case

DAGGER = "†"
"""Footnote mark of figures and numbers whose runs have flags."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure of a brief: Vega-Lite specification, texts and data table.

    Colours in ``spec`` are names such as ``var(--s1)``, to which a theme assigns values. ``title``
    states the result. ``shows`` describes the drawing for readers who cannot see it. ``columns``
    and ``rows`` are the headings and cells of its data table.
    """

    name: str  # unique, valid as a file name
    kind: str
    title: str
    shows: str
    spec: dict[str, Any]
    columns: list[str]
    rows: list[list[str]]
    point_ids: list[str] = field(default_factory=list)
    where: str = ""  # mix, which the heading of its section states as well
    note: str = ""
    remark: str = ""  # sentence to print below this figure
    foot: tuple[str, ...] = ()  # lines below the drawing: scale and remark
    source: str = ""  # study and runs that the values come from
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
            shows: Description of the drawing, without the result.
            spec: Vega-Lite specification.
            columns: Headings of the data table.
            rows: Rows of the data table.
            more: Further fields of ``Figure``.
        """
        title, ids = sentence_case(title), point_ids(comparison, points)
        return cls(name, kind, title, shows, spec, columns, rows, ids, **more)

    @property
    def full_title(self) -> str:
        """Title that is understood outside of a section: mix, and result."""
        return f"{self.where}: {self.title}" if self.where else self.title

    @property
    def alt(self) -> str:
        """Description and result, for readers who cannot see the drawing."""
        return f"{self.shows}. {self.full_title}"


LOW = 130  # px of height below which axes have short titles


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a chart in px without its axes, and whether it is one of several panels."""

    width: int = WIDTH
    height: int = HEIGHT
    panel: bool = False

    @property
    def low(self) -> bool:
        """Whether a long title of the vertical axis would not fit."""
        return self.height < LOW


WHOLE = Size()
"""Size of a chart without panels."""


@dataclass(frozen=True, slots=True)
class Place:
    """Points that a figure shows: those of one mix and block size.

    ``where`` is the mix, and ``words`` is the beginning of the title.
    """

    comparison: Comparison
    section: Section
    facet: Any
    points: list[WorkloadPoint]
    where: str
    words: str
    size: Size = WHOLE

    @classmethod
    def at(
        cls, comparison: Comparison, section: Section, facet: Any, point: WorkloadPoint
    ) -> Place:
        """Make the record for a figure of one point."""
        along = cls.along(comparison, section, facet)
        words = ", ".join(filter(None, (along.words, section.at(point))))
        return replace(along, points=[point], words=words)

    @classmethod
    def along(
        cls, comparison: Comparison, section: Section, facet: Any, size: Size = WHOLE
    ) -> Place:
        """Make the record for a figure of a whole sweep at one mix and block size."""
        several = len(section.facets()) > 1
        where = place_of(section, None if several else facet)
        words = section.facet_text(facet) if several else ""
        points = section.of_facet(facet)
        return cls(comparison, section, facet, points, where, words, size)

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
        name = figure_name(name, self.section, self.facet)
        title = f"{self.words}: {text}" if self.words else text
        note = ", ".join(filter(None, (self.where, self.words)))
        return Figure.of(
            self.comparison, self.points, name=name, title=title, where=self.where, note=note,
            **fields,
        )  # fmt: skip
