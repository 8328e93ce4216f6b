"""Ratios to the baseline with their intervals: a forest plot per metric over all points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, short_mix
from storlab.figures.common import family_name, operations_of, point_ids, ratio_text, sentence
from storlab.figures.figure import Figure
from storlab.figures.theme import colour, configured, log_bounds, log_ticks, role, shape

ROW_HEIGHT = 13
PLOT_WIDTH = 190
DECIDED, OPEN, APART = "interval excludes 1", "interval includes 1", "different concurrency"


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """One figure per metric for which any ratio is known."""
    found = (_figure(comparison, sections, *metric) for metric in _metrics(sections[0]))
    return [figure for figure in found if figure is not None]


def draw_fixed(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """The same of fixed work, which has findings of its own and no latencies among them."""
    return [replace(f, kind="ratios_of_fixed_work") for f in draw(comparison, sections)]


def _metrics(section: Section) -> list[tuple[str, str, str]]:
    """Keys of columns, their names, and which way is good."""
    page = section.page
    if page.findings:
        chosen = (q for q in page.quantities if q.key in page.findings)
        return [(q.key, q.title, f"{q.better} is better" if q.better else "") for q in chosen]
    operations = operations_of(section)
    split = operations if page.split else ()
    return [
        ("throughput_mb_s.all", "throughput", "more is better"),
        *((f"throughput_mb_s.{op}", f"{name} throughput", "more is better") for op, name in split),
        *(
            (f"latency_mean_ns.{op}", f"mean {name} latency", "less is better")
            for op, name in operations
        ),
        *(
            (f"ttfb_mean_ns.{op}", f"mean {page.name_of(op)} time to first byte", "less is better")
            for op in page.first_byte
        ),
    ]


def _figure(
    comparison: Comparison, sections: Sequence[Section], key: str, metric: str, better: str
) -> Figure | None:
    data, order = _data(comparison, sections, key)
    if not data:
        return None
    low, high = log_bounds([*(d["low"] for d in data), *(d["high"] for d in data), 0.99, 1.01])
    chart = _chart(
        order,
        comparison,
        (low, high),
        [f"{metric}, ratio to {comparison.baseline}", f"(log scale; {better})"],
    )
    title = f"{sentence(metric)}: {_title(data, comparison.baseline)}"
    points = [point for section in sections for point in section.points]
    return Figure(
        name=family_name(f"ratio {metric}", sections[0]),
        kind="ratios",
        title=title,
        alt=f"Forest plot of ratios to {comparison.baseline} with 95 % intervals. {title}",
        spec=configured(chart, {"ratios": data}),
        columns=["point", "target", f"ratio to {comparison.baseline}", "reading"],
        rows=[[d["label"], d["target"], d["text"], d["state"]] for d in data],
        point_ids=point_ids(comparison, points),
    )


def _data(
    comparison: Comparison, sections: Sequence[Section], key: str
) -> tuple[list[dict[str, Any]], list[str]]:
    data, order = [], []
    for section in sections:
        for point in section.points:
            label = short_mix(section.page, section.where(point))
            order.append(label)
            for target, ratios in comparison.row(point).ratios.items():
                ratio = ratios.get(key)
                if ratio is None:
                    continue
                interval = ratio.interval
                state = DECIDED if ratio.decided else OPEN
                data.append(
                    {
                        "label": label,
                        "target": target,
                        "section": section.title,
                        "ratio": round(interval.estimate, 4),
                        "low": round(_or(interval.low, interval.estimate), 4),
                        "high": round(_or(interval.high, interval.estimate), 4),
                        "text": ratio_text(interval),
                        "state": f"{state}, {APART}" if ratio.concurrency else state,
                        "filled": ratio.decided,
                        "apart": bool(ratio.concurrency),
                    }
                )
    return data, order


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None or value <= 0 or value > 1e6 else value


def _chart(
    order: list[str],
    comparison: Comparison,
    bounds: tuple[float, float],
    title: list[str],
) -> alt.TopLevelMixin:
    y = alt.Y(
        "label:N",
        sort=order,
        title=None,
        axis=alt.Axis(labelLimit=260, grid=True, labelFontSize=11),
    )
    x = alt.X(
        "ratio:Q",
        title=title,
        scale=alt.Scale(type="log", domain=list(bounds), nice=False),
        axis=alt.Axis(values=log_ticks(*bounds, 1.2, 5), format="~g", grid=True, labelOverlap=True),
    )
    # colours follow the order of all targets, as in every other figure
    shown = list(comparison.others)
    colours = colour(comparison.targets, shown, legend=len(shown) > 1)
    shapes = shape(comparison.targets, shown)
    tooltip = [
        alt.Tooltip(f"{name}:N", title=text)
        for name, text in (
            ("label", "point"),
            ("target", "target"),
            ("text", "ratio [95 %]"),
            ("state", "reading"),
        )
    ]
    base = alt.Chart(alt.NamedData("ratios")).encode(y=y)
    chart = (
        alt.Chart(alt.Data(values=[{"one": 1}]))
        .mark_rule(strokeWidth=1.5)
        .encode(x=alt.X("one:Q"), color=alt.ColorValue(role("fig-rule")))
    )
    spread = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title), x2="high:Q", color=colours, tooltip=tooltip
    )
    dots = (
        base.mark_point(size=58, opacity=1, filled=True)
        .transform_filter("datum.filled")
        .encode(x=x, color=colours, shape=shapes, tooltip=tooltip)
    )
    apart = (
        base.mark_text(align="left", dx=5, fontSize=12, text="≠", color=role("fig-ink"))
        .transform_filter("datum.apart")
        .encode(x=alt.X("high:Q"))
    )
    return alt.layer(chart, spread, dots, apart).properties(
        width=PLOT_WIDTH, height=max(ROW_HEIGHT * len(order), 60)
    )


def _title(data: list[dict[str, Any]], baseline: str) -> str:
    parts = []
    for target in dict.fromkeys(d["target"] for d in data):
        of_target = [d for d in data if d["target"] == target]
        above = sum(d["filled"] and d["ratio"] > 1 for d in of_target)
        below = sum(d["filled"] and d["ratio"] < 1 for d in of_target)
        parts.append(f"{target} {_against(len(of_target), above, below, baseline)}")
    return "; ".join(parts)


def _against(points: int, above: int, below: int, baseline: str) -> str:
    for count, word in ((above, "above"), (below, "below")):
        if count == points == 1:
            return f"is {word} {baseline}"
        if count == points:
            return f"is {word} {baseline} at all {points} points"
    if points == 1:
        return f"and {baseline} can’t be told apart"
    parts = [f"{word} at {count}" for count, word in ((above, "above"), (below, "below")) if count]
    unsure = points - above - below
    parts += [f"undecided at {unsure}"] if unsure else []
    return f"against {baseline} is {' and '.join(parts)} of {points} points"
