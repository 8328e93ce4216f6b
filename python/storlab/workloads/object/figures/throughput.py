"""Bar charts of throughput by mix: of all requests, and of each kind that moves bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.base.units import format_number
from storlab.figures.common import operations_of
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, mixes_of
from storlab.figures.plot import Plot, heights, linear, runs_of, series_of
from storlab.words.figures import MOVES, ratio_title
from storlab.words.text import MISSING, interval_text, sentence_case

NAME = "throughput_mb_s"
NARROW = 275  # width in pixels; three charts fit in a row


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw figures of the total and of each operation for each object size, on one scale."""
    drawn = []
    for mixes in mixes_of(comparison, sections):
        every = [("all", "all requests"), *operations_of(mixes.section)]
        columns = [(comparison.column(f"{NAME}.{op}"), words) for op, words in every]
        known = [(column, words) for column, words in columns if column is not None]
        ceiling = max((_top(mixes, column) for column, _ in known), default=1.0)
        figures = [_figure(mixes, column, words, ceiling) for column, words in known]
        drawn += [figure for figure in figures if figure is not None]
    return drawn


def _top(mixes: Mixes, column: Column) -> float:
    values = [
        value
        for _, _, cell in mixes.cells()
        if (interval := cell.values.get(column.key)) is not None
        for value in (interval.estimate, interval.high or 0.0, *cell.repeats(column))
    ]
    return max(values, default=1.0)


def _figure(mixes: Mixes, column: Column, words: str, ceiling: float) -> Figure | None:
    bars, dots = _data(mixes, column)
    if not bars:
        return None
    title = f"{mixes.where(sentence_case(words))}: {_title(mixes, column, bars)}"
    return mixes.figure(
        kind="object_throughput",
        name=mixes.name("throughput-by-mix", column.operation),
        title=title,
        shows=f"Bar chart of throughput of {words} in MB/s by mix",
        spec=_plot(mixes, bars, dots, ceiling).spec(NARROW),
        columns=["mix", "target", "MB/s, mean [95 %]", "single runs (MB/s)"],
        rows=[
            [
                mix,
                cell.target,
                interval_text(cell.values.get(column.key)),
                ", ".join(format_number(value) for value in cell.repeats(column)) or MISSING,
            ]
            for mix, _, cell in mixes.cells()
        ],
    )


def _data(mixes: Mixes, column: Column) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    bars, dots = [], []
    for mix, index, cell in mixes.cells():
        interval = cell.values.get(column.key)
        if interval is None:
            continue
        bars.append({"x": mix, **series_of(cell, index), **heights(interval)})
        dots += runs_of(cell, column, mix)
    return bars, dots


def _plot(
    mixes: Mixes, bars: list[dict[str, Any]], dots: list[dict[str, Any]], ceiling: float
) -> Plot:
    plot = mixes.plot(linear("value", "throughput (MB/s)", ceiling * 1.12))
    words = {"series": "target", "x": "mix", "text": "MB/s, mean [95 %]", "runs": "runs"}
    plot.bars("bars", bars, words)
    plot.runs(dots)
    plot.labels("bars", NARROW)
    return plot


def _title(mixes: Mixes, column: Column, bars: list[dict[str, Any]]) -> str:
    text = ratios_in_words(mixes, column)
    if text:
        return text
    values = sorted(float(bar["value"]) for bar in bars)
    return f"{format_number(values[0])} to {format_number(values[-1])} MB/s"


def ratios_in_words(mixes: Mixes, column: Column) -> str:
    """Return the range of each target's ratios to the baseline as text; empty without any."""
    rows = [mixes.comparison.row(point) for point in mixes.points]
    return ratio_title(mixes.comparison, rows, column.key, "throughput", MOVES)
