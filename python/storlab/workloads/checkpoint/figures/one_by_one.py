"""Figure with the time of every checkpoint of each run, in order."""

from __future__ import annotations

from typing import Any

import altair as alt

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.work_items import cell_work_items, work_items_of
from storlab.figures.common import digits3, figure_name, place_at, point_ids
from storlab.figures.figure import Figure
from storlab.figures.theme import HEIGHT, WIDTH, colour, configured, shape

FEWEST = 2  # checkpoints of a run that this figure needs
MOST = 400


def draw(
    comparison: Comparison, section: Section, facet: Any, point: WorkloadPoint
) -> Figure | None:
    """Draw the figure; return None if no run has two checkpoints."""
    targets = comparison.planned([point])
    cells = [comparison.row(point).cells[target] for target in targets]
    data = [datum for cell in cells for datum in _data(cell)]
    if len({datum["number"] for datum in data}) < FEWEST:
        return None
    where = place_at(section, facet, point)
    title = f"{where}: {_title(data)}"
    return Figure(
        name=figure_name("checkpoint-by-checkpoint", section, facet),
        kind="checkpoint_time",
        title=title,
        alt=f"Markers: time of each checkpoint of each run. {title}",
        spec=configured(_chart(comparison, targets, data), {"checkpoints": data}),
        columns=["checkpoint", "target", "s, each repeat"],
        rows=[
            [str(number), cell.target, ", ".join(_digits(p.values["stop_s"] for p in pieces))]
            for cell in cells
            for number, pieces in list(cell_work_items(cell, "write").items())[:MOST]
        ],
        point_ids=point_ids(comparison, [point]),
        note=where,
    )


def _digits(values: Any) -> list[str]:
    return [digits3(value) for value in values]


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


def _chart(
    comparison: Comparison, targets: list[str], data: list[dict[str, Any]]
) -> alt.TopLevelMixin:
    colours = colour(comparison.targets, targets)
    last = max(d["number"] for d in data)
    x = alt.X(
        "number:Q",
        title="checkpoint of a run",
        scale=alt.Scale(domain=[0.5, last + 0.5], nice=False),
        axis=alt.Axis(format="d", tickMinStep=1, tickCount=min(last, 10)),
    )
    y = alt.Y(
        "value:Q",
        title="time of a checkpoint (s)",
        scale=alt.Scale(domain=[0, 1.1 * max(d["value"] for d in data)], nice=False),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    tooltip = [
        alt.Tooltip("target:N"),
        alt.Tooltip("repeat:N"),
        alt.Tooltip("number:N", title="checkpoint"),
        alt.Tooltip("value:Q", title="s"),
    ]
    base = alt.Chart(alt.NamedData("checkpoints")).encode(x=x, y=y)
    chart: alt.TopLevelMixin = alt.layer(
        base.mark_line(strokeWidth=1.2, opacity=1).encode(color=colours, detail="run:N"),
        base.mark_point(size=40, filled=True, opacity=1).encode(
            color=colours, shape=shape(comparison.targets, targets), tooltip=tooltip
        ),
    ).properties(width=WIDTH, height=HEIGHT)
    return chart


def _title(data: list[dict[str, Any]]) -> str:
    parts = []
    for target in dict.fromkeys(d["target"] for d in data):
        values = [d["value"] for d in data if d["target"] == target]
        parts.append(f"{digits3(min(values))} to {digits3(max(values))}\u00a0s on {target}")
    return f"single checkpoints took {', '.join(parts)}"
