"""Bar charts of latency percentiles by mix: a shade per percentile, a colour per target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt

from storlab.analysis.columns import STATISTICS
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures.axis_extent import edge_words, ends_within, log_reach
from storlab.figures.common import latency_kind, operations_of
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, apart_words, in_panels
from storlab.figures.plot import Plot, key_of_shades, logarithmic, series_of
from storlab.model.decision import Interval
from storlab.words.figures import TWO_LINES, ranges_title, ratios_of
from storlab.words.text import interval_text, latency_text

SHADES = {"p50": 0.35, "p90": 0.65, "p99": 1.0}
"""Opacity of the bars of each percentile that is drawn: the further out, the stronger."""
BEHIND = "p99"  # percentile that titles compare


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the percentiles of each operation, with a panel for each object size."""
    figures = []
    for operation, name in operations_of(sections[0]):
        prefix, words = latency_kind(comparison, sections[0], operation)
        keys = {percentile: f"{prefix}_{percentile}_ns.{operation}" for percentile in SHADES}
        figures += _figures(comparison, sections, keys, ("object_percentiles", f"{name} {words}"))
    return figures


def draw_first_byte(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the percentiles of the time to first byte of operations whose response has a body."""
    figures = []
    for operation in sections[0].page.operations.first_byte:
        name = sections[0].page.operations.name_of(operation)
        keys = {percentile: f"ttfb_{percentile}_ns.{operation}" for percentile in SHADES}
        figures += _figures(
            comparison, sections, keys, ("first_byte_percentiles", f"{name} time to first byte")
        )
    return figures


def _figures(
    comparison: Comparison,
    sections: Sequence[Section],
    keys: Mapping[str, str],
    words: tuple[str, str],
) -> list[Figure]:
    own, all_of = partial(_figure, keys=keys, words=words), partial(_title, keys=keys, words=words)
    return in_panels(comparison, sections, own, all_of)


def _figure(mixes: Mixes, keys: Mapping[str, str], words: tuple[str, str]) -> Figure | None:
    kind, name = words
    known = [c.values[key] for _, _, c in mixes.cells() for key in keys.values() if key in c.values]
    if not known:
        return None
    bounds = log_reach([interval.estimate for interval in known], known)
    labels = {STATISTICS[percentile]: key for percentile, key in keys.items()}
    return mixes.figure(
        name=mixes.name(name),
        kind=kind,
        title=_title([mixes], keys, words),
        shows=f"Bars on a logarithmic scale: {', '.join(labels)} of {name} by mix",
        spec=_plot(mixes, keys, name, bounds).spec(mixes.size.width, mixes.size.height),
        columns=["mix", "target", *labels],
        rows=[
            [mix, c.target, *(interval_text(c.values.get(k), latency_text) for k in keys.values())]
            for mix, _, c in mixes.cells()
        ],
        remark=_remark(mixes, keys, known, bounds),
        latencies=True,
    )


def _remark(
    mixes: Mixes, keys: Mapping[str, str], known: Sequence[Interval], bounds: tuple[float, float]
) -> str:
    parts = (apart_words([mixes], keys[BEHIND]), edge_words(known, bounds))
    return "; ".join(part for part in parts if part)


def _title(some: Sequence[Mixes], keys: Mapping[str, str], words: tuple[str, str]) -> str:
    comparison, noun = some[0].comparison, f"{words[1]} {BEHIND}"
    rows = [comparison.row(point) for mixes in some for point in mixes.points]
    ratios = ratios_of(comparison, rows, keys[BEHIND])
    return ranges_title(ratios, comparison.baseline, noun, most=TWO_LINES) or f"{words[1]} by mix"


def _plot(mixes: Mixes, keys: Mapping[str, str], name: str, bounds: tuple[float, float]) -> Plot:
    data = _data(mixes, keys, bounds)
    order = [_bar(percentile, target) for percentile in keys for target in mixes.targets]
    y = logarithmic("value", f"{name} (log scale)", bounds)
    plot = Plot(mixes.x(), y, order, by="bar", gap=0.05)
    tips = {
        "series": "target",
        "x": "mix",
        "statistic": "percentile",
        "text": "time",
        "runs": "runs",
    }
    shade = alt.FillOpacity("shade:Q", scale=None, legend=None)
    floor = alt.Y2Datum(bounds[0])
    plot.bars("bars", data, tips, y2=floor, fillOpacity=shade)
    key_of_shades(plot, "bars", "statistic", {STATISTICS[p]: SHADES[p] for p in keys})
    return plot


def _bar(percentile: str, target: str) -> str:
    return f"{percentile} {target}"


def _data(
    mixes: Mixes, keys: Mapping[str, str], bounds: tuple[float, float]
) -> list[dict[str, Any]]:
    return [
        {
            "x": mix,
            **series_of(cell, index),
            "bar": _bar(percentile, cell.target),
            "statistic": STATISTICS[percentile],
            "shade": SHADES[percentile],
            "value": max(round(interval.estimate), 1),
            **ends_within(interval, bounds),
            "text": interval_text(interval, latency_text),
        }
        for mix, index, cell in mixes.cells()
        for percentile, key in keys.items()
        if (interval := cell.values.get(key)) is not None
    ]
