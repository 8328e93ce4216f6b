"""The brief's section about capacity: how many accelerators each target keeps busy."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.capacity_file import Found, searches
from storlab.analysis.compare import Comparison
from storlab.analysis.points import describe, page_of
from storlab.analysis.stats import Interval
from storlab.brief.extra import Extra
from storlab.brief.flags import Mark, legend, mark
from storlab.brief.model import DataTable, ExtraSection, Number, TableRow
from storlab.brief.tables import Scale
from storlab.brief.text import and_list, plural, spread_text
from storlab.figures.common import MISSING, digits3


def capacity_section(comparison: Comparison) -> ExtraSection | None:
    """The section; None where no result directory is that of a search."""
    found = searches(comparison)
    if not found:
        return None
    places = _places(found)
    rows = [
        _row(comparison, one, first=number == 0 or one.target != found[number - 1].target)
        for number, one in enumerate(found)
    ]
    head = [("kept busy", ""), ("AU at it", "%"), ("first not kept", ""), ("per watt", "1/W")]
    return ExtraSection(
        anchor="capacity",
        title="Accelerators that storage keeps busy",
        short="Capacity",
        lead=[_lead(found)],
        tables=[
            DataTable(
                f"Largest number of emulated accelerators at {places} or more (AU)",
                ["workload"],
                head,
                rows,
                legend(m for row in rows for number in row.numbers for m in number.marks),
            )
        ],
        notes=[f"{one.target}: {note}." for one in found for note in one.notes],
    )


def _places(found: Sequence[Found]) -> str:
    each = dict.fromkeys(f"{one.threshold_percent:g} %" for one in found)
    return and_list(list(each))


def _lead(found: Sequence[Found]) -> str:
    said = [
        f"{one.target} keeps {one.text.replace(',', '')} of them at {one.threshold_percent:g} % "
        f"or more{_work(one, found)}"
        for one in found
    ]
    return (
        f"Emulated accelerators, by search: {'; '.join(said)}. A number counts as kept when the "
        "95 % interval of its mean utilisation lies at or above the threshold."
    )


def _work(one: Found, found: Sequence[Found]) -> str:
    works = {(other.workload, str(other.params)) for other in found}
    return f" ({_heading(one)})" if len(works) > 1 else ""


def _heading(one: Found) -> str:
    page = page_of(one.kind)
    told = [name for name in page.told if name in one.params]
    said = describe(page, one.params, told)
    return ", ".join(dict.fromkeys(part for part in (one.workload, said) if part))


def _row(comparison: Comparison, one: Found, *, first: bool) -> TableRow:
    interval, power, marks = one.at_it, one.power_w, _marks(one)
    above = "none tried" if one.first_not_kept is None else f"{one.first_not_kept:,}"
    per_watt = "–" if not power else digits3(one.accelerators / power)
    numbers = [
        Number(one.text, "", one.point_id, marks, strong=True),
        _percent(interval, one.point_id, marks),
        Number(above, missing=one.first_not_kept is None, fact=one.first_not_kept is not None),
        Number(per_watt, "", one.point_id if power else None, missing=not power),
    ]
    index = comparison.targets.index(one.target)
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    runs = next((len(c.runs) for c in cells if c.point_id == one.point_id and c.point_id), 0)
    links = [(plural(runs, "run"), one.point_id)] if one.point_id else []
    return TableRow([(_heading(one), 1)], one.target, index, numbers, first, links)


def _marks(one: Found) -> tuple[Mark, ...]:
    """Of the family: that what is kept busy is not measured."""
    told = (flag.kind for flag in page_of(one.kind).flags if flag.tells)
    return tuple(mark(kind, "found by storlab capacity") for kind in told)


def _percent(interval: Interval | None, point_id: str | None, marks: tuple[Mark, ...]) -> Number:
    if interval is None:
        return Number(MISSING, missing=True)
    high = None if interval.high is None else min(interval.high, 100.0)
    shown = Interval(interval.estimate, interval.low, high, interval.n)
    return Number(digits3(interval.estimate), spread_text(shown), point_id, marks)


class Findings(Extra):
    """What a search for capacity found."""

    def section(self, comparison: Comparison, scale: Scale) -> ExtraSection | None:
        """How many accelerators each target keeps busy."""
        del scale
        return capacity_section(comparison)
