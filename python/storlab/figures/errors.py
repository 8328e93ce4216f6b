"""Figure of failed requests by kind of error, target and mix; drawn only if any failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, mixes_of
from storlab.figures.plot import fill, series_of, tooltip
from storlab.figures.theme import SMALL_PX, WIDTH, configured, role
from storlab.words.text import named, percent

MOST_ROWS = 16  # rows drawn, of the most frequent errors; the figure's table lists all
ROW_HEIGHT = 20


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each block size (or other facet) at which any request failed."""
    figures = (_figure(mixes) for mixes in mixes_of(comparison, sections))
    return [figure for figure in figures if figure is not None]


def _figure(mixes: Mixes) -> Figure | None:
    data = _data(mixes)
    if not data:
        return None
    shown = sorted(data, key=lambda d: -float(d["share"]))[:MOST_ROWS]
    order = list(dict.fromkeys(d["label"] for d in data if d in shown))
    bars = [d for d in data if d in shown]
    left = f", the {MOST_ROWS} most frequent of {len(data)}" if len(data) > len(bars) else ""
    title = f"Failed requests: {_title(mixes)}{left}"
    return mixes.figure(
        kind="errors",
        name=mixes.name("errors"),
        title=title,
        shows="Bar chart of the share of requests that failed, by mix, operation and kind",
        spec=configured(_chart(mixes, bars, order), {"bars": bars}, beside=order),
        columns=["mix", "target", "operation", "kind", "failed", "of its requests"],
        rows=[
            [d["x"], d["target"], d["operation"], d["kind"], f"{d['count']:,}", d["percent"]]
            for d in data
        ],
    )


def _data(mixes: Mixes) -> list[dict[str, Any]]:
    page, data = mixes.section.page, []
    for mix, index, cell in mixes.cells():
        totals = [run.record.totals for run in cell.runs]
        for operation, kinds in cell.errors.items():
            done = sum(t[operation].operations for t in totals if operation in t)
            every = done + sum(kinds.values())
            name = page.operations.name_of(operation)
            for kind, count in kinds.items():
                share = percent(count / every)
                data.append(
                    {
                        "x": mix,
                        **series_of(cell, index),
                        "operation": name,
                        "kind": kind,
                        "label": f"{mix}, {name}: {kind}",
                        "count": count,
                        "share": 100 * count / every,
                        "percent": share,
                        "text": f"{count:,} ({share})",
                    }
                )
    return data


def _chart(mixes: Mixes, bars: list[dict[str, Any]], labels: list[str]) -> alt.TopLevelMixin:
    top = max(float(d["share"]) for d in bars) * 1.35
    targets = [t for t in mixes.targets if any(d["target"] == t for d in bars)]
    y = alt.Y(
        "label:N", sort=labels, title=None, axis=alt.Axis(labelLimit=230, labelFontSize=SMALL_PX)
    )
    offset = alt.YOffset("target:N", sort=targets, scale=alt.Scale(domain=targets))
    x = alt.X(
        "share:Q",
        title="failed, % of its requests",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format="~g", tickCount=5, grid=True),
    )
    words = {
        "series": "target",
        "x": "mix",
        "operation": "operation",
        "kind": "kind",
        "text": "failed",
        "runs": "runs",
    }
    base = alt.Chart(alt.NamedData("bars"))
    height = max(ROW_HEIGHT * len(labels) * max(len(targets), 1), 60)
    middle = alt.YOffset(
        "target:N", sort=targets, bandPosition=0.5, scale=alt.Scale(domain=targets)
    )
    layers = [
        base.mark_bar(height={"band": 0.8}).encode(
            x=x, y=y, yOffset=offset, fill=fill(bars), tooltip=tooltip(words)
        ),
        base.mark_text(align="left", dx=5, color=role("fig-ink")).encode(
            x=alt.X("share:Q"), y=y, yOffset=middle, text="text:N"
        ),
    ]
    return alt.layer(*layers).properties(width=WIDTH - 140, height=height)


def _title(mixes: Mixes) -> str:
    parts = []
    for target in mixes.targets:
        cells = [cell for _, _, cell in mixes.cells() if cell.target == target]
        failed = sum(n for cell in cells for kinds in cell.errors.values() for n in kinds.values())
        work = mixes.section.page.operations.main
        done = sum(
            totals.operations
            for cell in cells
            for run in cell.runs
            for operation, totals in run.record.totals.items()
            if operation in work
        )
        if failed:
            share = percent(failed / (failed + done))
            parts.append(f"{failed:,} of {failed + done:,} ({share}) on {named(target)}")
        elif cells:
            parts.append(f"none on {named(target)}")
    return "; ".join(parts)
