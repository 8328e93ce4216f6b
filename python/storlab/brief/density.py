"""Section of a brief about density and cost: values per TB, rack unit, rack and price."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storlab.analysis import density
from storlab.analysis.columns import COLUMNS, label_of, noun_of
from storlab.analysis.compare import PLACES, Cell, Comparison
from storlab.analysis.dataset import TargetColumn
from storlab.analysis.density import RackFit
from storlab.analysis.points import Section
from storlab.base.units import format_number, significant
from storlab.brief.flags import Mark, legend, mark, power_marks
from storlab.brief.model import DataTable, ExtraSection, FigureGroup, Number, TableRow
from storlab.brief.tables import Leaf, table_of
from storlab.contracts.page import Page
from storlab.figures.common import NOT_MEASURED, last_point
from storlab.model.decision import Interval
from storlab.model.rack_and_cost import Rack
from storlab.model.study import Target
from storlab.words.text import MISSING, cell_texts

UNDECLARED = "not declared"
THROUGHPUT, POWER = "throughput_mb_s.all", "power_w.all"
Take = Callable[[Cell, Target, RackFit], Interval | None]


def density_section(comparison: Comparison, groups: list[FigureGroup]) -> ExtraSection | None:
    """Build the section on density and cost; None if no target declares capacity, size or price."""
    columns = comparison.dataset.targets
    facts = [c.target for c in columns]
    if not any(t.capacity or t.rack_units or t.price or t.cost for t in facts):
        return None
    fits = {column.label: density.fit(comparison, column) for column in columns}
    tables = []
    families = list(comparison.kinds.values())
    if any(t.rack_units for t in facts):
        tables.append(_rack_table(comparison, fits))
        tables += [_unit_table(comparison, fits, sections) for sections in families]
    if any(t.capacity or t.storage_price for t in facts):
        tables += [_worth_table(comparison, fits, sections) for sections in families]
    return ExtraSection(
        anchor="density",
        title="Density and cost",
        short="Density",
        lead=_lead(comparison, fits),
        groups=groups,
        tables=[table for table in tables if len(families) < 2 or _says_something(table)],
        notes=_notes(comparison, fits),
    )


def _says_something(table: DataTable) -> bool:
    """Return whether a table contains any value."""
    return any(not number.missing for row in table.rows for number in row.numbers)


def _lead(comparison: Comparison, fits: dict[str, RackFit]) -> list[str]:
    rack = density.rack_of(comparison)
    sentences = []
    for label, fit in fits.items():
        if fit.count is None:
            continue
        held = ""
        if fit.capacity_tb is not None:
            held = f", {format_number(fit.count * fit.capacity_tb)} TB"
        limit = "" if rack.power_budget is None else f", limited by {_limit(fit)}"
        sentences.append(f"{fit.count:,} of {label}{held}{limit}")
    return [f"{_rack_words(rack)} holds {'; or '.join(sentences)}."] if sentences else []


def _rack_words(rack: Rack) -> str:
    budget = rack.power_budget
    power = "" if budget is None else f" and {_watts(budget)}"
    return f"A rack of {rack.units:g} units{power}"


def _watts(power_w: float) -> str:
    return f"{power_w / 1000:g} kW" if power_w >= 1000 else f"{power_w:g} W"


def _limit(fit: RackFit) -> str:
    words = {"both": "height and power alike", "height": "height", "power": "power"}
    return words.get(fit.limit, "")


def declared_text(value: float) -> str:
    """Format a declared value, or a number of targets, with up to five digits: ``245.76``."""
    return f"{value:,.0f}" if value >= 1000 else significant(value, 5)


def _plain(
    value: float | None,
    otherwise: str,
    marks: tuple[Mark, ...] = (),
    point_id: str | None = None,
    show: Callable[[float], str] = declared_text,
) -> Number:
    """Return a declared value as a table number, or a measured one if ``point_id`` is given.

    A missing value is shown as the text ``otherwise``.
    """
    if value is None:
        return Number(otherwise, missing=True)
    return Number(show(value), "", point_id, marks, fact=point_id is None)


def _rack_table(comparison: Comparison, fits: dict[str, RackFit]) -> DataTable:
    rack = density.rack_of(comparison)
    rows = []
    for index, (label, fit) in enumerate(fits.items()):
        weak = fit.busy_provenance in NOT_MEASURED
        marks = (mark(fit.busy_provenance, "power"),) if weak else ()
        count, tb, units = fit.count, fit.capacity_tb, fit.rack_units
        per_unit = None if tb is None or units is None else tb / units
        modelled = (mark("modelled", "the target’s value times the count"),)
        numbers = [
            _plain(tb, UNDECLARED),
            _plain(units, UNDECLARED),
            _plain(per_unit, "–", show=format_number),
            _plain(fit.busy_w, MISSING, marks, fit.busy_point, format_number),
            _plain(fit.idle_w, MISSING, marks, fit.busy_point, format_number),
            _plain(fit.by_height, "–"),
            *(
                []
                if rack.power_budget is None
                else [_plain(fit.by_power, MISSING, marks, fit.busy_point)]
            ),
            _plain(None if tb is None or count is None else tb * count, "–", modelled),
            _plain(_kw(fit), MISSING, (*modelled, *marks), fit.busy_point, format_number),
        ]
        rows.append(
            TableRow(
                [], label, index, numbers, True, [],
                chip=fit.busy_provenance if weak else "",
            )
        )  # fmt: skip
    budget = rack.power_budget
    columns = [
        ("capacity", "TB"),
        ("height", "RU"),
        ("capacity", "TB/RU"),
        ("power, busiest", "W"),
        ("power, idle", "W"),
        (f"fit into {rack.units:g} RU", ""),
        *([] if budget is None else [(f"fit into {_watts(budget)}", "")]),
        ("capacity", "TB/rack"),
        ("power, busiest", "kW/rack"),
    ]
    marks_used = legend(m for row in rows for number in row.numbers for m in number.marks)
    return DataTable(f"What fits into a{_rack_words(rack)[1:]}", [], columns, rows, marks_used)


def _kw(fit: RackFit) -> float | None:
    if fit.count is None or fit.busy_w is None:
        return None
    return fit.count * fit.busy_w / 1000


def _rate(page: Page) -> tuple[str, str, str]:
    """Return a family's name for operations, with the unit and column key of their rate."""
    return noun_of(page), page.operations.rate_short, f"{page.operations.rate.name}.all"


