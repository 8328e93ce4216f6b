"""Find how many emulated accelerators each target keeps at or above a required utilisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storlab.analysis.capacity_file import Found, searches
from storlab.analysis.columns import COLUMNS
from storlab.analysis.compare import PLACES, Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint, format_value
from storlab.analysis.stats import mean_interval
from storlab.model.decision import outcome_of
from storlab.words.outcomes import UNDECIDED
from storlab.words.text import MISSING, and_list, named

KEY = "au_percent.all"
ASKED = "au_threshold_percent.all"
NUMBER = "accelerators"
FEW_STEPS = "few-steps"
NONE, AT_LEAST = "none", "at least "


@dataclass(frozen=True, slots=True)
class Kept:
    """Largest number of accelerators that a target keeps at or above the required utilisation."""

    place: str  # number as text; empty if there is none
    text: str  # phrase such as ``at least 3``
    percent: float  # required utilisation
    few_steps: bool = False  # whether epochs are too short for a reliable utilisation


def threshold_percent(comparison: Comparison, points: Sequence[WorkloadPoint]) -> float | None:
    """Return the required utilisation in percent; None if the profiles of points differ in it."""
    cells = [cell for point in points for cell in comparison.row(point).cells.values()]
    values = {cell.values[ASKED].estimate for cell in cells if ASKED in cell.values}
    return values.pop() if len(values) == 1 else None


def largest(
    comparison: Comparison, section: Section, points: Sequence[WorkloadPoint], asked: float | None
) -> dict[str, Kept]:
    """Return the largest number of accelerators that each target keeps busy.

    It comes from a capacity search if there is one, otherwise from a sweep of accelerators.

    Args:
        comparison: Comparison with the values.
        section: Section of the workload.
        points: Points of the sweep.
        asked: Required utilisation in percent; None if unknown.
    """
    results = [search for search in searches(comparison) if _same(search, section, points[0])]
    if results:
        cells = (cell for row in comparison.rows.values() for cell in row.cells.values())
        short = {cell.point_id for cell in cells if _has_few_steps(cell)}
        return {
            s.target: Kept(f"{s.number}", found_text(s), s.threshold_percent, s.point_id in short)
            for s in results
        }
    if asked is None or section.axes.x != NUMBER:
        return {}
    targets = comparison.planned(points)
    return {target: _swept(comparison, section, points, target, asked) for target in targets}


def found_text(search: Found) -> str:
    """Format the result of a search: ``24``, ``at least 24``, or the outcome if it found none."""
    if search.outcome == "within noise":
        return f"{search.number:,} or more" if search.number else UNDECIDED
    before = AT_LEAST if search.outcome == "at-least" else ""
    return f"{before}{search.number:,}"


def _swept(
    comparison: Comparison,
    section: Section,
    points: Sequence[WorkloadPoint],
    target: str,
    asked: float,
) -> Kept:
    """Return the largest number that one target keeps busy in a sweep.

    If this is the largest number of the sweep, the target may keep even more busy.
    """
    place, few = "", False
    for point in points:
        cell = comparison.row(point).cells[target]
        # Not the printed interval: bounds of two repeats are printed as these repeats.
        repeats = cell.repeats(COLUMNS[PLACES[KEY]])
        interval = mean_interval(repeats) if repeats else None
        if interval is None and not cell.failed:
            break
        outcome = outcome_of(interval, asked, "more", reached=True)
        if interval is None or outcome == "worse":
            return Kept(place, place or NONE, asked, few)
        if outcome != "better":  # the next number may be kept busy, too
            return Kept(place, f"{place} or more" if place else UNDECIDED, asked, few)
        place = format_value(section.page, NUMBER, point.params.get(NUMBER))
        few = _has_few_steps(cell)
    return Kept(place, f"{AT_LEAST}{place}" if place else MISSING, asked, few)


def _has_few_steps(cell: Cell) -> bool:
    """Return whether epochs have too few steps for a reliable utilisation."""
    return any(flag.kind == FEW_STEPS for flag in cell.flags)


def _same(search: Found, section: Section, point: WorkloadPoint) -> bool:
    params = {name: value for name, value in point.params.items() if name != NUMBER}
    return (search.workload, search.engine) == (section.workload, section.engine) and (
        search.params == params
    )


def title(kept: Mapping[str, Kept]) -> str:
    """Return a title: ``accelerators kept at least 90 % busy: 8 on A, none on B``."""
    if not kept:
        return "utilisation of the emulated accelerators"
    shares: dict[float, dict[tuple[str, str], list[str]]] = {}
    for target, number in kept.items():
        few = " (few steps)" if number.few_steps else ""
        alike = shares.setdefault(number.percent, {}).setdefault((number.text, few), [])
        alike.append(named(target))
    places = []
    for percent, numbers in shares.items():
        each = [f"{text} on {and_list(own)}{few}" for (text, few), own in numbers.items()]
        places.append(f"at least {percent:g} % busy: {', '.join(each)}")
    return f"accelerators kept {'; '.join(places)}"


def kept_busy(comparison: Comparison, section: Section, facet: Any) -> str:
    """Return a sentence on how many accelerators each target keeps busy; empty if unknown."""
    points = section.of_facet(facet)
    kept = largest(comparison, section, points, threshold_percent(comparison, points))
    return title(kept) if kept else ""


def fed(comparison: Comparison, sections: Sequence[Section]) -> Iterator[tuple[str, str, str]]:
    """Yield for each workload and target: name of the target, accelerators kept busy, workload."""
    for section in sections:
        for facet in section.facets():
            points = section.of_facet(facet)
            asked = threshold_percent(comparison, points)
            place = ", ".join(t for t in (section.own, section.facet_text(facet)) if t)
            for target, kept in largest(comparison, section, points, asked).items():
                yield target, _words(kept), place


def _words(kept: Kept) -> str:
    if kept.text in (UNDECIDED, MISSING):
        return f"accelerators kept at least {kept.percent:g} % busy: {kept.text}"
    noun = "emulated accelerator" + ("" if kept.text.removeprefix(AT_LEAST) in ("1", NONE) else "s")
    number = "no" if kept.text == NONE else kept.text
    few = " (not reliable: epochs have too few steps)" if kept.few_steps else ""
    return f"{number} {noun} kept at least {kept.percent:g} % busy{few}"
