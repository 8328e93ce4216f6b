"""Utilisation of emulated accelerators: against their number, and by definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.capacity_file import Found, searches
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.contracts.figure import Bars
from storlab.figures.bars import Frame, bar_figure
from storlab.figures.common import x_text
from storlab.figures.figure import Figure
from storlab.figures.lines import Rule, ring_layer
from storlab.figures.over_sweep import Lines, Look

KIND = "au_vs_accelerators"
KEY = "au_percent.all"
ASKED = "au_threshold_percent.all"
NUMBER = "accelerators"
FULL = 104.0  # end of the axis: 100 % with room for the markers
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


def draw_definitions(
    comparison: Comparison, section: Section, facet: Any, point: WorkloadPoint
) -> Figure | None:
    """By definition of a utilisation, at this point."""
    if comparison.column(KEY) is None:
        return None
    rule = threshold(comparison, [point])
    frame = Frame(
        rules=[Rule(rule.value, "")] if rule else [],
        below="" if rule is None else f"dotted: {rule.text}",
        most=118.0,
    )
    return bar_figure(KIND, DEFINITIONS, comparison, section, facet, point, frame)


def threshold(comparison: Comparison, points: Sequence[WorkloadPoint]) -> Rule | None:
    """What the profile asks for; None where the points do not agree."""
    cells = [cell for point in points for cell in comparison.row(point).cells.values()]
    values = {cell.values[ASKED].estimate for cell in cells if ASKED in cell.values}
    if len(values) != 1:
        return None
    value = values.pop()
    return Rule(value, f"{value:g} % asked for")


def draw_swept(
    comparison: Comparison, section: Section, facet: Any, _far: WorkloadPoint
) -> Figure | None:
    """Against the number of accelerators."""
    column = comparison.column(KEY)
    if column is None:
        return None
    lines = Lines.of(comparison, section, facet, column)
    rule = threshold(comparison, lines.points)
    largest = _largest(comparison, section, lines.points, rule)
    rings = [m for m in lines.means if m["x"] == largest.get(m["target"], ("", ""))[0]]
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
        above=[ring_layer(lines.order)] if rings else [],
        data={"rings": rings},
    )
    return lines.figure(look, _title(rule, largest))


def kept_busy(comparison: Comparison, section: Section, facet: Any) -> str:
    """How many accelerators each target keeps busy, as the figure says; empty where it does not."""
    points = section.of_facet(facet)
    rule = threshold(comparison, points)
    largest = _largest(comparison, section, points, rule)
    return _title(rule, largest) if rule is not None and largest else ""


def _largest(
    comparison: Comparison, section: Section, points: Sequence[WorkloadPoint], rule: Rule | None
) -> dict[str, tuple[str, str]]:
    """By target the largest number that it keeps busy, and in words.

    From the search for a capacity where there is one, else of what the study swept.
    """
    found = [search for search in searches(comparison) if _same(search, section, points[0])]
    if found:
        return {search.target: (f"{search.number}", search.text) for search in found}
    if rule is None or section.axes.x != NUMBER:
        return {}
    kept: dict[str, tuple[str, str]] = {}
    for target in comparison.planned(points):
        kept[target] = ("", "none")
        for point in points:
            interval = comparison.row(point).cells[target].values.get(KEY)
            low = None if interval is None else interval.low
            if low is None or low < rule.value:
                if interval is not None and (interval.high is None or interval.high >= rule.value):
                    kept[target] = _undecided(*kept[target])
                break
            kept[target] = (x_text(section, point), x_text(section, point))
    return kept


def _undecided(place: str, text: str) -> tuple[str, str]:
    """The next number's interval includes the threshold: it may be kept busy, too."""
    return (place, f"{text} or more") if place else ("", "not decided")


def _same(search: Found, section: Section, point: WorkloadPoint) -> bool:
    params = {name: value for name, value in point.params.items() if name != NUMBER}
    return (search.workload, search.engine) == (section.workload, section.engine) and (
        search.params == params
    )


def _title(rule: Rule | None, largest: dict[str, tuple[str, str]]) -> str:
    if rule is None or not largest:
        return "utilisation of the emulated accelerators"
    each = ", ".join(f"{text} on {target}" for target, (_, text) in largest.items())
    return f"most accelerators at {rule.value:g} % or more: {each}"
