"""Figure of the time of each stage, with the shares of workers on CPU and waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.figures.bars import provenance_of
from storlab.figures.common import MISSING, digits3, figure_name, interval_text, place_at, point_ids
from storlab.figures.figure import Figure
from storlab.figures.stacks import Stacked, Stacks, stack_chart
from storlab.figures.theme import configured
from storlab.workloads.preprocess.job import STAGES

TIME, BUSY = "completion_time_s", "worker_busy_percent"
ON_CPU, WAITING, UNKNOWN = "workers on CPU", "workers waiting", "not known"
PARTS = (ON_CPU, UNKNOWN, WAITING)


def draw(
    comparison: Comparison, section: Section, facet: Any, point: WorkloadPoint
) -> Figure | None:
    """Draw stacks of every stage at a point; return None if no stage was timed."""
    targets = comparison.planned([point])
    cells = [comparison.row(point).cells[target] for target in targets]
    stacks = Stacks([], [], [])
    for stage in STAGES:
        column = comparison.column(f"{TIME}.{stage}")
        if column is None:
            continue
        for cell in cells:
            whole = cell.values.get(column.key)
            if whole is not None:
                pieces = _pieces(cell, stage, whole.estimate)
                repeats, provenance = cell.repeats(column), provenance_of(cell, column)
                stacks.add(comparison, cell, stage, pieces, whole, repeats, provenance)
    if not stacks.wholes:
        return None
    where = place_at(section, facet, point)
    title = f"{where}: {_title(cells)}"
    axes = Stacked(
        order=list(STAGES),
        x_title="",
        y_title="time (s)",
        unit="s",
        parts=stacks.known(PARTS),
    )
    return Figure(
        name=figure_name("stages", section, facet),
        kind="preprocess_stages",
        title=title,
        alt=f"Stacked bars: time of each stage in s, of which workers were on CPU or waited. "
        f"{title}",
        spec=configured(stack_chart(targets, stacks, axes), stacks.datasets(axes.parts)),
        columns=["stage", "target", "s, mean [95 %]", "workers on CPU (%)", "device (MB/s)"],
        rows=[
            [
                stage,
                cell.target,
                interval_text(cell.values.get(f"{TIME}.{stage}")),
                *(_mean(cell, f"{name}.{stage}") for name in (BUSY, "device_mb_s")),
            ]
            for stage in STAGES
            for cell in cells
        ],
        point_ids=point_ids(comparison, [point]),
        note=where,
    )


def _pieces(cell: Cell, stage: str, time_s: float) -> dict[str, float]:
    busy = cell.values.get(f"{BUSY}.{stage}")
    if busy is None:
        return {UNKNOWN: time_s}
    computed = time_s * min(busy.estimate, 100.0) / 100
    return {ON_CPU: computed, WAITING: time_s - computed}


def _mean(cell: Cell, key: str) -> str:
    interval = cell.values.get(key)
    return MISSING if interval is None else digits3(interval.estimate)


def _title(cells: Sequence[Cell]) -> str:
    """Return a title with the stage of each target whose workers wait most."""
    parts = []
    for cell in cells:
        shares = {
            stage: cell.values[key].estimate
            for stage in STAGES
            if (key := f"{BUSY}.{stage}") in cell.values
        }
        if shares:
            least = min(shares, key=lambda stage: shares[stage])
            parts.append(f"{least} on {cell.target}, {digits3(shares[least])}\u00a0% on CPU")
    if not parts:
        times = (f"{_mean(cell, f'{TIME}.all')}\u00a0s on {cell.target}" for cell in cells)
        return f"all stages took {', '.join(times)}"
    return f"the stage whose workers wait most is {'; '.join(parts)}"
