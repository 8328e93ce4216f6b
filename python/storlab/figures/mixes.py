"""Shared parts of figures with workload mixes on the horizontal axis."""

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
    TAIL,
    WIDTH,
    colour,
    fill_of,
    legend_columns,
    log_ticks,
    role,
    series_label,
    shape,
)

PERCENTILES = {"p50": 30, "p90": 70, "p99": 140, "p99.9": 240}
"""Size of the tick of each percentile; higher percentiles have wider ticks."""
CROSS = "M-0.6,-0.6L0.6,0.6M0.6,-0.6L-0.6,0.6"  # marker of a second time, drawn for comparison
# Line breaks in a long name.
LINES = "split(replace(replace(datum.label, /, /g, ',|'), '-', '-|'), '|')"
SHORT_LABEL = 9  # longest label in characters that is drawn horizontally


@dataclass(frozen=True, slots=True)
class Mixes:
    """The last point of every mix for one facet value, such as one block size."""

    comparison: Comparison
    facet: Any
    places: list[tuple[Section, WorkloadPoint]]

    @property
    def section(self) -> Section:
        """Any section of the group, for attributes that all share."""
        return self.places[0][0]

    @property
    def points(self) -> list[WorkloadPoint]:
        """Workload points, one for each mix."""
        return [point for _, point in self.places]

    @property
    def order(self) -> list[str]:
        """Labels of the mixes on the axis, in order."""
        return told_apart([section.mix for section, _ in self.places])

    @property
    def place(self) -> str:
        """Parameters that the points share, for example ``4 MiB, concurrency 16``."""
        return family_place(self.places, self.facet)

    @property
    def targets(self) -> list[str]:
        """Targets on which any of these points is planned."""
        return self.comparison.planned(self.points)

    @property
    def point_ids(self) -> list[str]:
        """Point ids of all measured cells."""
        return point_ids(self.comparison, self.points)

    def cells(self) -> Iterator[tuple[str, int, Cell]]:
        """Yield mix, index of the target among all targets, and cell, in axis order."""
        for mix, point in zip(self.order, self.points, strict=True):
            for target in self.targets:
                cell = self.comparison.row(point).cells[target]
                if cell.point_id is not None:
                    yield mix, self.comparison.targets.index(target), cell

    def name(self, kind: str, *more: str) -> str:
        """Return a file name that is unique among the figures of a brief."""
        return family_name(kind, self.section, *more, self.section.facet_text(self.facet))

    def where(self, quantity: str) -> str:
        """Return the beginning of a title, for example ``GET, 4 MiB, concurrency 16``."""
        return ", ".join(part for part in (quantity, self.place) if part)

    @property
    def x_title(self) -> str:
        """Title of the mix axis; empty if sections differ in more than the mix."""
        page = self.section.page
        plain = page.parameters.mix is not None and self.section.axes.section == (
            page.parameters.mix,
        )
        return title_of(page, page.parameters.mix) if plain and page.parameters.mix else ""

    def x(self) -> alt.X:
        """Return the horizontal axis of mixes."""
        parts = any(", " in text for text in self.order)
        long = max(len(text) for text in self.order) > SHORT_LABEL and len(self.order) > 2
        level = alt.Axis(labelExpr=LINES, labelLimit=150)
        return alt.X(
            "x:O",
            sort=self.order,
            title=self.x_title or None,
            scale=alt.Scale(paddingInner=0.24, paddingOuter=0.14),
            axis=level if parts else alt.Axis(labelAngle=-30 if long else 0, labelLimit=260),
        )

    def offset(self, *, centred: bool = False) -> alt.XOffset:
        """Return the offset of each target within a mix."""
        scale = alt.Scale(domain=self.targets, paddingInner=0.1)
        if centred:
            return alt.XOffset("target:N", sort=self.targets, bandPosition=0.5, scale=scale)
        return alt.XOffset("target:N", sort=self.targets, scale=scale)


