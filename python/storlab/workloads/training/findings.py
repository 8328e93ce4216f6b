"""Section of a brief on capacity: how many accelerators each target keeps busy."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.capacity_file import Found, searches
from storlab.analysis.compare import Comparison
from storlab.analysis.dataset import RunData
from storlab.analysis.efficiency import account_of
from storlab.analysis.points import CLIENTS, describe, page_of
from storlab.base.units import format_number
from storlab.brief.family_additions import FamilyAdditions
from storlab.brief.flags import Mark, legend, mark, power_marks
from storlab.brief.model import DataTable, ExtraSection, Number, TableRow
from storlab.brief.tables import Scale
from storlab.figures.common import place_of
from storlab.model.decision import Interval
from storlab.words.text import MISSING, and_list, plural, spread_text
from storlab.workloads.training.capacity_answer import found_text, kept_busy

KIND = "training"


def capacity_section(comparison: Comparison) -> ExtraSection | None:
    """Build the section with results of capacity searches; None without a search."""
    results = searches(comparison)
    if not results:
        return None
    places = _places(results)
    rows = [
        _row(comparison, search, first=number == 0 or search.target != results[number - 1].target)
        for number, search in enumerate(results)
    ]
    head = [("kept busy", ""), ("AU at it", "%"), ("first not kept", ""), ("per watt", "1/W")]
    return ExtraSection(
        anchor="capacity",
        title="Accelerators that storage keeps busy",
        short="Capacity",
        lead=[_lead(results)],
        tables=[
            DataTable(
                f"Largest number of emulated accelerators at {places} or more (AU)",
                ["workload"],
                head,
                rows,
                legend(m for row in rows for number in row.numbers for m in number.marks),
            )
        ],
        notes=[f"{search.target}: {note}." for search in results for note in search.notes],
    )


def _places(results: Sequence[Found]) -> str:
    thresholds = dict.fromkeys(f"{search.threshold_percent:g} %" for search in results)
    return and_list(list(thresholds))


def _lead(results: Sequence[Found]) -> str:
    sentences = [
        f"{search.target}: {found_text(search)} at {search.threshold_percent:g} % or more"
        f"{_work(search, results)}"
        for search in results
    ]
    return (
        f"Emulated accelerators, by search: {'; '.join(sentences)}. A number counts as kept when "
        "the 95 % interval of its mean utilisation lies at or above the threshold."
    )


def _work(search: Found, results: Sequence[Found]) -> str:
    works = {(other.workload, str(other.params)) for other in results}
    return f" ({_heading(search)})" if len(works) > 1 else ""


def _heading(search: Found) -> str:
    page = page_of(search.kind)
    told = [name for name in page.text.stated if name in search.params]
    text = describe(page, search.params, [*told, CLIENTS])
    return ", ".join(dict.fromkeys(part for part in (search.workload, text) if part))


def _row(comparison: Comparison, search: Found, *, first: bool) -> TableRow:
    interval, power, marks = search.at_it, search.power_w, _marks(search)
    runs = _runs(comparison, search)
    of_power = (*marks, *_power_marks(runs)) if power else ()
    above = "none tried" if search.first_not_kept is None else f"{search.first_not_kept:,}"
    per_watt = "–" if not power else format_number(search.number / power)
    numbers = [
        Number(found_text(search), "", search.point_id, marks, strong=True),
        _percent(interval, search.point_id, marks),
        Number(
            above, missing=search.first_not_kept is None, fact=search.first_not_kept is not None
        ),
        Number(per_watt, "", search.point_id if power else None, of_power, missing=not power),
    ]
    index = comparison.targets.index(search.target)
    links = [(plural(len(runs), "run"), search.point_id)] if search.point_id else []
    return TableRow([(_heading(search), 1)], search.target, index, numbers, first, links)


def _marks(search: Found) -> tuple[Mark, ...]:
    """Return the marks that say that a value is emulated."""
    told = (flag.kind for flag in page_of(search.kind).flags if flag.implied_provenance)
    return tuple(mark(kind, "found by storlab capacity") for kind in told)


def _runs(comparison: Comparison, search: Found) -> list[RunData]:
    """Return the runs with the number of accelerators that a search found."""
    cells = (cell for row in comparison.rows.values() for cell in row.cells.values())
    runs = (c.runs for c in cells if c.point_id == search.point_id and c.point_id)
    return next(runs, [])


def _power_marks(runs: Sequence[RunData]) -> list[Mark]:
    """Return the marks of the power of some runs, at the power boundary chosen for the target.

    The mark for shared meters is left out, as tables of power show it.
    """
    boundary = next((run.record.power_boundary for run in runs), None)
    account = account_of(runs, boundary)
    return [] if account is None else [m for m in power_marks(account) if m.kind != "share"]


def _percent(interval: Interval | None, point_id: str | None, marks: tuple[Mark, ...]) -> Number:
    if interval is None:
        return Number(MISSING, missing=True)
    high = None if interval.high is None else min(interval.high, 100.0)
    shown = Interval(interval.estimate, interval.low, high, interval.n)
    return Number(format_number(interval.estimate), spread_text(shown), point_id, marks)


class Findings(FamilyAdditions):
    """Finding and section of a brief on the number of accelerators that targets keep busy."""

    def findings(self, comparison: Comparison) -> list[str]:
        """Return a sentence per profile on how many accelerators each target keeps busy."""
        return [
            f"{place_of(section, facet)}: {kept}."
            for section in comparison.kinds.get(KIND, ())
            for facet in section.facets()
            if (kept := kept_busy(comparison, section, facet))
        ]

    def section(self, comparison: Comparison, scale: Scale) -> ExtraSection | None:
        """Build the section with results of capacity searches."""
        del scale
        return capacity_section(comparison)
