"""Figure of the time that each checkpoint of a run took, in order."""

from __future__ import annotations

from typing import Any

import altair as alt

from storlab.analysis.compare import Cell
from storlab.analysis.work_items import cell_work_items, work_items_of
from storlab.base.units import format_number
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import Plot, linear
from storlab.figures.theme import colour, shape
from storlab.words.text import named

FEWEST = 2  # checkpoints of a run that this figure needs
MOST = 400


def draw(far: Place) -> Figure | None:
    """Draw the times of checkpoints at one point; None if no run wrote two checkpoints."""
    cells = list(far.cells.values())
    data = [datum for cell in cells for datum in _data(cell)]
    if len({datum["number"] for datum in data}) < FEWEST:
        return None
    return far.figure(
        kind="checkpoint_time",
        name="checkpoint-by-checkpoint",
        text=_title(data),
        shows="Markers: time of each checkpoint of each run",
        spec=_plot(far.comparison.targets, far.targets, data).spec(),
        columns=["checkpoint", "target", "s, each repeat"],
        rows=[
            [str(number), cell.target, ", ".join(_digits(p.values["stop_s"] for p in pieces))]
            for cell in cells
            for number, pieces in list(cell_work_items(cell, "write").items())[:MOST]
        ],
    )


def _digits(values: Any) -> list[str]:
    return [format_number(value) for value in values]


def _data(cell: Cell) -> list[dict[str, Any]]:
    return [
        {
            "target": cell.target,
            "repeat": run.record.repeat,
            "run": run.record.run_id,
            "number": piece.number,
            "value": float(f"{piece.values['stop_s']:.6g}"),
        }
        for run in cell.runs
        for piece in work_items_of(run)
        if piece.kind == "write" and piece.number <= MOST
    ]


def _plot(every: list[str], targets: list[str], data: list[dict[str, Any]]) -> Plot:
    last = max(d["number"] for d in data)
    x = alt.X(
        "number:Q",
        title="checkpoint of a run",
        scale=alt.Scale(domain=[0.5, last + 0.5], nice=False),
        axis=alt.Axis(format="d", tickMinStep=1, tickCount=min(last, 10)),
    )
    y = linear("value", "time of a checkpoint (s)", 1.1 * max(d["value"] for d in data))
    plot, colours = Plot(x, y), colour(every, targets)
    line = plot.source("checkpoints", data).mark_line(strokeWidth=1.2, opacity=1)
    plot.add(line, y=y, color=colours, detail="run:N")
    tips = [
        alt.Tooltip("target:N"),
        alt.Tooltip("repeat:N"),
        alt.Tooltip("number:N", title="checkpoint"),
        alt.Tooltip("value:Q", title="s"),
    ]
    plot.markers("checkpoints", colours, shape(every, targets), tips, 40)
    return plot


def _title(data: list[dict[str, Any]]) -> str:
    parts = []
    for target in dict.fromkeys(d["target"] for d in data):
        values = [d["value"] for d in data if d["target"] == target]
        ends = f"{format_number(min(values))} to {format_number(max(values))}\u00a0s"
        parts.append(f"{ends} on {named(target)}")
    return f"single checkpoints took {', '.join(parts)}"