def _work(page: Page) -> tuple[str, str, str]:
    """Return label, unit and key of the quantity that a family compares per terabyte."""
    asked = (question.keys[0] for question in page.metrics.questions if question.per == "tb")
    column = COLUMNS[PLACES[next(asked, THROUGHPUT)]]
    return label_of(page, column), column.unit, column.key


def _unit_table(
    comparison: Comparison, fits: dict[str, RackFit], sections: Sequence[Section]
) -> DataTable:
    noun, unit, key = _rate(sections[0].page)
    what, per, done = _work(sections[0].page)
    large, factor = ("GB/s", 1e-3) if per == "MB/s" else (per, 1.0)
    return _by_point(
        comparison,
        fits,
        sections,
        "Per rack unit as measured, and per rack as modelled: one target’s value times the count",
        [
            ((what, f"{per}/RU"), _per_unit(done), False),
            ((noun, f"{unit}/RU"), _per_unit(key), False),
            (("power", "W/RU"), _per_unit(POWER), False),
            ((what, f"{large}/rack"), _per_rack(done, factor), True),
            ((noun, f"k{unit}/rack"), _per_rack(key, 1e-3), True),
            (("power", "kW/rack"), _per_rack(POWER, 1e-3), True),
        ],
    )


def _worth_table(
    comparison: Comparison, fits: dict[str, RackFit], sections: Sequence[Section]
) -> DataTable:
    noun, rate, key = _rate(sections[0].page)
    what, per, done = _work(sections[0].page)
    targets = [column.target for column in comparison.dataset.targets]
    money = density.currencies(targets)
    columns: list[tuple[tuple[str, str], Take, bool]] = [
        ((what, f"{per}/TB"), _per_tb(done), False),
        ((noun, f"{rate}/TB"), _per_tb(key), False),
        (("power", "W/TB"), _per_tb(POWER), False),
    ]
    if len(money) == 1 and any(t.storage_price for t in targets):
        unit = f"per 1,000 {money[0]}"
        columns += [
            ((f"{what} {unit}", per), _per_money(done), False),
            ((f"{noun} {unit}", rate), _per_money(key), False),
        ]
    caption = "Per terabyte of raw capacity" + (
        ", and for the money that the storage costs" if len(columns) > 3 else ""
    )
    return _by_point(comparison, fits, sections, caption, columns)


