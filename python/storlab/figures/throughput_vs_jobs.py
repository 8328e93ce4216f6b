"""Throughput against the axis, such as jobs: mean with interval, and every run as a dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison, Row
from storlab.analysis.points import Section
from storlab.figures import Figure
from storlab.figures.common import (
    axis_title,
    digits3,
    figure_name,
    interval_text,
    is_swept,
    last_point,
    place_of,
    point_ids,
    times_text,
    x_text,
)
from storlab.figures.theme import HEIGHT, WIDTH, colour, configured, dash_of, role, shape

KEY = "throughput_mb_s.all"
BESIDE_PX = 9  # raw dots stand beside the mean, not under it


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """One figure per block size; those of a section share the vertical scale."""
    column = comparison.column(KEY)
    if column is None:
        return []
    return [
        _one(comparison, section, facet, column)
        for section in sections
        for facet in section.facets()
    ]


def draw_swept(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """The same, only where the axis has more than one place."""
    return draw(comparison, [section for section in sections if is_swept(section)])


def _ceiling(comparison: Comparison, section: Section, column: Column) -> float:
    values = [
        max(interval.estimate, interval.high or 0.0, *cell.repeats(column))
        for point in section.points
        for cell in comparison.row(point).cells.values()
        if (interval := cell.values.get(KEY)) is not None
    ]
    return max(values, default=1.0)


def _one(comparison: Comparison, section: Section, facet: Any, column: Column) -> Figure:
    ceiling = _ceiling(comparison, section, column)
    points = section.of_facet(facet)
    rows = [comparison.row(point) for point in points]
    order = [x_text(section, point) for point in points]
    means, dots = _data(section, rows, column)
    targets = comparison.planned(section.points)
    colours = colour(comparison.targets, targets)
    x = alt.X("x:O", sort=order, title=axis_title(section), axis=alt.Axis(labelAngle=0))
    y = alt.Y(
        "mean:Q",
        title="throughput (MB/s)",
        scale=alt.Scale(domain=[0, ceiling * 1.06]),
        axis=alt.Axis(format=",d", tickCount=6),
    )
    base = alt.Chart(alt.NamedData("means")).encode(x=x)
    tooltip = [
        alt.Tooltip(f"{name}:N", title=title)
        for name, title in (
            ("target", "target"),
            ("x", section.axes.x),
            ("text", "MB/s, mean [95 %]"),
            ("runs", "runs"),
        )
    ]
    raw = alt.Chart(alt.NamedData("runs")).mark_point(
        size=22, strokeWidth=1.2, opacity=0.9, xOffset=BESIDE_PX
    )
    layers = [
        base.mark_line(strokeWidth=2).encode(
            y=y,
            color=colours,
            detail="target:N",
            strokeDash=alt.StrokeDash("dash:N", scale=None, legend=None),
        ),
        base.mark_rule(strokeWidth=1.8).encode(y=alt.Y("low:Q"), y2="high:Q", color=colours),
        raw.encode(x=x, y=alt.Y("value:Q"), color=colours),
        base.mark_point(size=62, filled=True, opacity=1).encode(
            y=y, color=colours, shape=shape(comparison.targets, targets), tooltip=tooltip
        ),
        *(_end_label(x, end, nudge) for end, nudge in _ends(means, order, ceiling)),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    place = place_of(section, facet)
    table = [
        [order[i], *(interval_text(row.cells[t].values.get(KEY)) for t in targets)]
        for i, row in enumerate(rows)
    ]
    title = _title(comparison, section, facet)
    return Figure(
        name=figure_name("throughput", section, facet),
        kind="throughput_vs_jobs",
        title=title,
        alt=f"Line chart of throughput in MB/s against {axis_title(section)}. {title}",
        spec=configured(chart, {"means": means, "runs": dots}),
        columns=[section.axes.x, *(f"{t} (MB/s)" for t in targets)],
        rows=table,
        point_ids=point_ids(comparison, points),
        note=place,
    )


def _data(
    section: Section, rows: Sequence[Row], column: Column
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    means, dots = [], []
    for row in rows:
        for target, cell in row.cells.items():
            interval = cell.values.get(KEY)
            if interval is None:
                continue
            x = x_text(section, row.point)
            low = interval.low if interval.low is not None else interval.estimate
            high = interval.high if interval.high is not None else interval.estimate
            means.append(
                {
                    "target": target,
                    "x": x,
                    "mean": round(interval.estimate, 2),
                    "low": round(low, 2),
                    "high": round(high, 2),
                    "text": interval_text(interval),
                    "provenance": cell.provenance,
                    "dash": dash_of(cell.provenance),
                    "runs": ", ".join(cell.run_ids),
                }
            )
            dots += [{"target": target, "x": x, "value": round(v, 2)} for v in cell.repeats(column)]
    return means, dots


def _ends(
    means: list[dict[str, Any]], order: list[str], ceiling: float
) -> list[tuple[dict[str, Any], int]]:
    """The last mean of each target with a nudge in px, so that two labels do not collide."""
    ends = sorted((m for m in means if order and m["x"] == order[-1]), key=lambda m: -m["mean"])
    if len(ends) > 2:
        return []
    close = len(ends) == 2 and ends[0]["mean"] - ends[1]["mean"] < 0.07 * ceiling
    return [(end, (-8, 8)[i] if close else 0) for i, end in enumerate(ends)]


def _end_label(x: alt.X, end: dict[str, Any], nudge: int) -> alt.Chart:
    data = alt.Data(values=[{"x": end["x"], "mean": end["mean"], "label": digits3(end["mean"])}])
    mark = alt.Chart(data).mark_text(align="left", dx=17, dy=nudge, fontWeight="bold")
    label: alt.Chart = mark.encode(
        x=x, y="mean:Q", text="label:N", color=alt.value(role("fig-ink"))
    )
    return label


def _title(comparison: Comparison, section: Section, facet: Any) -> str:
    place = place_of(section, facet)
    point = last_point(comparison, section, facet)
    if point is None:
        return f"{place}: not measured"
    row = comparison.row(point)
    where = section.at(point)
    said = []
    for target in comparison.others:
        ratio = row.ratios[target].get(KEY)
        if ratio is None:
            continue
        if ratio.interval.is_known and not ratio.decided:
            said.append(f"{target} and {comparison.baseline} can’t be told apart")
        else:
            said.append(
                f"{target} moves {times_text(ratio.interval.estimate)} as much as "
                f"{comparison.baseline}"
            )
    if not said:
        known = [(t, c.values[KEY]) for t, c in row.cells.items() if KEY in c.values]
        said = [f"{t} moves {digits3(i.estimate)} MB/s" for t, i in known]
    return f"{place}: {'; '.join(said)} at {where}" if said else f"{place}: not measured"
