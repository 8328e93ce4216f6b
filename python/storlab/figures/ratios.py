"""Forest plots: ratios to the baseline with intervals at all points, one figure per metric."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from storlab.analysis import digits
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint, short_mix
from storlab.base.units import format_number
from storlab.figures.common import family_name, operations_of, plotted
from storlab.figures.figure import Figure
from storlab.figures.mixes import without_shared_parts
from storlab.figures.plot import logarithmic, tooltip
from storlab.figures.theme import (
    CHARACTER_PX,
    SMALL_PX,
    colour,
    configured,
    log_bounds,
    role,
    shape,
)
from storlab.model.decision import Interval
from storlab.words.figures import side_of_baseline
from storlab.words.text import ratio_text, sentence_case

ROW_HEIGHT = 14
ROOM, NARROWEST = 410, 150  # px of labels plus plot, and the narrowest plot beside long labels
MOST = 36  # characters per line of a label
LABEL_PX = 300  # wider than such a line in any font, so that labels are not cut
DECIDED, OPEN, APART = "interval excludes 1", "interval includes 1", "different concurrency"


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the ratios of the first metric, such as throughput, to the baseline."""
    return _figures(comparison, sections, _metrics(sections[0])[:1])


def draw_further(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each further metric that has ratios to the baseline."""
    figures = _figures(comparison, sections, _metrics(sections[0])[1:])
    return [replace(figure, kind="ratios_further") for figure in figures]


def draw_fixed(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each metric of fixed work, such as the time of an epoch."""
    figures = _figures(comparison, sections, _metrics(sections[0]))
    return [replace(figure, kind="ratios_of_fixed_work") for figure in figures]


def _figures(
    comparison: Comparison, sections: Sequence[Section], metrics: Sequence[tuple[str, str, str]]
) -> list[Figure]:
    figures = (_figure(comparison, sections, *metric) for metric in metrics)
    return [figure for figure in figures if figure is not None]


def _metrics(section: Section) -> list[tuple[str, str, str]]:
    """Return the column key and name of each metric, and whether more or less is better."""
    page = section.page
    if page.metrics.findings:
        chosen = (q for q in page.metrics.quantities if q.key in page.metrics.findings)
        return [(q.key, q.title, f"{q.better} is better" if q.better else "") for q in chosen]
    operations = operations_of(section)
    split = operations if page.operations.by_operation else ()
    return [
        ("throughput_mb_s.all", "throughput", "more is better"),
        *((f"throughput_mb_s.{op}", f"{name} throughput", "more is better") for op, name in split),
        *(
            (f"latency_mean_ns.{op}", f"mean {name} latency", "less is better")
            for op, name in operations
        ),
        *(
            (
                f"ttfb_mean_ns.{op}",
                f"mean {page.operations.name_of(op)} time to first byte",
                "less is better",
            )
            for op in page.operations.first_byte
        ),
    ]


def _figure(
    comparison: Comparison, sections: Sequence[Section], key: str, metric: str, better: str
) -> Figure | None:
    data, order = _data(comparison, sections, key)
    if not data:
        return None
    names, shared = _names(order)
    for datum in data:
        datum["place"] = names[datum["label"]]
    low, high = log_bounds([*(d["low"] for d in data), *(d["high"] for d in data), 0.99, 1.01])
    words = [metric, f"ratio to {comparison.baseline}"]
    words += [f"(log scale; {better})" if better else "(log scale)"]
    words += [f"all: {shared}"] if shared else []
    places = list(names.values())
    chart = _chart(places, comparison, (low, high), words)
    points = [point for section in sections for point in section.points]
    return Figure.of(
        comparison,
        points,
        name=family_name(f"ratio {metric}", sections[0]),
        kind="ratios",
        title=f"{sentence_case(metric)}: {_title(comparison, points, key)}",
        shows=f"Forest plot of ratios to {comparison.baseline} with 95 % intervals",
        spec=configured(chart, {"ratios": data}, beside="|".join(places).split("|")),
        columns=["point", "target", f"ratio to {comparison.baseline}", "reading"],
        rows=[[d["label"], d["target"], d["text"], d["state"]] for d in data],
        latencies="latency" in key,
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
                decision = ratios.get(key)
                if decision is None:
                    continue
                interval = decision.ratio
                state = DECIDED if decision.decided else OPEN
                data.append(
                    {
                        "label": label,
                        "target": target,
                        "section": section.title,
                        "ratio": plotted(interval.estimate),
                        "low": plotted(_or(interval.low, interval.estimate)),
                        "high": plotted(_or(interval.high, interval.estimate)),
                        "text": _text(interval),
                        "state": f"{state}, {APART}" if decision.concurrency else state,
                        "filled": decision.decided,
                        "apart": bool(decision.concurrency),
                    }
                )
    return data, order


def _text(ratio: Interval) -> str:
    """Return the ratio; one that is too noisy to state as the bounds that are drawn."""
    if not digits.is_too_noisy(ratio) or ratio.low is None or ratio.high is None:
        return ratio_text(ratio)
    return f"{format_number(ratio.low)}–{format_number(ratio.high)}×"


def _names(labels: Sequence[str]) -> tuple[dict[str, str], str]:
    """Shorten labels of points to axis labels, in which "|" marks line breaks.

    Returns:
        Axis labels by label, and the text that was removed because all labels share it.
    """
    heads = {label.rpartition(": ")[0] for label in labels}
    head = heads.pop() if len(heads) == 1 else ""
    bare = [label.removeprefix(f"{head}: ") for label in labels] if head else list(labels)
    short = without_shared_parts(bare)
    shared = [part for part in bare[0].split(", ") if part not in short[0].split(", ")]
    lines = ["|".join(textwrap.wrap(text, MOST, break_on_hyphens=False)) for text in short]
    return dict(zip(labels, lines, strict=True)), ", ".join([head, *shared] if head else shared)


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None or value <= 0 or value > 1e6 else value


def _chart(
    order: list[str],
    comparison: Comparison,
    bounds: tuple[float, float],
    title: list[str],
) -> alt.TopLevelMixin:
    y = alt.Y(
        "place:N",
        sort=order,
        title=None,
        axis=alt.Axis(
            labelExpr="split(datum.label, '|')",
            labelLimit=LABEL_PX,
            grid=True,
            labelFontSize=SMALL_PX,
        ),
    )
    x = logarithmic(
        "ratio",
        title,
        bounds,
        expr="",
        room=1.2,
        most=5,
        to=alt.X,
        format="~g",
        grid=True,
        labelOverlap=True,
        titleAnchor="end",
    )
    # A target's colour follows from its position among all targets, so it is the same everywhere.
    shown = list(comparison.others)
    colours = colour(comparison.targets, shown, legend=len(shown) > 1)
    shapes = shape(comparison.targets, shown)
    tips = tooltip(
        {"label": "point", "target": "target", "text": "ratio [95 %]", "state": "reading"}
    )
    base = alt.Chart(alt.NamedData("ratios")).encode(y=y)
    chart = (
        alt.Chart(alt.Data(values=[{"one": 1}]))
        .mark_rule(strokeWidth=1.5)
        .encode(x=alt.X("one:Q"), color=alt.ColorValue(role("fig-rule")))
    )
    spread = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title), x2="high:Q", color=colours, tooltip=tips
    )
    dots = (
        base.mark_point(size=58, opacity=1, filled=True)
        .transform_filter("datum.filled")
        .encode(x=x, color=colours, shape=shapes, tooltip=tips)
    )
    apart = (
        base.mark_text(align="left", dx=5, fontSize=12, text="≠", color=role("fig-ink"))
        .transform_filter("datum.apart")
        .encode(x=alt.X("high:Q"))
    )
    longest = max(len(line) for name in order for line in name.split("|"))
    lines = max(name.count("|") + 1 for name in order)
    return alt.layer(chart, spread, dots, apart).properties(
        width=max(round(ROOM - CHARACTER_PX * longest), NARROWEST),
        height=max(ROW_HEIGHT * lines * len(order), 60),
    )


def _title(comparison: Comparison, points: Sequence[WorkloadPoint], key: str) -> str:
    clauses = []
    for target in comparison.others:
        rows = [comparison.row(point).ratios.get(target, {}) for point in points]
        ratios = [row[key].ratio for row in rows if key in row]
        if ratios:
            clauses.append(side_of_baseline(ratios, target, comparison.baseline))
    return "; ".join(clauses)