def _per_unit(key: str) -> Take:
    return lambda cell, target, _: density.per_rack_unit(cell, target, key)


def _per_tb(key: str) -> Take:
    return lambda cell, target, _: density.per_tb(cell, target, key)


def _per_money(key: str) -> Take:
    return lambda cell, target, _: density.per_money(cell, target, key)


def _per_rack(key: str, factor: float) -> Take:
    def take(cell: Cell, _: Target, fit: RackFit) -> Interval | None:
        count = fit.count
        return density.scaled(cell.values.get(key), None if count is None else count * factor)

    return take


def _by_point(
    comparison: Comparison,
    fits: dict[str, RackFit],
    sections: Sequence[Section],
    caption: str,
    columns: list[tuple[tuple[str, str], Take, bool]],
) -> DataTable:
    """Build a table of the given columns at the last point of the sweep of each mix and block size.

    Args:
        comparison: Comparison to take values from.
        fits: How many of each target fit into a rack.
        sections: Sections of one workload family.
        caption: Caption of the table.
        columns: Heading and unit, function that returns the value, and whether it is modelled.
    """
    leaves: list[Leaf] = []
    by_label = {column.label: column for column in comparison.dataset.targets}
    if all(cell.power is None for row in comparison.rows.values() for cell in row.cells.values()):
        columns = [column for column in columns if column[0][0] != "power"]
    page = sections[0].page
    if page.metrics.quantities:  # for this workload family a number of I/Os is not meaningful
        noun = noun_of(page)
        columns = [
            c for c in columns if c[0][0] != noun and not c[0][0].startswith(f"{noun} per 1,")
        ]
    for section in sections:
        for facet in section.facets():
            point = last_point(comparison, section, facet)
            if point is None:
                continue
            for target in comparison.planned([point]):
                cell = comparison.row(point).cells[target]
                numbers = [
                    _value(cell, by_label[target], fits[target], take, head[0], modelled=modelled)
                    for head, take, modelled in columns
                ]
                leaves.append(Leaf([section.where(point)], cell, numbers))
    if len(comparison.kinds) > 1:
        caption = f"{sections[0].workload}: {caption[:1].lower()}{caption[1:]}"
    return table_of(comparison, caption, ["workload point"], [c[0] for c in columns], leaves)


def _value(
    cell: Cell, column: TargetColumn, fit: RackFit, take: Take, what: str, *, modelled: bool
) -> Number:
    value = take(cell, column.target, fit)
    if value is None:
        absent = cell.power is None if what == "power" else not cell.measured
        return Number(MISSING if absent else UNDECLARED, point_id=cell.point_id, missing=True)
    marks = [mark("modelled", "one target’s value times the count")] if modelled else []
    if what == "power" and cell.power is not None:
        marks += power_marks(cell.power)
    return Number(*cell_texts(value), cell.point_id, tuple(marks))


def _notes(comparison: Comparison, fits: dict[str, RackFit]) -> list[str]:
    notes = ["Capacity, rack units, prices and costs are those that the study declares."]
    rack = density.rack_of(comparison)
    racks = any(fit.rack_units is not None for fit in fits.values())
    if racks and any(fit.busy_w is not None for fit in fits.values()):
        p95 = all(fit.busy_is_p95 for fit in fits.values() if fit.busy_w is not None)
        what = "95th percentile of its power readings" if p95 else "mean power"
        notes.append(f"Busiest means the largest {what} over all runs.")
    for label, fit in fits.items():
        if fit.boundary and not fit.boundary.startswith("wall"):
            notes.append(
                f"The power of {label} was taken at the {fit.boundary}: what else a rack feeds "
                "(hosts, fans, conversion losses) is not in it."
            )
        elif not fit.boundary and rack.power_budget is not None and fit.by_height is not None:
            notes.append(f"The power of {label} is not known: only height limits its number.")
    return notes