def told_apart(names: Sequence[str]) -> list[str]:
    """Return axis labels without the parts common to all names, as ``direct, reads only``."""
    parts = [name.split(", ") for name in names]
    common = set(parts[0]).intersection(*parts)
    short = [", ".join(part for part in words if part not in common) for words in parts]
    return short if all(short) and len(set(short)) == len(set(names)) else list(names)


def mixes_of(comparison: Comparison, sections: Sequence[Section]) -> list[Mixes]:
    """Return one group of mixes per facet value that has a measured point."""
    by_facet = far_points(comparison, sections).values()
    return [Mixes(comparison, facet, places) for facet, places in by_facet]


def fill(data: Sequence[dict[str, Any]]) -> alt.Fill:
    """Return the fill encoding by series, with a legend; unmeasured series are hatched."""
    fills = {d["series"]: d["fill"] for d in data}
    return alt.Fill(
        "series:N",
        title=None,
        scale=alt.Scale(domain=list(fills), range=list(fills.values())),
        legend=alt.Legend(
            symbolType="square",
            symbolOpacity=1,
            symbolStrokeWidth=0,
            columns=legend_columns(list(fills)),
        ),
    )


def series_of(cell: Cell, index: int) -> dict[str, str]:
    """Return name, fill, provenance and run ids of a target's bars."""
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
    """Return a dot plot of times on a logarithmic axis: means as markers, percentiles as ticks.

    It draws the data sets ``spans`` (x, target, low, high) and ``dots`` (x, target, statistic,
    value, low, high, text).

    Args:
        mixes: Mixes on the horizontal axis.
        statistics: Statistics to draw. The first is the marker, with its interval; percentiles are
            ticks, wider the higher they are; other statistics are crosses.
        bounds: Ends of the vertical axis in ns.
        title: Title of the vertical axis.
    """
    low, high = bounds
    x, centred = mixes.x(), mixes.offset(centred=True)
    y = alt.Y(
        "value:Q",
        title=title,
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=log_ticks(low, high, most=9), labelExpr=LATENCY_LABELS),
    )
    comparison = mixes.comparison
    colours = colour(comparison.targets, mixes.targets)
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
    is_first = f"datum.statistic === '{statistics[0]}'"
    tails = [s for s in statistics[1:] if s in PERCENTILES]
    sizes = [PERCENTILES[tail] for tail in tails]
    size = alt.Size(
        "statistic:O",
        sort=tails,
        title=None,
        scale=alt.Scale(type="ordinal", domain=tails, range=sizes),
        legend=alt.Legend(
            orient="bottom",
            symbolType=TAIL,
            symbolStrokeColor=role("fig-muted"),
            symbolStrokeWidth=2,
            columnPadding=12,
        ),
    )
    spans = alt.Chart(alt.NamedData("spans")).mark_rule(strokeWidth=1, opacity=0.5)
    dots = alt.Chart(alt.NamedData("dots"))
    is_tail = f"indexof({tails!r}, datum.statistic) >= 0"
    mark = dots.mark_point(size=62, opacity=1, filled=True)
    ticks = dots.mark_point(shape=TAIL, opacity=1, strokeWidth=2)
    own = {"x": x, "xOffset": centred, "y": y, "tooltip": tooltip, "color": colours}
    layers = [
        spans.encode(x=x, xOffset=centred, y=alt.Y("low:Q"), y2="high:Q", color=colours),
        ticks.transform_filter(is_tail).encode(size=size, **own),
        dots.mark_rule(strokeWidth=2.4)
        .transform_filter(is_first)
        .encode(x=x, xOffset=centred, y=alt.Y("low:Q"), y2="high:Q", color=colours),
        mark.transform_filter(is_first).encode(
            shape=shape(comparison.targets, mixes.targets), **own
        ),
    ]
    if len(tails) < len(statistics) - 1:
        cross = dots.mark_point(shape=CROSS, size=70, opacity=1, strokeWidth=1.8)
        other = f"!({is_first}) && !({is_tail})"
        layers.append(cross.transform_filter(other).encode(**own))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
