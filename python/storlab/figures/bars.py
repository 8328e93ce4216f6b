"""Bar chart of several quantities at one point: means with intervals, and a dot per run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, Comparison
from storlab.base.units import format_number
from storlab.contracts.figure import Bars
from storlab.figures.axis_extent import cut_words
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import Plot, Rule, groups, heights, linear, runs_of, series_of
from storlab.words.figures import ratio_title, values_on
from storlab.words.text import MISSING, interval_text


@dataclass(frozen=True, slots=True)
class Frame:
    """Optional parts of a bar chart: threshold lines, range of the vertical axis, and a caption."""

    rules: list[Rule] = field(default_factory=list)
    most: float | None = None  # end of the vertical axis
    below: str = ""  # caption below the horizontal axis


def bar_figure(kind: str, wanted: Bars, far: Place, frame: Frame | None = None) -> Figure | None:
    """Draw a bar chart of quantities at one point; None if none of them was measured."""
    comparison, cells = far.comparison, list(far.cells.values())
    columns = {
        word: column
        for word, key in wanted.keys.items()
        if (column := comparison.column(key)) is not None
        and any(key in cell.values for cell in cells)
    }
    bars, dots = _data(comparison, cells, columns)
    if not bars:
        return None
    unit, remark = next(iter(columns.values())).unit, cut_words(bars)
    return far.figure(
        kind=kind,
        name=wanted.name or kind,
        text=_title(far, wanted, columns),
        shows=f"Bar chart: {wanted.what} in {unit}, {_plain(', '.join(columns))}",
        spec=_plot(far.targets, wanted, list(columns), bars, dots, unit, frame or Frame()).spec(),
        columns=[wanted.what, "target", f"{unit}, mean [95 %]", "single runs", "provenance"],
        rows=[
            [
                _plain(word),
                cell.target,
                interval_text(cell.values.get(column.key)),
                ", ".join(format_number(value) for value in cell.repeats(column)) or MISSING,
                provenance_of(cell, column),
            ]
            for word, column in columns.items()
            for cell in cells
        ],
        remark=remark,
    )


def _plain(words: str) -> str:
    return words.replace("|", " ")


def provenance_of(cell: Cell, column: Column) -> str:
    """Return the provenance of a target's value, such as measured or declared.

    A value that is computed from power has the provenance of the power.
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
            bars.append({"x": word, **series_of(cell, index, provenance), **heights(interval)})
            dots += runs_of(cell, column, word)
    return bars, dots


def _plot(
    targets: Sequence[str],
    wanted: Bars,
    words: list[str],
    bars: list[dict[str, Any]],
    dots: list[dict[str, Any]],
    unit: str,
    frame: Frame,
) -> Plot:
    top = frame.most or 1.12 * max(
        [*(bar["high"] for bar in bars), *(rule.value for rule in frame.rules)]
    )
    lines = alt.Axis(labelExpr="split(datum.label, '|')", labelLimit=150)
    plot = Plot(
        groups(words, frame.below, lines),
        linear("value", wanted.axis or f"{wanted.what} ({unit})", top),
        targets,
    )
    shown = {
        "series": "target",
        "x": wanted.what,
        "text": f"{unit}, mean [95 %]",
        "provenance": "provenance",
        "runs": "runs",
    }
    plot.bars("bars", bars, shown)
    plot.runs(dots)
    for rule in frame.rules:
        plot.rule(rule)
    plot.labels("bars")
    return plot


def _title(far: Place, wanted: Bars, columns: dict[str, Column]) -> str:
    row = far.comparison.row(far.points[0])
    word, column = next(
        ((w, c) for w, c in columns.items() if c.key == wanted.ratio), next(iter(columns.items()))
    )
    noun = f"{wanted.what} {_plain(word)}"
    text = ratio_title(far.comparison, [row], column.key, noun)
    if text:
        return text
    known = [(t, c.values[column.key]) for t, c in row.cells.items() if column.key in c.values]
    return f"{noun}: {values_on(((t, i.estimate, '') for t, i in known), column.unit)}"
