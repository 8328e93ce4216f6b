"""Figure of latency by mix and kind of request: mean and percentiles on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.columns import STATISTICS
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section
from storlab.figures.axis_extent import edge_words, ends_within, log_reach
from storlab.figures.common import latency_kind, operations_of
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, dot_plot, mixes_of
from storlab.model.decision import Interval
from storlab.words.figures import ratio_clauses
from storlab.words.text import DIFFERENT_CONCURRENCY, interval_text, latency_text


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each object size and operation; the figures of a size share their scale."""
    figures = []
    for mixes in mixes_of(comparison, sections):
        prefix, words = latency_kind(comparison, mixes.section)
        wanted = ("mean", *mixes.section.page.operations.percentiles)
        keys = {
            operation: {s: f"{prefix}_{s}_ns.{operation}" for s in wanted}
            for operation, _ in operations_of(mixes.section)
        }
        bounds = bounds_of(mixes, [key for by_mix in keys.values() for key in by_mix.values()])
        for operation, name in operations_of(mixes.section):
            figure = _figure(mixes, name, words, keys[operation], bounds)
            figures += [figure] if figure is not None else []
    return figures


def bounds_of(mixes: Mixes, keys: Sequence[str]) -> tuple[float, float]:
    """Return the ends of a vertical axis that shows these metrics, and the intervals of means."""
    cells = [cell for _, _, cell in mixes.cells()]
    known = [(key, c.values[key]) for c in cells for key in keys if key in c.values]
    means = [value for key, value in known if "_mean_ns" in key]
    return log_reach([value.estimate for _, value in known], means)


def intervals_of(mixes: Mixes, key: str) -> list[Interval]:
    """Return the means of one metric, with their intervals, for every mix and target."""
    return [cell.values[key] for _, _, cell in mixes.cells() if key in cell.values]


def _figure(
    mixes: Mixes, name: str, words: str, keys: dict[str, str], bounds: tuple[float, float]
) -> Figure | None:
    labels = {STATISTICS[statistic]: key for statistic, key in keys.items()}
    data = times_data(mixes, labels, bounds)
    if not data["dots"]:
        return None
    title = f"{mixes.where(f'{name}s')}: {_title(mixes, keys['mean'], words)}"
    plot = dot_plot(mixes, data, list(labels), bounds, f"{name} {words} (log scale)")
    return mixes.figure(
        name=mixes.name("latency-by-mix", name),
        kind="object_latency",
        title=title,
        shows=f"Markers on a logarithmic scale: {', '.join(labels)} of {name} {words} by mix",
        spec=plot.spec(),
        columns=["mix", "target", *labels],
        rows=[times_row(mix, cell, list(labels.values())) for mix, _, cell in mixes.cells()],
        remark=edge_words(intervals_of(mixes, keys["mean"]), bounds),
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


def _title(mixes: Mixes, key: str, words: str) -> str:
    return times_in_words(mixes, key, "mean") or f"mean and percentiles of the {words}"


def times_in_words(mixes: Mixes, key: str, noun: str) -> str:
    """Return ratios as text: ``HDD’s mean is 20× to 50× SSD’s``; empty without a ratio."""
    rows, parts = [mixes.comparison.row(point) for point in mixes.points], []
    for text, ratios in ratio_clauses(mixes.comparison, rows, key, noun):
        apart = any(ratio.concurrency for ratio in ratios)
        parts.append(f"{text}, {DIFFERENT_CONCURRENCY}" if apart else text)
    return "; ".join(parts)
