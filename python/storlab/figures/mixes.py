"""What figures with mixes on the horizontal axis share: a place for each mix and target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint, title_of
from storlab.figures.common import family_name, family_place, far_points, point_ids
from storlab.figures.theme import (
    HEIGHT,
    LATENCY_LABELS,
    SHAPES,
    WIDTH,
    colour,
    fill_of,
    log_ticks,
    role,
    series_label,
)

SHORT_LABEL = 9  # characters of a mix that stand level below their bars


@dataclass(frozen=True, slots=True)
class Mixes:
    """The far points of every mix for one value of the small multiple."""

    comparison: Comparison
    facet: Any
    places: list[tuple[Section, WorkloadPoint]]

    @property
    def section(self) -> Section:
        """Any of them, for what they all share."""
        return self.places[0][0]

    @property
    def points(self) -> list[WorkloadPoint]:
        """One for each mix."""
        return [point for _, point in self.places]

    @property
    def order(self) -> list[str]:
        """The mixes, as they stand on the axis."""
        return [section.mix for section, _ in self.places]

    @property
    def place(self) -> str:
        """What they share: ``4 MiB, concurrency 16``."""
        return family_place(self.places, self.facet)

    @property
    def targets(self) -> list[str]:
        """That any of these points is run on."""
        return self.comparison.planned(self.points)

    @property
    def point_ids(self) -> list[str]:
        """Of all cells that were measured."""
        return point_ids(self.comparison, self.points)

    def cells(self) -> Iterator[tuple[str, int, Cell]]:
        """Mix, number of the target among all, and cell, in the order of the axis."""
        for section, point in self.places:
            for target in self.targets:
                cell = self.comparison.row(point).cells[target]
                if cell.point_id is not None:
                    yield section.mix, self.comparison.targets.index(target), cell

    def name(self, kind: str, *more: str) -> str:
        """A file name that no other figure of the brief has."""
        return family_name(kind, self.section, *more, self.section.facet_text(self.facet))

    def where(self, what: str) -> str:
        """The beginning of a title: ``GET, 4 MiB, concurrency 16``."""
        return ", ".join(part for part in (what, self.place) if part)

    def x(self) -> alt.X:
        """The axis of mixes."""
        page = self.section.page
        plain = page.mix is not None and self.section.axes.section == (page.mix,)
        long = max(len(text) for text in self.order) > SHORT_LABEL and len(self.order) > 2
        return alt.X(
            "x:O",
            sort=self.order,
            title=title_of(page, page.mix) if plain and page.mix else None,
            scale=alt.Scale(paddingInner=0.24, paddingOuter=0.14),
            axis=alt.Axis(labelAngle=-30 if long else 0, labelLimit=260),
        )

    def offset(self, *, centred: bool = False) -> alt.XOffset:
        """The targets' places within a mix."""
        scale = alt.Scale(domain=self.targets, paddingInner=0.1)
        if centred:
            return alt.XOffset("target:N", sort=self.targets, bandPosition=0.5, scale=scale)
        return alt.XOffset("target:N", sort=self.targets, scale=scale)


def mixes_of(comparison: Comparison, sections: Sequence[Section]) -> list[Mixes]:
    """One for each value of the small multiple; none without a measured point."""
    found = far_points(comparison, sections).values()
    return [Mixes(comparison, facet, places) for facet, places in found]


def fill(data: Sequence[dict[str, Any]]) -> alt.Fill:
    """Fill by series, with a legend; hatched where a series was not measured."""
    fills = {d["series"]: d["fill"] for d in data}
    return alt.Fill(
        "series:N",
        title=None,
        scale=alt.Scale(domain=list(fills), range=list(fills.values())),
        legend=alt.Legend(symbolType="square", symbolOpacity=1, symbolStrokeWidth=0),
    )


def series_of(cell: Cell, index: int) -> dict[str, str]:
    """Name and fill of a target's bars."""
    provenance = cell.provenance
    return {
        "target": cell.target,
        "series": series_label(cell.target, provenance),
        "fill": fill_of(index, provenance),
        "provenance": provenance,
        "runs": ", ".join(cell.run_ids),
    }


def dot_plot(
    mixes: Mixes,
    statistics: Sequence[str],
    bounds: tuple[float, float],
    title: str,
) -> alt.TopLevelMixin:
    """Times on a logarithmic axis: a line from the least to the greatest, a marker for each.

    Data sets: ``spans`` (x, target, low, high) and ``dots`` (x, target, statistic, value, text).
    The first statistic is drawn solid and large, the others hollow.
    """
    low, high = bounds
    x, centred = mixes.x(), mixes.offset(centred=True)
    y = alt.Y(
        "value:Q",
        title=title,
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=log_ticks(low, high), labelExpr=LATENCY_LABELS, labelOverlap=True),
    )
    legend = alt.Legend(symbolType="square", symbolOpacity=1, symbolStrokeWidth=0)
    colours = colour(mixes.comparison.targets, mixes.targets, legend=legend)
    shapes = alt.Shape(
        "statistic:N",
        title=None,
        scale=alt.Scale(domain=list(statistics), range=_shapes(len(statistics))),
        legend=alt.Legend(
            orient="bottom",
            symbolOpacity=1,
            symbolSize=46,
            columnPadding=12,
        ),
    )
    tooltip = [
        alt.Tooltip(f"{name}:N", title=text)
        for name, text in (
            ("target", "target"),
            ("x", "mix"),
            ("statistic", "statistic"),
            ("text", "time"),
            ("runs", "runs"),
        )
    ]
    # Vega-Lite paints a legend's symbols like the first layer that has them, and nothing else
    # changes that: this one is never seen.
    key = alt.Chart(alt.NamedData("dots")).mark_point(
        filled=True, color=role("fig-muted"), opacity=0, size=1
    )
    spans = alt.Chart(alt.NamedData("spans")).mark_rule(strokeWidth=1.6, opacity=0.55)
    dots = alt.Chart(alt.NamedData("dots"))
    first = f"datum.statistic === '{statistics[0]}'"
    solid = dots.mark_point(size=58, opacity=1, filled=True).transform_filter(first)
    hollow = dots.mark_point(
        size=38, opacity=1, strokeWidth=1.7, fill=role("fig-paper")
    ).transform_filter(f"!({first})")
    layers = [
        key.encode(x=x, xOffset=centred, y=y, shape=shapes),
        spans.encode(x=x, xOffset=centred, y=alt.Y("low:Q"), y2="high:Q", color=colours),
        hollow.encode(x=x, xOffset=centred, y=y, shape=shapes, tooltip=tooltip, color=colours),
        solid.encode(x=x, xOffset=centred, y=y, shape=shapes, tooltip=tooltip, color=colours),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _shapes(count: int) -> list[str]:
    return [SHAPES[i % len(SHAPES)] for i in range(count)]
