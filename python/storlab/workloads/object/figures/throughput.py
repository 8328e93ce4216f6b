"""Bar charts of throughput by mix: of all requests, and of each kind that moves bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.base.units import format_number
from storlab.figures.common import operations_of
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, in_panels, mixes_of
from storlab.figures.panels import beside, panel_size
from storlab.figures.plot import Plot, heights, linear, runs_of, series_of
from storlab.figures.theme import PANELS_WIDTH, label_room
from storlab.words.figures import (
    MOVES,
    TWO_LINES,
    ranges_title,
    ratio_title,
    ratios_of,
    short_ranges,
)
from storlab.words.text import MISSING, and_list, interval_text

NAME = "throughput_mb_s"


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the throughput of all requests, with a panel for each object size."""
    column = comparison.column(f"{NAME}.all")
    if column is None:
        return []

    def panel(mixes: Mixes) -> Figure | None:
        return _figure(mixes, column, "all requests", _top(mixes, column))

    def title(some: Sequence[Mixes]) -> str:
        return _title(some, column, "all requests")

    return in_panels(comparison, sections, panel, title)


def draw_parts(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each object size, with a panel for each operation, on one scale."""
    figures = (_parts(mixes) for mixes in mixes_of(comparison, sections))
    return [figure for figure in figures if figure is not None]


def _parts(mixes: Mixes) -> Figure | None:
    comparison, operations = mixes.comparison, operations_of(mixes.section)
    columns = [(comparison.column(f"{NAME}.{op}"), name) for op, name in operations]
    known = [(column, name) for column, name in columns if column is not None]
    ceiling = max((_top(mixes, column) for column, _ in known), default=1.0)
    narrow = label_room(mixes.order, PANELS_WIDTH / 2)
    small = replace(mixes, size=panel_size(len(known), 2 if narrow else 1))
    panels = [
        (name, figure)
        for column, name in known
        if (figure := _figure(small, column, name, ceiling)) is not None
    ]
    if len(panels) < 2:
        return None  # the throughput of all requests is that of the only kind
    title = "; ".join(filter(None, (_clause(mixes, column, name) for column, name in known)))
    if not title or len(title) > TWO_LINES:
        title = mixes.titled(f"Throughput of {and_list([name for _, name in known])} by mix")
    whole = beside(panels, "request", title, 2 if narrow else 1)
    name = mixes.name("throughput-of-requests")
    return replace(whole, kind="object_parts", name=name, where=mixes.whole_place)


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
    return mixes.figure(
        kind="object_throughput",
        name=mixes.name("throughput-by-mix", column.operation),
        title=_title([mixes], column, words),
        shows=f"Bar chart of throughput of {words} in MB/s by mix",
        spec=_plot(mixes, bars, dots, ceiling).spec(mixes.size.width, mixes.size.height),
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
    plot.labels("bars", mixes.size.width)
    return plot


def _clause(mixes: Mixes, column: Column, name: str) -> str:
    rows = [mixes.comparison.row(point) for point in mixes.points]
    ratios = ratios_of(mixes.comparison, rows, column.key)
    return short_ranges(ratios, mixes.comparison.baseline, name) if ratios else ""


def _title(some: Sequence[Mixes], column: Column, words: str) -> str:
    comparison = some[0].comparison
    rows = [comparison.row(point) for mixes in some for point in mixes.points]
    ratios = ratios_of(comparison, rows, column.key)
    noun = f"throughput of {words}"
    return ranges_title(ratios, comparison.baseline, noun, most=TWO_LINES) or f"{noun} by mix"


def ratios_in_words(mixes: Mixes, column: Column) -> str:
    """Return the range of each target's ratios to the baseline as text; empty without any."""
    rows = [mixes.comparison.row(point) for point in mixes.points]
    return ratio_title(mixes.comparison, rows, column.key, "throughput", MOVES)
