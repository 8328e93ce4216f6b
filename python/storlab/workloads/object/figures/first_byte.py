"""Figure of the time to first byte by mix, beside the time of the whole request."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.columns import STATISTICS
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures.axis_extent import edge_words
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, dot_plot, mixes_of
from storlab.workloads.object.figures.latency import (
    bounds_of,
    intervals_of,
    times_data,
    times_in_words,
    times_row,
)

SHOWN = ("mean", "p50", "p90", "p99")


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each object size and each operation whose response has a body."""
    figures = (
        _figure(mixes, operation)
        for mixes in mixes_of(comparison, sections)
        for operation in mixes.section.page.operations.first_byte
    )
    return [figure for figure in figures if figure is not None]


def _figure(mixes: Mixes, operation: str) -> Figure | None:
    name = mixes.section.page.operations.name_of(operation)
    labels = {f"{STATISTICS[s]}": f"ttfb_{s}_ns.{operation}" for s in SHOWN}
    if mixes.comparison.column(labels["mean"]) is None:
        return None
    labels[f"whole {name}, mean"] = f"latency_mean_ns.{operation}"
    bounds = bounds_of(mixes, list(labels.values()))
    data = times_data(mixes, labels, bounds)
    if not data["dots"]:
        return None
    text = times_in_words(mixes, labels["mean"], "mean time to first byte")
    title = f"{name}s: {text or 'time to first byte, mean and percentiles'}"
    plot = dot_plot(mixes, data, list(labels), bounds, f"{name} time to first byte (log scale)")
    return mixes.figure(
        name=mixes.name("first-byte", name),
        kind="ttfb_bars",
        title=title,
        shows=f"Markers on a logarithmic scale: time to first byte of {name}s by mix, and the mean "
        f"time of a whole {name}",
        spec=plot.spec(),
        columns=["mix", "target", *labels],
        rows=[times_row(mix, cell, list(labels.values())) for mix, _, cell in mixes.cells()],
        remark=edge_words(intervals_of(mixes, labels["mean"]), bounds),
        latencies=True,
    )
