"""Figure of mean latency with interval, and of the tail as a tick, on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint, title_of
from storlab.figures.axis_extent import edge_words, ends_within, log_reach
from storlab.figures.common import (
    axis_title,
    is_swept,
    last_point,
    latency_kind,
    operations_of,
    plural_of,
    timed_operations,
    x_text,
)
from storlab.figures.figure import Figure, Place
from storlab.figures.panels import over_facets, sweep_words
from storlab.figures.plot import logarithmic, tooltip
from storlab.figures.theme import (
    PANEL_GAP,
    TAIL,
    colour,
    configured,
    dash_of,
    panel_width,
    shape,
)
from storlab.model.decision import Interval
from storlab.words.figures import LONGER, latency_ratios
from storlab.words.text import MISSING, interval_text, latency_text


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure with a panel per operation, or per operation with a panel per block size."""
    figures = []
    for section in sections:
        if len(section.facets()) == 1:
            place = Place.along(comparison, section, section.facets()[0])
            figure = _figure(place, timed_operations(section))
            figures += [figure] if figure is not None else []
            continue
        for operation in timed_operations(section):
            figures += _by_facet(comparison, section, operation)
    return figures


def _by_facet(comparison: Comparison, section: Section, operation: str) -> list[Figure]:
    def panel(place: Place) -> Figure | None:
        return _figure(place, [operation])

    def title(places: Sequence[Place]) -> str:
        return _panels_title(places, operation)

    return over_facets(comparison, section, panel, title)


