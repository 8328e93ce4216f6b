"""Figure of a quantity against the swept axis as stacked bars of its components."""

from __future__ import annotations

from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section
from storlab.contracts.figure import StackOverSweep
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
    x_text,
)
from storlab.figures.figure import Figure
from storlab.figures.ratio_text import ratio_words
from storlab.figures.stacks import Stacked, Stacks, stack_chart
from storlab.figures.theme import configured


def stack_figure(
    kind: str, part: StackOverSweep, comparison: Comparison, section: Section, facet: Any
) -> Figure | None:
    """Return the stacked bars along the axis, or None if the total was not measured."""
    column = comparison.column(part.whole)
    if column is None:
        return None
    points, unit = section.of_facet(facet), column.unit
    targets = comparison.planned(points)
    stacks = Stacks([], [], [])
    for point in points:
        for target in targets:
            cell = comparison.row(point).cells[target]
            whole = cell.values.get(part.whole)
            if whole is not None:
                repeats, provenance = cell.repeats(column), provenance_of(cell, column)
                pieces = _pieces(part, cell, whole.estimate)
                x = x_text(section, point)
                stacks.add(comparison, cell, x, pieces, whole, repeats, provenance)
    if not stacks.wholes:
        return None
    axes = Stacked(
        order=[x_text(section, point) for point in points],
        x_title=axis_title(section),
        y_title=f"{part.axis} ({unit})",
        unit=unit,
        parts=stacks.known((part.undivided, *part.keys)),
    )
    title = f"{place_of(section, facet)}: {_title(part, unit, comparison, section, facet)}"
    return Figure(
        name=figure_name(part.name, section, facet),
        kind=kind,
        title=title,
        alt=f"Stacked bars: {part.words}, against {axis_title(section)}. {title}",
        spec=configured(stack_chart(targets, stacks, axes), stacks.datasets(axes.parts)),
        columns=[section.axes.x, "target", *(f"{word} ({unit})" for word in ("run", *part.keys))],
        rows=[
            [
                x_text(section, point),
                target,
                interval_text(comparison.row(point).cells[target].values.get(part.whole)),
                *(_mean(comparison.row(point).cells[target], key) for key in part.keys.values()),
            ]
            for point in points
            for target in targets
        ],
        point_ids=point_ids(comparison, points),
        note=place_of(section, facet),
    )


def _pieces(part: StackOverSweep, cell: Cell, whole: float) -> dict[str, float]:
    """Return the components of the total, or the undivided total if a component is missing."""
    if any(key not in cell.values for key in part.keys.values()):
        return {part.undivided: whole}
    return {word: cell.values[key].estimate for word, key in part.keys.items()}


def _mean(cell: Cell, key: str) -> str:
    interval = cell.values.get(key)
    return MISSING if interval is None else digits3(interval.estimate)


def _title(
    part: StackOverSweep, unit: str, comparison: Comparison, section: Section, facet: Any
) -> str:
    """Return a title with the ratio at the last point and each target's lowest value."""
    point = last_point(comparison, section, facet)
    words = []
    if point is not None:
        parts = ratio_words(comparison, comparison.row(point), part.whole, part.what)
        words = [f"{'; '.join(parts)} at {section.at(point)}"] if parts else []
    least: dict[str, tuple[float, str]] = {}
    for shown in section.of_facet(facet):
        for target, cell in comparison.row(shown).cells.items():
            interval = cell.values.get(part.whole)
            if interval is not None and interval.estimate < least.get(target, (float("inf"),))[0]:
                least[target] = (interval.estimate, section.at(shown))
    lowest = (
        f"{digits3(value)}\u00a0{unit} on {target} with {at}"
        for target, (value, at) in least.items()
    )
    return "; ".join([*words, f"least {part.what}: {', '.join(lowest)}"])
