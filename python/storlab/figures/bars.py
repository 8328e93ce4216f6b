"""Bar chart of several quantities at one point: mean with interval, and every run as a dot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.stats import Interval
from storlab.contracts.figure import Bars
from storlab.figures.axis_extent import cut_words
from storlab.figures.common import (
    MISSING,
    digits3,
    figure_name,
    interval_text,
    place_at,
    point_ids,
)
from storlab.figures.figure import Figure
from storlab.figures.lines import Rule, rule_layers
from storlab.figures.mixes import fill
from storlab.figures.ratio_text import ratio_words
from storlab.figures.theme import HEIGHT, WIDTH, configured, fill_of, label_room, role, series_label

BESIDE_PX = 7  # raw dots are drawn beside the interval, not under it


@dataclass(frozen=True, slots=True)
class Frame:
    """Optional extras of a bar chart: threshold lines, end of the vertical axis and a caption."""

    rules: list[Rule] = field(default_factory=list)
    most: float | None = None  # end of the vertical axis
    below: str = ""  # caption below the horizontal axis


def bar_figure(
    kind: str,
    wanted: Bars,
    comparison: Comparison,
    section: Section,
    facet: Any,
    point: WorkloadPoint,
    frame: Frame | None = None,
) -> Figure | None:
    """Return the bar figure for one point, or None if none of its quantities was measured."""
    columns = {
        word: column
        for word, key in wanted.keys.items()
        if (column := comparison.column(key)) is not None
    }
    cells = [comparison.row(point).cells[target] for target in comparison.planned([point])]
    columns = {w: c for w, c in columns.items() if any(c.key in cell.values for cell in cells)}
    bars, dots = _data(comparison, cells, columns)
    if not bars:
        return None
    where = place_at(section, facet, point)
    unit = next(iter(columns.values())).unit
    title = f"{where}: {_title(comparison, point, wanted, columns)}"
    remark = cut_words(bars)
    chart = _chart(comparison, point, wanted, list(columns), bars, unit, frame or Frame())
    return Figure(
        name=figure_name(wanted.name or kind, section, facet),
        kind=kind,
        title=title,
        alt=f"Bar chart: {wanted.what} in {unit}, {_plain(', '.join(columns))}. {title}",
        spec=configured(chart, {"bars": bars, "dots": dots}),
        columns=[wanted.what, "target", f"{unit}, mean [95 %]", "single runs", "provenance"],
        rows=[
            [
                _plain(word),
                cell.target,
                interval_text(cell.values.get(column.key)),
                ", ".join(digits3(value) for value in cell.repeats(column)) or MISSING,
                provenance_of(cell, column),
            ]
            for word, column in columns.items()
            for cell in cells
        ],
        point_ids=point_ids(comparison, [point]),
        note=where,
        remark=remark,
    )


def _plain(words: str) -> str:
    return words.replace("|", " ")


def provenance_of(cell: Cell, column: Column) -> str:
    """Return the provenance of a quantity.

    If a measured quantity is derived from power, it is the provenance of the power.
    """
    own = cell.provenance_of(column)
    if own == "measured" and column.is_power and cell.power is not None:
        return cell.power.provenance
    return own


def _data(
    comparison: Comparison, cells: Sequence[Cell], columns: dict[str, Column]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    bars: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    for word, column in columns.items():
        for cell in cells:
            interval = cell.values.get(column.key)
            if interval is None:
                continue
            index, provenance = comparison.targets.index(cell.target), provenance_of(cell, column)
            bars.append(
                {
                    "x": word,
                    "target": cell.target,
                    "series": series_label(cell.target, provenance),
                    "fill": fill_of(index, provenance),
                    "provenance": provenance,
                    "runs": ", ".join(cell.run_ids),
                    **heights(interval),
                    "label": digits3(interval.estimate),
                    "text": interval_text(interval),
                }
            )
            dots += [
                {"x": word, "target": cell.target, "value": float(f"{value:.6g}")}
                for value in cell.repeats(column)
            ]
    return bars, dots


def bar_layers(
    base: alt.Chart,
    places: tuple[alt.X, alt.XOffset, alt.XOffset, alt.Y],
    fills: alt.Fill,
    shown: Mapping[str, str],
) -> list[alt.Chart]:
    """Return chart layers: bars, their intervals and every run as a dot.

    Args:
        base: Chart over the data set of bars.
        places: x, offset of the bars, offset of the bars' centres, and y.
        fills: Fill encoding of the bars.
        shown: Tooltip titles by field name.
    """
    x, offset, centred, y = places
    ink = alt.ColorValue(role("fig-ink"))
    tooltip = [alt.Tooltip(f"{name}:N", title=text) for name, text in shown.items()]
    raw = alt.Chart(alt.NamedData("dots")).mark_point(
        size=14, strokeWidth=1, opacity=0.9, fill=role("fig-paper"), dx=BESIDE_PX
    )
    return [
        base.mark_bar().encode(x=x, xOffset=offset, y=y, fill=fills, tooltip=tooltip),
        base.mark_rule(strokeWidth=1.4).encode(
            x=x, xOffset=centred, y=alt.Y("low:Q"), y2="high:Q", color=ink
        ),
        raw.encode(x=x, xOffset=centred, y=alt.Y("value:Q"), color=ink),
    ]


def heights(interval: Interval) -> dict[str, float]:
    """Return ``value``, ``low`` and ``high`` of a bar; missing bounds equal the estimate."""
    estimate = interval.estimate
    low = estimate if interval.low is None else interval.low
    high = estimate if interval.high is None else interval.high
    whisker = {"value": estimate, "low": low, "high": high}
    return {name: float(f"{value:.6g}") for name, value in whisker.items()}


def _chart(
    comparison: Comparison,
    point: WorkloadPoint,
    wanted: Bars,
    words: list[str],
    bars: list[dict[str, Any]],
    unit: str,
    frame: Frame,
) -> alt.TopLevelMixin:
    targets = comparison.planned([point])
    top = frame.most or 1.12 * max(
        [*(bar["high"] for bar in bars), *(rule.value for rule in frame.rules)]
    )
    x = alt.X(
        "x:O",
        sort=words,
        title=frame.below or None,
        scale=alt.Scale(paddingInner=0.24, paddingOuter=0.14),
        axis=alt.Axis(labelExpr="split(datum.label, '|')", labelLimit=150),
    )
    scale = alt.Scale(domain=targets, paddingInner=0.1)
    offset = alt.XOffset("target:N", sort=targets, scale=scale)
    centred = alt.XOffset("target:N", sort=targets, bandPosition=0.5, scale=scale)
    y = alt.Y(
        "value:Q",
        title=wanted.axis or f"{wanted.what} ({unit})",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    shown = {
        "series": "target",
        "x": wanted.what,
        "text": f"{unit}, mean [95 %]",
        "provenance": "provenance",
        "runs": "runs",
    }
    base = alt.Chart(alt.NamedData("bars"))
    layers = [
        *bar_layers(base, (x, offset, centred, y), fill(bars), shown),
        *(layer for rule in frame.rules for layer in rule_layers(rule)),
    ]
    if label_room([bar["label"] for bar in bars], WIDTH):
        text = base.encode(x=x, xOffset=centred, y=alt.Y("high:Q"), text="label:N")
        ground = text.mark_text(dy=-6, baseline="bottom", stroke=role("fig-paper"), strokeWidth=4)
        layers += [ground, text.mark_text(dy=-6, baseline="bottom")]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _title(
    comparison: Comparison, point: WorkloadPoint, wanted: Bars, columns: dict[str, Column]
) -> str:
    row = comparison.row(point)
    word, column = next(
        ((w, c) for w, c in columns.items() if c.key == wanted.ratio), next(iter(columns.items()))
    )
    noun = f"{wanted.what} {_plain(word)}"
    parts = ratio_words(comparison, row, column.key, noun)
    if parts:
        return "; ".join(parts)
    known = [(t, c.values[column.key]) for t, c in row.cells.items() if column.key in c.values]
    values = "; ".join(f"{digits3(i.estimate)}\u00a0{column.unit} on {t}" for t, i in known)
    return f"{noun}: {values}"
