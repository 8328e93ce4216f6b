"""Figure of latency by mix and kind of request: mean and percentiles on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from storlab.analysis.columns import STATISTICS
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section
from storlab.figures.axis_extent import edge_words, ends_within, log_reach
from storlab.figures.common import latency_kind, operations_of
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, apart_words, dot_plot, mixes_of
from storlab.figures.panels import beside, panel_size
from storlab.figures.theme import PANELS_WIDTH, label_room
from storlab.model.decision import Interval
from storlab.words.figures import TWO_LINES, ranges_title, ratio_clauses, ratios_of, short_ranges
from storlab.words.text import DIFFERENT_CONCURRENCY, interval_text, latency_text


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each object size, with a panel for each operation."""
    figures = (_whole(mixes) for mixes in mixes_of(comparison, sections))
    return [figure for figure in figures if figure is not None]


def _whole(mixes: Mixes) -> Figure | None:
    columns = 2 if label_room(mixes.order, PANELS_WIDTH / 2) else 1
    operations = operations_of(mixes.section)
    size = panel_size(len(operations), columns)
    wanted = ("mean", *mixes.section.page.operations.percentiles)
    rows = [mixes.comparison.row(point) for point in mixes.points]
    panels, clauses = [], []
    for operation, name in operations:
        prefix, words = latency_kind(mixes.comparison, mixes.section, operation)
        keys = {s: f"{prefix}_{s}_ns.{operation}" for s in wanted}
        figure = _figure(replace(mixes, size=size), name, words, keys)
        if figure is not None:
            panels.append((name, figure))
            ratios = ratios_of(mixes.comparison, rows, keys["mean"])
            clauses += [short_ranges(ratios, mixes.comparison.baseline, name)] if ratios else []
    if len(panels) < 2:
        return panels[0][1] if panels else None
    title = "; ".join(clauses)
    if not clauses or len(title) > TWO_LINES:
        title = mixes.titled("Mean latency by mix")
    whole = beside(panels, "request", title, columns)
    return replace(whole, name=mixes.name("latency-by-mix"), where=mixes.whole_place)


def bounds_of(mixes: Mixes, keys: Sequence[str]) -> tuple[float, float]:
    """Return the ends of a vertical axis that shows these metrics, and the intervals of means."""
    cells = [cell for _, _, cell in mixes.cells()]
    known = [(key, c.values[key]) for c in cells for key in keys if key in c.values]
    means = [value for key, value in known if "_mean_ns" in key]
    return log_reach([value.estimate for _, value in known], means)


def intervals_of(mixes: Mixes, key: str) -> list[Interval]:
    """Return the means of one metric, with their intervals, for every mix and target."""
    return [cell.values[key] for _, _, cell in mixes.cells() if key in cell.values]


def _figure(mixes: Mixes, name: str, words: str, keys: dict[str, str]) -> Figure | None:
    bounds = bounds_of(mixes, list(keys.values()))
    labels = {STATISTICS[statistic]: key for statistic, key in keys.items()}
    data = times_data(mixes, labels, bounds)
    if not data["dots"]:
        return None
    rows = [mixes.comparison.row(point) for point in mixes.points]
    ratios = ratios_of(mixes.comparison, rows, keys["mean"])
    noun = f"mean {name} {words}"
    title = ranges_title(ratios, mixes.comparison.baseline, noun, most=TWO_LINES) or noun
    plot = dot_plot(
        mixes,
        data,
        list(labels),
        bounds,
        f"{name} (log)" if mixes.size.low else f"{name} {words} (log scale)",
    )
    return mixes.figure(
        name=mixes.name("latency-by-mix", name),
        kind="object_latency",
        title=title,
        shows=f"Markers on a logarithmic scale: {', '.join(labels)} of {name} {words} by mix",
        spec=plot.spec(mixes.size.width, mixes.size.height),
        columns=["mix", "target", *labels],
        rows=[times_row(mix, cell, list(labels.values())) for mix, _, cell in mixes.cells()],
        remark="; ".join(filter(None, _remarks(mixes, keys["mean"], bounds))),
        latencies=True,
    )


def times_row(mix: str, cell: Cell, keys: Sequence[str]) -> list[str]:
    """Return a row of the figure's data table: each statistic with its interval."""
    texts = [interval_text(cell.values.get(key), latency_text) for key in keys]
    return [mix, cell.target, *texts]


def times_data(
    mixes: Mixes, labels: dict[str, str], bounds: tuple[float, float]
) -> dict[str, list[dict[str, Any]]]:
    """Return the chart data of lines and markers.

    Args:
        mixes: Points of the figure.
        labels: Column key of each displayed statistic, by the statistic's label.
        bounds: Ends of the vertical axis.
    """
    spans: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    for mix, _, cell in mixes.cells():
        known = {word: cell.values[key] for word, key in labels.items() if key in cell.values}
        if not known:
            continue
        values = [interval.estimate for interval in known.values()]
        place = {"x": mix, "target": cell.target}
        spans.append({**place, "low": round(min(values)), "high": round(max(values))})
        dots += [
            {
                **place,
                "statistic": word,
                "value": max(round(interval.estimate), 1),
                **ends_within(interval, bounds),
                "text": interval_text(interval, latency_text),
                "provenance": cell.provenance,
                "runs": ", ".join(cell.run_ids),
            }
            for word, interval in known.items()
        ]
    return {"spans": spans, "dots": dots}


def _remarks(mixes: Mixes, key: str, bounds: tuple[float, float]) -> tuple[str, str]:
    return apart_words([mixes], key), edge_words(intervals_of(mixes, key), bounds)


def times_in_words(mixes: Mixes, key: str, noun: str) -> str:
    """Return ratios as text: ``HDD’s mean is 20× to 50× SSD’s``; empty without a ratio."""
    rows, parts = [mixes.comparison.row(point) for point in mixes.points], []
    for text, ratios in ratio_clauses(mixes.comparison, rows, key, noun):
        apart = any(ratio.concurrency for ratio in ratios)
        parts.append(f"{text}, {DIFFERENT_CONCURRENCY}" if apart else text)
    return "; ".join(parts)
