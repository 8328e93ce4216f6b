"""Figures of accelerator utilisation: over the number of accelerators, and by its definitions."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.points import WorkloadPoint
from storlab.contracts.figure import Bars
from storlab.figures.bars import Frame, bar_figure
from storlab.figures.figure import Figure, Place
from storlab.figures.over_sweep import Lines, Look
from storlab.figures.plot import Rule
from storlab.workloads.training.capacity_answer import KEY, largest, threshold_percent, title

KIND = "au_vs_accelerators"
FULL = 104.0  # end of the axis: 100 %, with room for the markers
DEFINITIONS = Bars(
    "utilisation",
    {
        "without the|first step": KEY,
        "with the|first step": "au_with_first_percent.all",
        "with configured|compute time": "au_configured_percent.all",
    },
    name="utilisation",
    axis="utilisation (%), emulated",
)


def draw_definitions(far: Place) -> Figure | None:
    """Draw a bar for the utilisation at one point by each of its definitions."""
    if far.comparison.column(KEY) is None:
        return None
    rule = threshold(far.comparison, far.points)
    frame = Frame(
        rules=[Rule(rule.value, "")] if rule else [],
        below="" if rule is None else f"dotted: {rule.text}",
        most=118.0,
    )
    return bar_figure(KIND, DEFINITIONS, far, frame)


def draw_swept(far: Place) -> Figure | None:
    """Draw utilisation against the number of accelerators; None if it was not measured."""
    comparison, section = far.comparison, far.section
    column = comparison.column(KEY)
    if column is None:
        return None
    lines = Lines.of(comparison, section, far.facet, column)
    points = lines.place.points
    rule = threshold(comparison, points)
    asked = None if rule is None else rule.value
    kept = largest(comparison, section, points, asked)
    look = Look(
        kind=KIND,
        name="utilisation-by-accelerators",
        words="accelerator utilisation in percent",
        y_title="utilisation (%), emulated",
        unit="%",
        value="AU in %",
        head="AU, %",
        bounds=(0, FULL),
        rules=[rule] if rule else [],
        rings=lines.at({target: number.place for target, number in kept.items()}),
    )
    return lines.figure(look, title(kept))


def threshold(comparison: Comparison, points: Sequence[WorkloadPoint]) -> Rule | None:
    """Return a line at the required utilisation; None if points differ in it."""
    asked = threshold_percent(comparison, points)
    return None if asked is None else Rule(asked, f"{asked:g} % asked for")