def draw_swept(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Like :func:`draw`, but skip sections whose points all have one value of the sweep."""
    return draw(comparison, [section for section in sections if is_swept(section)])


def _times(place: Place, operations: Sequence[str], statistic: str) -> list[Interval]:
    """Return one statistic, such as the mean, of all latencies measured at these points."""
    keys = [_key(place.comparison, place.section, op, statistic) for op in operations]
    return [
        cell.values[key]
        for point in place.points
        for cell in place.comparison.row(point).cells.values()
        for key in keys
        if key in cell.values
    ]


def _key(comparison: Comparison, section: Section, operation: str, statistic: str) -> str:
    prefix, _ = latency_kind(comparison, section, operation)
    return f"{prefix}_{statistic}_ns.{operation}"


def _figure(place: Place, operations: Sequence[str]) -> Figure | None:
    """Draw a chart of each operation side by side; None if no latency was measured."""
    comparison, section, facet = place.comparison, place.section, place.facet
    means, tails = (_times(place, operations, statistic) for statistic in ("mean", "p99"))
    if not means:
        return None
    bounds = log_reach([time.estimate for time in (*means, *tails)], means)
    by_operation = {
        operation: data
        for operation in operations
        if (data := _data(comparison, section, place.points, operation, bounds))
    }
    panels = list(by_operation)
    several = [plural_of(section, operation) for operation in panels]
    _, words = latency_kind(comparison, section)
    charts = [_panel(operation, place, bounds, panels) for operation in panels]
    whole = charts[0] if place.size.panel else alt.hconcat(*charts, spacing=PANEL_GAP)
    return place.figure(
        kind="latency_points",
        name="-".join(
            ["latency", *(panels if len(panels) < len(timed_operations(section)) else ())]
        ),
        text=_title(place),
        shows=f"Points on a logarithmic scale: mean and 99th percentile {words} of "
        f"{' and '.join(several)} against {axis_title(section)}",
        spec=configured(whole, by_operation),
        columns=[
            section.axes.x,
            "target",
            *(
                f"{section.page.operations.name_of(operation)} {statistic}"
                for operation in panels
                for statistic in ("mean", "p99")
            ),
        ],
        rows=_table(comparison, section, facet, panels),
        remark=edge_words(means, bounds),
        latencies=True,
    )


def _data(
    comparison: Comparison,
    section: Section,
    points: Sequence[WorkloadPoint],
    operation: str,
    bounds: tuple[float, float],
) -> list[dict[str, Any]]:
    prefix, _ = latency_kind(comparison, section, operation)
    records = []
    for point in points:
        for target in comparison.targets:
            datum = _datum(comparison.row(point).cells[target], prefix, operation, bounds)
            if datum is not None:
                records.append({"x": x_text(section, point), **datum})
    return records


def _datum(
    cell: Cell, prefix: str, operation: str, bounds: tuple[float, float]
) -> dict[str, Any] | None:
    mean = cell.values.get(f"{prefix}_mean_ns.{operation}")
    if mean is None:
        return None
    p99 = cell.values.get(f"{prefix}_p99_ns.{operation}")
    top = p99.estimate if p99 is not None else mean.estimate
    return {
        "target": cell.target,
        "operation": operation,
        "mean": round(mean.estimate),
        "p99": round(top),
        **ends_within(mean, bounds),
        "mean_text": interval_text(mean, latency_text),
        "p99_text": latency_text(top),
        "provenance": cell.provenance,
        "dash": dash_of(cell.provenance),
        "runs": ", ".join(cell.run_ids),
    }


def _panel(
    operation: str, place: Place, bounds: tuple[float, float], panels: Sequence[str]
) -> alt.LayerChart | alt.FacetChart:
    comparison, section, first = place.comparison, place.section, operation == panels[0]
    words, shared = (latency_kind(comparison, section, op)[1] for op in (operation, panels[0]))
    targets = comparison.planned(section.points)
    several = plural_of(section, operation)
    by = axis_title(section) if len(panels) == 1 else title_of(section.page, section.axes.x)
    offsets = alt.Scale(domain=targets, paddingInner=0.2, paddingOuter=0.25)
    base = alt.Chart(alt.NamedData(operation)).encode(
        x=alt.X(
            "x:O",
            sort=place.order,
            title=axis_title(section).split(", ") if place.size.panel else f"{several}, by {by}",
            scale=alt.Scale(paddingInner=0.2, paddingOuter=0.1),
        ),
        xOffset=alt.XOffset("target:N", sort=targets, scale=offsets, bandPosition=0.5),
    )
    what = f"{section.page.operations.name_of(operation)} {words}" if place.size.panel else words
    if place.size.low:
        what = section.page.operations.name_of(operation)
    title = (
        f"{what} ({'log' if place.size.low else 'log scale'})" if first or words != shared else None
    )
    y = logarithmic("mean", title, bounds, labels=first)
    tips = tooltip(
        {
            "target": "target",
            "x": section.axes.x,
            "mean_text": "mean [95 %]",
            "p99_text": "p99, merged",
            "runs": "runs",
        }
    )
    colours = colour(comparison.targets, targets)
    dash = alt.StrokeDash("dash:N", scale=None, legend=None)
    layers = [
        base.mark_rule(strokeWidth=1, opacity=0.5).encode(
            y=y, y2="p99:Q", color=colours, strokeDash=dash
        ),
        base.mark_point(shape=TAIL, size=90, strokeWidth=2, opacity=1).encode(
            y=alt.Y("p99:Q"), color=colours, tooltip=tips
        ),
        base.mark_rule(strokeWidth=2.4).encode(
            y=alt.Y("low:Q"), y2="high:Q", color=colours, strokeDash=dash
        ),
        base.mark_point(size=54, filled=True, opacity=1).encode(
            y=alt.Y("mean:Q"),
            color=colours,
            shape=shape(comparison.targets, targets),
            tooltip=tips,
        ),
    ]
    width = place.size.width if place.size.panel else panel_width(len(panels))
    return alt.layer(*layers).properties(width=width, height=place.size.height)


def _table(
    comparison: Comparison, section: Section, facet: Any, panels: list[str]
) -> list[list[str]]:
    rows = []
    for point in section.of_facet(facet):
        for target in comparison.planned(section.points):
            cell = comparison.row(point).cells[target]
            texts = [
                interval_text(
                    cell.values.get(_key(comparison, section, op, statistic)), latency_text
                )
                for op in panels
                for statistic in ("mean", "p99")
            ]
            rows.append([x_text(section, point), target, *texts])
    return rows


def _panels_title(places: Sequence[Place], operation: str) -> str:
    comparison, section = places[0].comparison, places[0].section
    words = latency_kind(comparison, section, operation)[1]
    noun = f"mean {section.page.operations.name_of(operation)} {words}"
    template = LONGER.replace("{which}", plural_of(section, operation))
    return sweep_words(places, _key(comparison, section, operation, "mean"), noun, template)


def _title(place: Place) -> str:
    comparison, section = place.comparison, place.section
    point = last_point(comparison, section, place.facet)
    if point is None:
        return MISSING
    prefix, words = latency_kind(comparison, section)
    ratios = comparison.row(point).ratios
    keys = {name: f"{prefix}_mean_ns.{operation}" for operation, name in operations_of(section)}
    clauses = [
        latency_ratios([(name, own[key]) for name, key in keys.items() if key in own])
        for own in (ratios[target] for target in comparison.others)
    ]
    if not any(clauses):
        return f"mean and 99th percentile {words}"
    return f"{'; '.join(filter(None, clauses))} at {section.at(point)}"
