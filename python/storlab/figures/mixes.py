"""Parts shared by figures that have workload mixes on the horizontal axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint, title_of
from storlab.figures.common import family_name, family_place, far_points
from storlab.figures.figure import WHOLE, Figure, Size
from storlab.figures.panels import GAP, ROW_GAP, beside, chunks, panel_size
from storlab.figures.plot import Plot, groups, logarithmic, tooltip
from storlab.figures.theme import PANELS_WIDTH, TAIL, WIDTH, colour, label_room, role, shape
from storlab.words.text import DIFFERENT_CONCURRENCY, sentence_case

PERCENTILES = {"p50": 30, "p90": 70, "p99": 140, "p99.9": 240}
"""Size of the tick of each percentile; higher percentiles have wider ticks."""
CROSS = "M-0.6,-0.6L0.6,0.6M0.6,-0.6L-0.6,0.6"  # marker of a second value, for comparison
# Vega expression that breaks a long label into lines after commas and hyphens.
LINES = "split(replace(replace(datum.label, /, /g, ',|'), '-', '-|'), '|')"
LINE_PX = 15  # height of a line of a label
SHORT_LABEL = 9  # longest label in characters that is drawn horizontally


@dataclass(frozen=True, slots=True)
class Mixes:
    """Last point of the sweep of every mix, for one block size (or other facet)."""

    comparison: Comparison
    facet: Any
    places: list[tuple[Section, WorkloadPoint]]
    size: Size = WHOLE

    @property
    def section(self) -> Section:
        """First section, used for attributes that all sections share."""
        return self.places[0][0]

    @property
    def points(self) -> list[WorkloadPoint]:
        """Workload points, one per mix."""
        return [point for _, point in self.places]

    @property
    def order(self) -> list[str]:
        """Labels of the mixes in the order of the axis."""
        return without_shared_parts([section.mix for section, _ in self.places])

    @property
    def place(self) -> str:
        """Parameters that the points share, for example ``4 MiB, concurrency 16``."""
        return family_place(self.places, self.facet)

    @property
    def whole_place(self) -> str:
        """Shared parameters, preceded by workload and engine if the brief has several of them."""
        return ": ".join(part for part in (self.section.prefix, self.place) if part)

    @property
    def targets(self) -> list[str]:
        """Names of the targets on which the study runs any of the points."""
        return self.comparison.planned(self.points)

    def cells(self) -> Iterator[tuple[str, int, Cell]]:
        """Yield each result with its mix and the index of its target, in the order of the axis."""
        for mix, point in zip(self.order, self.points, strict=True):
            for target in self.targets:
                cell = self.comparison.row(point).cells[target]
                if cell.point_id is not None:
                    yield mix, self.comparison.targets.index(target), cell

    def name(self, kind: str, *more: str) -> str:
        """Return a file name that is unique in a brief, for a figure of these mixes."""
        return family_name(kind, self.section, *more, self.section.facet_text(self.facet))

    def titled(self, title: str) -> str:
        """Return a title with the block or object size of the mixes, if they have one."""
        return ", ".join(filter(None, (title, self.section.facet_text(self.facet))))

    @property
    def x_title(self) -> Any:
        """Title of the axis of mixes, with the parameters that the points share."""
        page = self.section.page
        mix = page.parameters.mix
        plain = mix is not None and self.section.axes.section == (mix,)
        at = dict.fromkeys(section.at(point) for section, point in self.places)
        place = " or ".join(sorted(at)) if self.size.panel else self.place
        parts = [title_of(page, mix)] if plain and mix else []
        parts += [place] if place else []
        return parts if self.size.panel and self.size.width < WIDTH / 2 else ", ".join(parts)

    def x(self) -> alt.X:
        """Return the horizontal axis with the mixes."""
        parts = any(", " in text for text in self.order)
        long = max(len(text) for text in self.order) > SHORT_LABEL and len(self.order) > 2
        level = alt.Axis(labelExpr=LINES, labelLimit=150)
        plain = alt.Axis(labelAngle=-30 if long else 0, labelLimit=260)
        return groups(self.order, self.x_title, level if parts else plain)

    def plot(self, y: Any) -> Plot:
        """Make an empty chart in which targets are side by side at each mix."""
        return Plot(self.x(), y, self.targets)

    def figure(self, **fields: Any) -> Figure:
        """Make a figure of these points; ``fields`` are further arguments of ``Figure.of``."""
        return Figure.of(
            self.comparison,
            self.points,
            **{"where": self.whole_place, "note": self.place, **fields},
        )


def apart_words(some: Sequence[Mixes], key: str) -> str:
    """Return a remark if any comparison of a latency is at different effective concurrency."""
    rows = (mixes.comparison.row(point) for mixes in some for point in mixes.points)
    decisions = (ratios.get(key) for row in rows for ratios in row.ratios.values())
    apart = any(decision is not None and decision.concurrency for decision in decisions)
    return sentence_case(DIFFERENT_CONCURRENCY) if apart else ""


def without_shared_parts(names: Sequence[str]) -> list[str]:
    """Shorten names to axis labels by removing comma-separated parts that all names share."""
    parts = [name.split(", ") for name in names]
    common = set(parts[0]).intersection(*parts)
    short = [", ".join(part for part in words if part not in common) for words in parts]
    return short if all(short) and len(set(short)) == len(set(names)) else list(names)


def label_lines(label: str) -> int:
    """Return the number of lines into which ``LINES`` breaks a label."""
    return 1 + label.count(", ") + ("-" in label)


def mixes_of(comparison: Comparison, sections: Sequence[Section]) -> list[Mixes]:
    """Group the last points of all mixes by block size (or other facet)."""
    by_facet = far_points(comparison, sections).values()
    return [Mixes(comparison, facet, places) for facet, places in by_facet]


def in_panels(
    comparison: Comparison,
    sections: Sequence[Section],
    draw: Callable[[Mixes], Figure | None],
    title: Callable[[Sequence[Mixes]], str],
    gap: int = GAP,
) -> list[Figure]:
    """Draw a figure of all mixes with a panel for each block size (or other facet).

    Args:
        comparison: Comparison to draw from.
        sections: Sections of the mixes.
        draw: Draws one panel.
        title: Returns the title of a figure with these panels.
        gap: Space in px between the plots of two panels side by side.
    """
    figures: list[Figure] = []
    for some in chunks(mixes_of(comparison, sections)):
        columns = 2 if all(label_room(m.order, PANELS_WIDTH / 2) for m in some) else 1
        size = panel_size(len(some), columns)
        lines = max(label_lines(label) for mixes in some for label in mixes.order)
        if columns == 1 and lines > 2 and size.panel:  # broken labels need the width of a figure
            size = replace(size, width=WIDTH - 30)
        panels = [
            (mixes.section.facet_text(mixes.facet), figure)
            for mixes in some
            if (figure := draw(replace(mixes, size=size))) is not None
        ]
        if len(panels) > 1:
            section = some[0].section
            head = title_of(section.page, section.axes.facet or "")
            whole = beside(panels, head, title(some), columns, gap, ROW_GAP + LINE_PX * (lines - 1))
            name = f"{whole.name}-{len(figures) + 1}" if figures else whole.name
            figures.append(replace(whole, name=name, where=section.prefix))
        elif panels:
            figures += [figure for mixes in some if (figure := draw(mixes)) is not None]
    return figures


def dot_plot(
    mixes: Mixes,
    data: dict[str, list[dict[str, Any]]],
    statistics: Sequence[str],
    bounds: tuple[float, float],
    title: str,
) -> Plot:
    """Make a dot plot of latencies on a logarithmic axis: means as markers, percentiles as ticks.

    Args:
        mixes: Mixes on the horizontal axis.
        data: Records of ``spans`` (x, target, low, high) and ``dots`` (x, target, statistic, value,
            low, high, text).
        statistics: Statistics to draw. The first is the marker, with its interval; percentiles are
            ticks, wider the higher they are; other statistics are crosses.
        bounds: Ends of the vertical axis in ns.
        title: Title of the vertical axis.
    """
    plot = mixes.plot(logarithmic("value", title, bounds))
    every = mixes.comparison.targets
    colours = colour(every, mixes.targets)
    tips = tooltip(
        {"target": "target", "x": "mix", "statistic": "statistic", "text": "time", "runs": "runs"}
    )
    is_first = f"datum.statistic === '{statistics[0]}'"
    tails = [s for s in statistics[1:] if s in PERCENTILES]
    is_tail = f"indexof({tails!r}, datum.statistic) >= 0"
    size = alt.Size(
        "statistic:O",
        sort=tails,
        title=None,
        scale=alt.Scale(type="ordinal", domain=tails, range=[PERCENTILES[tail] for tail in tails]),
        legend=alt.Legend(
            orient="bottom",
            symbolType=TAIL,
            symbolStrokeColor=role("fig-muted"),
            symbolStrokeWidth=2,
            columnPadding=12,
        ),
    )
    spans, dots = (plot.source(name, records) for name, records in data.items())
    ends = {"y": alt.Y("low:Q"), "y2": "high:Q", "color": colours}
    own = {"y": plot.y, "tooltip": tips, "color": colours}
    plot.add(spans.mark_rule(strokeWidth=1, opacity=0.5), **ends)
    ticks = dots.mark_point(shape=TAIL, opacity=1, strokeWidth=2)
    plot.add(ticks.transform_filter(is_tail), size=size, **own)
    plot.add(dots.mark_rule(strokeWidth=2.4).transform_filter(is_first), **ends)
    mark = dots.mark_point(size=62, opacity=1, filled=True).transform_filter(is_first)
    plot.add(mark, shape=shape(every, mixes.targets), **own)
    if len(tails) < len(statistics) - 1:
        cross = dots.mark_point(shape=CROSS, size=70, opacity=1, strokeWidth=1.8)
        plot.add(cross.transform_filter(f"!({is_first}) && !({is_tail})"), **own)
    return plot
