"""Figure of the times of ranks or accelerators side by side, with the slowest marked."""

from __future__ import annotations

from typing import Any

import altair as alt

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.work_items import Worker, workers_of
from storlab.contracts.figure import WorkerBars
from storlab.figures.common import digits3, figure_name, interval_text, place_at, point_ids
from storlab.figures.figure import Figure
from storlab.figures.theme import HEIGHT, WIDTH, colour, configured, role, shape

MOST_PLACES = 32  # most workers labelled individually; beyond this the axis is numeric


def crew_figure(
    kind: str,
    crew: WorkerBars,
    comparison: Comparison,
    section: Section,
    facet: Any,
    point: WorkloadPoint,
) -> Figure | None:
    """Return the figure, or None if fewer than two ranks or accelerators reported times."""
    cells = comparison.row(point).cells
    targets = comparison.planned([point])
    crews = {t: workers_of(cells[t], crew.pieces, summed=crew.summed) for t in targets}
    data = [_datum(target, worker) for target in targets for worker in crews[target]]
    numbers = sorted({datum["number"] for datum in data})
    if len(numbers) < 2:
        return None
    slowest = {
        target: max(workers, key=lambda worker: worker.interval.estimate)
        for target, workers in crews.items()
        if workers
    }
    last = [_datum(target, worker) for target, worker in slowest.items()]
    where = place_at(section, facet, point)
    text = "; ".join(
        f"{crew.worker} {worker.number} on {target}, {digits3(worker.interval.estimate)}\u00a0s"
        for target, worker in slowest.items()
    )
    title = f"{where}: {crew.what} of {len(numbers)} is {text}"
    return Figure(
        name=figure_name(crew.name, section, facet),
        kind=kind,
        title=title,
        alt=f"Markers: {crew.title} of each {crew.worker}, one marker per target. {title}",
        spec=configured(
            _chart(comparison, targets, numbers, crew), {"workers": data, "slowest": last}
        ),
        columns=[crew.worker, "target", "s, mean [95 %]", "least", "most"],
        rows=[
            [
                str(worker.number),
                target,
                interval_text(worker.interval),
                digits3(worker.least),
                digits3(worker.most),
            ]
            for target in targets
            for worker in crews[target]
        ],
        point_ids=point_ids(comparison, [point]),
        note=where,
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


def _chart(
    comparison: Comparison, targets: list[str], numbers: list[int], crew: WorkerBars
) -> alt.TopLevelMixin:
    colours = colour(comparison.targets, targets)
    place: dict[str, Any] = {
        "x": alt.X("number:Q", title=crew.worker, scale=alt.Scale(nice=False, zero=False))
    }
    if len(numbers) <= MOST_PLACES:
        place = {
            "x": alt.X("number:O", title=crew.worker, axis=alt.Axis(labelOverlap=True)),
            "xOffset": alt.XOffset(
                "target:N", sort=targets, bandPosition=0.5, scale=alt.Scale(domain=targets)
            ),
        }
    y = alt.Y(
        "value:Q",
        title=crew.title,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    tooltip = [
        alt.Tooltip("target:N"),
        alt.Tooltip("number:N", title=crew.worker),
        alt.Tooltip("text:N", title="s, mean [95 %]"),
    ]
    base = alt.Chart(alt.NamedData("workers"))
    ring = alt.Chart(alt.NamedData("slowest")).mark_point(
        size=190, strokeWidth=1.5, filled=False, shape="circle", color=role("fig-ink")
    )
    chart: alt.TopLevelMixin = alt.layer(
        base.mark_rule(strokeWidth=1.6).encode(**place, y=alt.Y("low:Q"), y2="high:Q",
                                               color=colours),
        base.mark_point(size=46, filled=True, opacity=1).encode(
            **place, y=y, color=colours, shape=shape(comparison.targets, targets), tooltip=tooltip
        ),
        ring.encode(**place, y=alt.Y("value:Q")),
    ).properties(width=WIDTH, height=HEIGHT)  # fmt: skip
    return chart
