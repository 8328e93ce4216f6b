"""Energy of preprocessing against the swept axis, stage by stage."""

from __future__ import annotations

from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.figures.bars import provenance_of
from storlab.figures.common import (
    MISSING,
    axis_title,
    digits3,
    figure_name,
    interval_text,
    last_point,
    place_of,
    point_ids,
    ratio_words,
    x_text,
)
from storlab.figures.figure import Figure
from storlab.figures.stacks import Stacked, Stacks, stack_chart
from storlab.figures.theme import configured
from storlab.workloads.preprocess.job import STAGES

ENERGY = "energy_wh.all"
RUN = "the whole run"  # where stages are too short for the meter


def draw(
    comparison: Comparison, section: Section, facet: Any, _far: WorkloadPoint
) -> Figure | None:
    """Stacks along the axis; None without power."""
    column = comparison.column(ENERGY)
    if column is None:
        return None
    points = section.of_facet(facet)
    targets = comparison.planned(points)
    stacks = Stacks([], [], [])
    for point in points:
        for target in targets:
            cell = comparison.row(point).cells[target]
            whole = cell.values.get(ENERGY)
            if whole is not None:
                repeats, provenance = cell.repeats(column), provenance_of(cell, column)
                pieces = _pieces(cell, whole.estimate)
                x = x_text(section, point)
                stacks.add(comparison, cell, x, pieces, whole, repeats, provenance)
    if not stacks.wholes:
        return None
    axes = Stacked(
        order=[x_text(section, point) for point in points],
        x_title=axis_title(section),
        y_title="energy of the run (Wh)",
        unit="Wh",
        parts=stacks.known((RUN, *STAGES)),
    )
    title = f"{place_of(section, facet)}: {_said(comparison, section, facet)}"
    return Figure(
        name=figure_name("energy", section, facet),
        kind="preprocess_energy",
        title=title,
        alt=f"Stacked bars: energy of a run in Wh by stage, against {axis_title(section)}. {title}",
        spec=configured(stack_chart(targets, stacks, axes), stacks.datasets(axes.parts)),
        columns=[section.axes.x, "target", "run (Wh)", *(f"{s} (Wh)" for s in STAGES)],
        rows=[
            [
                x_text(section, point),
                target,
                interval_text(comparison.row(point).cells[target].values.get(ENERGY)),
                *(_stage(comparison.row(point).cells[target], stage) for stage in STAGES),
            ]
            for point in points
            for target in targets
        ],
        point_ids=point_ids(comparison, points),
        note=place_of(section, facet),
    )


def _pieces(cell: Cell, whole_wh: float) -> dict[str, float]:
    """Of the stages; of the run alone where any stage is too short to have an energy."""
    keys = {stage: f"span_energy_wh.{stage}" for stage in STAGES}
    if any(key not in cell.values for key in keys.values()):
        return {RUN: whole_wh}
    return {stage: cell.values[key].estimate for stage, key in keys.items()}


def _stage(cell: Cell, stage: str) -> str:
    interval = cell.values.get(f"span_energy_wh.{stage}")
    return MISSING if interval is None else digits3(interval.estimate)


def _said(comparison: Comparison, section: Section, facet: Any) -> str:
    """The ratio at the far end, and where each target takes the least energy."""
    point = last_point(comparison, section, facet)
    parts = [] if point is None else ratio_words(comparison, comparison.row(point), ENERGY)
    said = [f"energy: {'; '.join(parts)} at {section.at(point)}"] if parts and point else []
    least: dict[str, tuple[float, str]] = {}
    for each in section.of_facet(facet):
        for target, cell in comparison.row(each).cells.items():
            interval = cell.values.get(ENERGY)
            if interval is not None and interval.estimate < least.get(target, (float("inf"),))[0]:
                least[target] = (interval.estimate, section.at(each))
    lowest = (
        f"{digits3(value)}\u00a0Wh on {target} with {at}" for target, (value, at) in least.items()
    )
    return "; ".join([*said, f"least energy: {', '.join(lowest)}"])
