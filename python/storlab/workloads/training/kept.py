"""How many emulated accelerators each target keeps busy, at the utilisation that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from storlab.analysis.capacity_file import Found, searches
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint, format_value

KEY = "au_percent.all"
ASKED = "au_threshold_percent.all"
NUMBER = "accelerators"
NONE, UNDECIDED = "none", "not decided"


def threshold_percent(comparison: Comparison, points: Sequence[WorkloadPoint]) -> float | None:
    """What the profile asks for; None where the points do not agree."""
    cells = [cell for point in points for cell in comparison.row(point).cells.values()]
    values = {cell.values[ASKED].estimate for cell in cells if ASKED in cell.values}
    return values.pop() if len(values) == 1 else None


def largest(
    comparison: Comparison, section: Section, points: Sequence[WorkloadPoint], asked: float | None
) -> dict[str, tuple[str, str]]:
    """By target the largest number that it keeps busy, and in words.

    From the search for a capacity where there is one, else of what the study swept.
    """
    results = [search for search in searches(comparison) if _same(search, section, points[0])]
    if results:
        return {search.target: (f"{search.number}", search.text) for search in results}
    if asked is None or section.axes.x != NUMBER:
        return {}
    kept: dict[str, tuple[str, str]] = {}
    for target in comparison.planned(points):
        kept[target] = ("", NONE)
        for point in points:
            interval = comparison.row(point).cells[target].values.get(KEY)
            low = None if interval is None else interval.low
            if low is None or low < asked:
                if interval is not None and (interval.high is None or interval.high >= asked):
                    kept[target] = _undecided(*kept[target])
                break
            number = format_value(section.page, NUMBER, point.params.get(NUMBER))
            kept[target] = (number, number)
    return kept


def _undecided(place: str, text: str) -> tuple[str, str]:
    """The next number's interval includes the threshold: it may be kept busy, too."""
    return (place, f"{text} or more") if place else ("", UNDECIDED)


def _same(search: Found, section: Section, point: WorkloadPoint) -> bool:
    params = {name: value for name, value in point.params.items() if name != NUMBER}
    return (search.workload, search.engine) == (section.workload, section.engine) and (
        search.params == params
    )


def title(asked: float | None, kept: Mapping[str, tuple[str, str]]) -> str:
    """``most accelerators at 90 % or more: 8 on A, none on B``."""
    if asked is None or not kept:
        return "utilisation of the emulated accelerators"
    shares = ", ".join(f"{text} on {target}" for target, (_, text) in kept.items())
    return f"most accelerators at {asked:g} % or more: {shares}"


def kept_busy(comparison: Comparison, section: Section, facet: Any) -> str:
    """How many accelerators each target keeps busy, as the figure says; empty where it does not."""
    points = section.of_facet(facet)
    asked = threshold_percent(comparison, points)
    kept = largest(comparison, section, points, asked)
    return title(asked, kept) if asked is not None and kept else ""


def fed(comparison: Comparison, sections: Sequence[Section]) -> Iterator[tuple[str, str, str]]:
    """The answer in words: target, how many it keeps busy, and where that was measured."""
    for section in sections:
        for facet in section.facets():
            points = section.of_facet(facet)
            asked = threshold_percent(comparison, points)
            place = ", ".join(t for t in (section.own, section.facet_text(facet)) if t)
            for target, (_, text) in largest(comparison, section, points, asked).items():
                yield target, _words(text, asked), place


def _words(text: str, asked: float | None) -> str:
    if text == UNDECIDED:
        return "how many accelerators it keeps busy is not decided"
    noun = "emulated accelerator" + ("" if text in ("1", NONE) else "s")
    number = "no" if text == NONE else text
    return f"{number} {noun} kept busy" + (f" at {asked:g} % or more" if asked else "")
