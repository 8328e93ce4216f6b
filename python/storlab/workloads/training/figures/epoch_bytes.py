"""Figure of the bytes that the device read in each epoch, relative to the bytes read from files.

A value far below 100 % shows that a cache served the rest.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from storlab.analysis.compare import Cell
from storlab.analysis.work_items import cell_work_items, interval_of
from storlab.base.units import format_number
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import Plot, Rule, groups, linear, series_of
from storlab.words.text import named

MOST_EPOCHS = 40


def draw(far: Place) -> Figure | None:
    """Draw a bar for each epoch at one point; None if bytes of the device were not counted."""
    order = far.comparison.targets
    data = [d for cell in far.cells.values() for d in _data(cell, order.index(cell.target))]
    if not data:
        return None
    return far.figure(
        kind="epoch_bytes",
        name="epoch-bytes",
        text=_title(data, far.targets),
        shows="Bars: bytes that the device read over bytes that were read of files, by epoch",
        spec=_plot(far.targets, data).spec(),
        columns=["epoch", "target", "files (MB)", "device (MB)", "device / files (%)"],
        rows=[
            [str(d["epoch"]), d["target"], d["files"], d["device"], d["text"]]
            for d in sorted(data, key=lambda d: d["epoch"])
        ],
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
                **series_of(cell, index),
                "epoch": number,
                "share": float(f"{share.estimate:.4g}"),
                "files": format_number(files.estimate),
                "device": format_number(device.estimate),
                "label": format_number(share.estimate),
                "text": format_number(share.estimate),
            }
        )
    return records


def _plot(targets: list[str], data: list[dict[str, Any]]) -> Plot:
    top = max(112.0, 1.12 * max(d["share"] for d in data))
    y = linear("share", "device / files (%)", top, form=",d")
    order = sorted({d["epoch"] for d in data})
    plot = Plot(groups(order, "epoch", alt.Axis(), "epoch"), y, targets)
    words = {
        "target": "target",
        "epoch": "epoch",
        "files": "MB of files",
        "device": "MB of the device",
        "text": "device / files (%)",
    }
    plot.bars("epochs", data, words)
    plot.labels("epochs", at="share")
    plot.rule(Rule(100.0, ""))
    return plot


def _title(data: list[dict[str, Any]], targets: list[str]) -> str:
    parts = []
    counted = list(dict.fromkeys(d["target"] for d in data))
    for target in counted:
        later = [d for d in data if d["target"] == target and d["epoch"] > 1] or [
            d for d in data if d["target"] == target
        ]
        least = min(later, key=lambda d: d["share"])
        parts.append(f"at least {least['text']}\u00a0% on {named(target)}")
    after = " after the first epoch" if any(d["epoch"] > 1 for d in data) else ""
    parts += [f"not counted on {named(target)}" for target in targets if target not in counted]
    return f"read from the device{after}: {', '.join(parts)}"
