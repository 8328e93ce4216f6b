"""Figure of the bytes that the device read in each epoch, relative to the bytes read of files.

A value far below 100 % shows that a cache served the rest.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.work_items import cell_work_items, interval_of
from storlab.figures.common import digits3, figure_name, place_at, point_ids
from storlab.figures.figure import Figure
from storlab.figures.lines import Rule, rule_layers
from storlab.figures.mixes import fill
from storlab.figures.theme import HEIGHT, WIDTH, configured, fill_of, role

MOST_EPOCHS = 40


def draw(
    comparison: Comparison, section: Section, facet: Any, point: WorkloadPoint
) -> Figure | None:
    """Draw bars of every epoch at a point; return None if the device was not counted."""
    targets = comparison.planned([point])
    cells = [comparison.row(point).cells[target] for target in targets]
    data = [datum for cell in cells for datum in _data(cell, comparison.targets.index(cell.target))]
    if not data:
        return None
    where = place_at(section, facet, point)
    title = f"{where}: {_title(data, targets)}"
    return Figure(
        name=figure_name("epoch-bytes", section, facet),
        kind="epoch_bytes",
        title=title,
        alt=f"Bars: bytes that the device read over bytes that were read of files, by epoch. "
        f"{title}",
        spec=configured(_chart(targets, data), {"epochs": data}),
        columns=["epoch", "target", "files (MB)", "device (MB)", "device / files (%)"],
        rows=[
            [str(d["epoch"]), d["target"], d["files"], d["device"], d["text"]]
            for d in sorted(data, key=lambda d: d["epoch"])
        ],
        point_ids=point_ids(comparison, [point]),
        note=where,
    )


def _data(cell: Cell, index: int) -> list[dict[str, Any]]:
    records = []
    for number, pieces in list(cell_work_items(cell, "epoch").items())[:MOST_EPOCHS]:
        share, device, files = (
            interval_of(pieces, name) for name in ("device_percent", "device_mb", "read_mb")
        )
        if share is None or device is None or files is None:
            continue
        records.append(
            {
                "target": cell.target,
                "series": cell.target,
                "fill": fill_of(index, cell.provenance),
                "epoch": number,
                "share": float(f"{share.estimate:.4g}"),
                "files": digits3(files.estimate),
                "device": digits3(device.estimate),
                "text": digits3(share.estimate),
            }
        )
    return records


def _chart(targets: list[str], data: list[dict[str, Any]]) -> alt.TopLevelMixin:
    top = max(112.0, 1.12 * max(d["share"] for d in data))
    scale = alt.Scale(domain=targets, paddingInner=0.1)
    x = alt.X("epoch:O", title="epoch", scale=alt.Scale(paddingInner=0.24, paddingOuter=0.14))
    y = alt.Y(
        "share:Q",
        title="device / files (%)",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format=",d", tickCount=6),
    )
    base = alt.Chart(alt.NamedData("epochs"))
    bars = base.mark_bar().encode(
        x=x,
        xOffset=alt.XOffset("target:N", sort=targets, scale=scale),
        y=y,
        fill=fill(data),
        tooltip=[
            alt.Tooltip("target:N"),
            alt.Tooltip("epoch:N"),
            alt.Tooltip("files:N", title="MB of files"),
            alt.Tooltip("device:N", title="MB of the device"),
            alt.Tooltip("text:N", title="device / files (%)"),
        ],
    )
    layers = [bars]
    if len(data) <= 12:
        text = base.mark_text(dy=-5, baseline="bottom", color=role("fig-ink"))
        centred = alt.XOffset("target:N", sort=targets, bandPosition=0.5, scale=scale)
        layers.append(text.encode(x=x, xOffset=centred, y=y, text="text:N"))
    drawn: alt.TopLevelMixin = alt.layer(*layers, *rule_layers(Rule(100.0, ""))).properties(
        width=WIDTH, height=HEIGHT
    )
    return drawn


def _title(data: list[dict[str, Any]], targets: list[str]) -> str:
    parts = []
    counted = list(dict.fromkeys(d["target"] for d in data))
    for target in counted:
        later = [d for d in data if d["target"] == target and d["epoch"] > 1] or [
            d for d in data if d["target"] == target
        ]
        least = min(later, key=lambda d: d["share"])
        parts.append(f"at least {least['text']}\u00a0% on {target}")
    after = " after the first epoch" if any(d["epoch"] > 1 for d in data) else ""
    parts += [f"on {target} nobody counted" for target in targets if target not in counted]
    return f"of what was read{after} the device read {', '.join(parts)}"
