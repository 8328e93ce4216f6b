"""Figure of the time that each rank or accelerator took, with the slowest marked."""

from __future__ import annotations

from typing import Any

import altair as alt

from storlab.analysis.work_items import Worker, workers_of
from storlab.base.units import format_number
from storlab.contracts.figure import WorkerBars
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import Plot, tooltip
from storlab.figures.theme import colour, shape
from storlab.words.text import interval_text, named, value_text

MOST_PLACES = 32  # most workers labelled individually; beyond this the axis is numeric


def worker_figure(kind: str, wanted: WorkerBars, far: Place) -> Figure | None:
    """Draw the times of ranks or accelerators at one point; None if fewer than two have times."""
    by_target = {
        target: workers_of(cell, wanted.pieces, summed=wanted.summed)
        for target, cell in far.cells.items()
    }
    members = [(target, worker) for target, workers in by_target.items() for worker in workers]
    numbers = {worker.number for _, worker in members}
    if len(numbers) < 2:
        return None
    slowest = [
        (target, max(workers, key=lambda worker: worker.interval.estimate))
        for target, workers in by_target.items()
        if workers
    ]
    data, last = ([_datum(*member) for member in some] for some in (members, slowest))
    text = ", ".join(
        f"{value_text(worker.interval.estimate, 's')} on {named(target)} "
        f"({wanted.worker} {worker.number})"
        for target, worker in slowest
    )
    return far.figure(
        kind=kind,
        name=wanted.name,
        text=f"{wanted.what}: {text}",
        shows=f"Markers: {wanted.title} of each {wanted.worker}, one marker per target",
        spec=_plot(far, len(numbers), wanted, data, last).spec(),
        columns=[wanted.worker, "target", "s, mean [95 %]", "least", "most"],
        rows=[
            [
                str(worker.number),
                target,
                interval_text(worker.interval),
                format_number(worker.least),
                format_number(worker.most),
            ]
            for target, worker in members
        ],
    )


def _datum(target: str, worker: Worker) -> dict[str, Any]:
    return {
        "target": target,
        "number": worker.number,
        "value": float(f"{worker.interval.estimate:.6g}"),
        "low": float(f"{worker.least:.6g}"),
        "high": float(f"{worker.most:.6g}"),
        "text": interval_text(worker.interval),
    }


def _plot(
    far: Place,
    count: int,
    wanted: WorkerBars,
    data: list[dict[str, Any]],
    last: list[dict[str, Any]],
) -> Plot:
    targets, every = far.targets, far.comparison.targets
    is_few = count <= MOST_PLACES
    x = (
        alt.X("number:O", title=wanted.worker, axis=alt.Axis(labelOverlap=True))
        if is_few
        else alt.X("number:Q", title=wanted.worker, scale=alt.Scale(nice=False, zero=False))
    )
    y = alt.Y(
        "value:Q",
        title=wanted.title,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    plot = Plot(x, y, targets if is_few else (), gap=0)
    colours = colour(every, targets)
    plot.source("workers", data)
    plot.intervals("workers", colours, 1.6)
    tips = tooltip({"target": "target", "number": wanted.worker, "text": "s, mean [95 %]"})
    plot.markers("workers", colours, shape(every, targets), tips, 46)
    plot.rings("slowest", last)
    return plot
