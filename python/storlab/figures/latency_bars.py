"""Latency by operation as bars on a logarithmic scale: mean solid, 99th percentile pale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint, title_of
from storlab.figures.common import (
    MISSING,
    axis_title,
    figure_name,
    interval_text,
    is_swept,
    last_point,
    latency_kind,
    latency_text,
    operations_of,
    place_of,
    point_ids,
    times_text,
    x_text,
)
from storlab.figures.figure import Figure
from storlab.figures.theme import (
    HEIGHT,
    LATENCY_LABELS,
    WIDTH,
    configured,
    fill_of,
    log_bounds,
    log_ticks,
    role,
)


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """One figure per block size, with a panel per operation; a section shares its scale."""
    figures = []
    for section in sections:
        bounds = _bounds(comparison, section)
        if bounds is None:
            continue
        figures += [_one(comparison, section, facet, bounds) for facet in section.facets()]
    return figures


def draw_swept(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """The same, only where the axis has more than one place."""
    return draw(comparison, [section for section in sections if is_swept(section)])


def _bounds(comparison: Comparison, section: Section) -> tuple[float, float] | None:
    prefix, _ = latency_kind(comparison, section)
    values = [
        cell.values[key].estimate
        for point in section.points
        for cell in comparison.row(point).cells.values()
        for operation in section.page.moved
        for key in (f"{prefix}_mean_ns.{operation}", f"{prefix}_p99_ns.{operation}")
        if key in cell.values
    ]
    if not values:
        return None
    low, high = log_bounds([*values, min(values) / 2.5])
    return low, high


def _one(
    comparison: Comparison, section: Section, facet: Any, bounds: tuple[float, float]
) -> Figure:
    points = section.of_facet(facet)
    by_operation = {
        operation: data
        for operation in section.page.moved
        if (data := _data(comparison, section, points, operation, bounds))
    }
    panels = list(by_operation)
    names = [section.page.name_of(operation) for operation in panels]
    _, words = latency_kind(comparison, section)
    targets = comparison.planned(section.points)
    order = [x_text(section, point) for point in points]
    charts = [
        _panel(words, by_operation[op], op, order, bounds, section, targets, panels)
        for op in panels
    ]
    title = _title(comparison, section, facet)
    return Figure(
        name=figure_name("latency", section, facet),
        kind="latency_bars",
        title=title,
        alt="Bar chart on a logarithmic scale of mean and 99th percentile "
        f"{words} of "
        f"{' and '.join(f'{name}s' for name in names)} against {axis_title(section)}. {title}",
        spec=configured(alt.hconcat(*charts, spacing=14), by_operation),
        columns=[
            section.axes.x,
            "target",
            *(f"{name} {what}" for name in names for what in ("mean", "p99")),
        ],
        rows=_table(comparison, section, facet, panels),
        point_ids=point_ids(comparison, points),
        note=place_of(section, facet),
    )


def _data(
    comparison: Comparison,
    section: Section,
    points: Sequence[WorkloadPoint],
    operation: str,
    bounds: tuple[float, float],
) -> list[dict[str, Any]]:
    """One datum per point and target; bars on a logarithmic scale begin at the lower bound."""
    prefix, _ = latency_kind(comparison, section)
    found = []
    for point in points:
        for index, target in enumerate(comparison.targets):
            datum = _datum(comparison.row(point).cells[target], prefix, operation, index, bounds)
            if datum is not None:
                found.append({"x": x_text(section, point), "floor": bounds[0], **datum})
    return found


def _datum(
    cell: Cell, prefix: str, operation: str, index: int, bounds: tuple[float, float]
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
        "low": round(mean.estimate if mean.low is None else max(mean.low, bounds[0])),
        "high": round(mean.estimate if mean.high is None else min(mean.high, bounds[1])),
        "mean_text": interval_text(mean, latency_text),
        "p99_text": latency_text(top),
        "provenance": cell.provenance,
        "fill": fill_of(index, cell.provenance),
        "runs": ", ".join(cell.run_ids),
    }


def _panel(
    words: str,
    data: list[dict[str, Any]],
    operation: str,
    order: list[str],
    bounds: tuple[float, float],
    section: Section,
    targets: Sequence[str],
    panels: Sequence[str],
) -> alt.LayerChart | alt.FacetChart:
    first = operation == panels[0]
    low, high = bounds
    axis = alt.Axis(values=log_ticks(low, high), labelExpr=LATENCY_LABELS, labels=first)
    y_scale = alt.Scale(type="log", domain=[low, high], nice=False)
    title = f"{words} (log scale)" if first else None
    by = axis_title(section) if len(panels) == 1 else title_of(section.page, section.axes.x)
    base = alt.Chart(alt.NamedData(operation)).encode(
        x=alt.X(
            "x:O",
            sort=order,
            title=f"{section.page.name_of(operation)}s, by {by}",
            scale=alt.Scale(paddingInner=0.28, paddingOuter=0.18),
        ),
        xOffset=alt.XOffset(
            "target:N", sort=list(targets), scale=alt.Scale(domain=list(targets), paddingInner=0.12)
        ),
        y2="floor:Q",
    )
    tooltip = [
        alt.Tooltip(f"{name}:N", title=text)
        for name, text in (
            ("target", "target"),
            ("x", section.axes.x),
            ("mean_text", "mean [95 %]"),
            ("p99_text", "p99, merged"),
            ("runs", "runs"),
        )
    ]
    fills = list(dict.fromkeys((d["target"], d["fill"]) for d in data))
    fill = alt.Fill(
        "target:N",
        title=None,
        scale=alt.Scale(domain=[t for t, _ in fills], range=[f for _, f in fills]),
        legend=alt.Legend(symbolType="square", symbolOpacity=1),
    )
    layers = [
        base.mark_bar(opacity=0.38).encode(
            y=alt.Y("p99:Q", scale=y_scale, axis=axis, title=title), fill=fill, tooltip=tooltip
        ),
        base.mark_bar().encode(y=alt.Y("mean:Q"), fill=fill, tooltip=tooltip),
        alt.Chart(alt.NamedData(operation))
        .mark_rule(strokeWidth=1.4)
        .encode(
            x=alt.X("x:O", sort=order),
            y="low:Q",
            y2="high:Q",
            xOffset=alt.XOffset("target:N", sort=list(targets), bandPosition=0.5),
            color=alt.ColorValue(role("fig-ink")),
        ),
    ]
    width = WIDTH if len(panels) == 1 else (WIDTH - 14) // 2
    return alt.layer(*layers).properties(width=width, height=HEIGHT)


def _table(
    comparison: Comparison, section: Section, facet: Any, panels: list[str]
) -> list[list[str]]:
    prefix, _ = latency_kind(comparison, section)
    rows = []
    for point in section.of_facet(facet):
        for target in comparison.planned(section.points):
            cell = comparison.row(point).cells[target]
            texts = [
                interval_text(cell.values.get(f"{prefix}_{what}_ns.{op}"), latency_text)
                for op in panels
                for what in ("mean", "p99")
            ]
            rows.append([x_text(section, point), target, *texts])
    return rows


def _title(comparison: Comparison, section: Section, facet: Any) -> str:
    place = place_of(section, facet)
    point = last_point(comparison, section, facet)
    if point is None:
        return f"{place}: {MISSING}"
    prefix, words = latency_kind(comparison, section)
    row, said = comparison.row(point), []
    for target in comparison.others:
        parts, note = [], ""
        for operation, name in operations_of(section):
            ratio = row.ratios[target].get(f"{prefix}_mean_ns.{operation}")
            if ratio is None:
                continue
            unsure = "" if ratio.decided else ", undecided"
            parts.append(f"{times_text(ratio.interval.estimate)} ({name}s{unsure})")
            note = ", at different effective concurrency" if ratio.concurrency else ""
        if parts:
            said.append(
                f"{target}’s mean is {' and '.join(parts)} {comparison.baseline}’s at "
                f"{section.at(point)}{note}"
            )
    return f"{place}: {'; '.join(said) or f'mean and 99th percentile {words}'}"
