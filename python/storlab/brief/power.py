"""Section of a brief about power: throughput per watt, efficiency table and ratios."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis import digits
from storlab.analysis.columns import NET, Column, label_of, rate_per_watt
from storlab.analysis.compare import Cell, Comparison, Row
from storlab.analysis.efficiency import NO_METER
from storlab.analysis.not_compared import is_metered
from storlab.analysis.points import Section
from storlab.brief.flags import (
    Mark,
    cell_marks,
    joined,
    legend,
    mark,
    meaning_of,
    of_side,
    power_marks,
)
from storlab.brief.model import DataTable, ExtraSection, FigureGroup, Number, TableRow
from storlab.contracts.page import Page
from storlab.figures.common import NOT_MEASURED, last_point
from storlab.model.decision import Decision
from storlab.words import power as words
from storlab.words.outcomes import NOT_COMPARED
from storlab.words.text import MISSING, cell_texts, named, percent, plural

KEYS = (
    "power_w.all",
    "idle_power_w.all",
    "efficiency_mb_s_w.all",
    "efficiency_net_mb_s_w.all",
    "efficiency_tb_kwh.all",
)
MAIN = "efficiency_mb_s_w.all"
METHOD = (
    (
        "Power and energy",
        "Power is integrated over the measure window, or over the whole of fixed work; a reading "
        "counts for what its boundary includes (device, enclosure, host or wall). Gross is the "
        "headline, idle-subtracted stands beside it. What was not measured says so, "
        "and is never zero.",
    ),
    (
        "Efficiency",
        "Bytes of all repeats over joules of all repeats. MB/s/W is MB/J, and TB/kWh is 3.6 "
        "times that, exactly. The 95 % interval joins the spread of the repeats with the "
        "meter’s standard uncertainty, which is taken as common to all repeats.",
    ),
    (
        "Power boundaries",
        "A ratio of power or efficiency is given only where both sides’ meters include the same "
        "things, or where the study accepts unequal boundaries; it is then marked “unequal "
        "boundaries”.",
    ),
)


NOT_METERED = (("Power and energy", "Not measured: no target of this study has a meter."),)


def power_method(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    """Return the definitions of power and efficiency, or a note that no target has a meter."""
    return METHOD if is_metered(comparison) else NOT_METERED


def power_section(comparison: Comparison, groups: list[FigureGroup]) -> ExtraSection | None:
    """Build the section on power and efficiency; None if no target has a meter."""
    if not is_metered(comparison):
        return None
    tables = []
    for sections in comparison.kinds.values():
        tables.append(efficiency_table(comparison, sections))
        ratios = efficiency_ratios(comparison, sections)
        tables += [ratios] if ratios.rows else []
    return ExtraSection(
        anchor="power",
        title="Power and efficiency",
        short="Power",
        lead=_lead(comparison),
        groups=groups,
        tables=tables,
        notes=_notes(comparison),
    )


def _lead(comparison: Comparison) -> list[str]:
    """Return sentences on each target's power and on ratios of throughput per watt."""
    sentences = [_drawn(comparison, target) for target in comparison.targets]
    return sentences + [_ratio_range(comparison, target) for target in comparison.others]


def _cells(comparison: Comparison, target: str) -> list[Cell]:
    cells = [row.cells[target] for row in comparison.rows.values()]
    return [cell for cell in cells if cell.point_id is not None]


def _drawn(comparison: Comparison, target: str) -> str:
    cells = _cells(comparison, target)
    known = [(c, c.power) for c in cells if c.power is not None]
    if not known:
        reason = next((c.power_missing for c in cells if c.power_missing), NO_METER)
        return words.not_metered(target, reason)
    account = known[0][1]
    values = [c.values["power_w.all"].estimate for c, _ in known if "power_w.all" in c.values]
    return words.drawn(target, account, values, len(known), len(cells) - len(known))


def _ratio_range(comparison: Comparison, target: str) -> str:
    rows = comparison.rows.values()
    refused = next((row.refused[target] for row in rows if target in row.refused), "")
    sides = (target, comparison.baseline)
    if refused:
        return words.refused(sides, refused)
    ratios = [row.ratios[target][MAIN] for row in rows if MAIN in row.ratios[target]]
    if not ratios:
        return words.no_ratio(sides)
    return " ".join(filter(None, [words.per_joule(ratios), _weak(comparison, sides)]))


def _weak(comparison: Comparison, targets: Sequence[str]) -> str:
    """Return a text that names the targets whose power was not measured; empty without such."""
    weak: dict[str, list[str]] = {}
    for target in targets:
        accounts = [c.power for c in _cells(comparison, target) if c.power is not None]
        for word in sorted({a.provenance for a in accounts if a.provenance in NOT_MEASURED}):
            weak.setdefault(word, []).append(target)
    return words.weak(weak)


def _heading(page: Page, column: Column) -> str:
    return column.short if column.key == NET.key else label_of(page, column, whole=True)


def efficiency_table(comparison: Comparison, sections: Sequence[Section]) -> DataTable:
    """Build the efficiency table of each mix and block size at the last point of its sweep."""
    page = sections[0].page
    rate = () if page.metrics.quantities else (rate_per_watt(page).key,)
    own = (q.key for q in page.metrics.quantities if q.power and q.name != "energy_j")
    keys = dict.fromkeys((*KEYS, *rate, *own))
    columns = [c for key in keys if (c := comparison.column(key)) is not None]
    rows: list[TableRow] = []
    for section, row in _far_rows(comparison, sections):
        targets = comparison.planned([row.point])
        for place, target in enumerate(targets):
            index = comparison.targets.index(target)
            cell = row.cells[target]
            numbers = [power_number(cell, column) for column in columns]
            if not columns:
                numbers = [_missing(cell)]
            numbers += [_meter(cell), Number(cell.power.label if cell.power else "–")]
            heads = [(section.where(row.point), len(targets) if place == 0 else 0)]
            links = [(plural(len(cell.runs), "run"), cell.point_id)] if cell.point_id else []
            chip = cell.power.provenance if cell.power is not None else ""
            rows.append(
                TableRow(
                    heads, target, index, numbers, place == 0, links,
                    chip=chip if chip in NOT_MEASURED else "",
                )
            )  # fmt: skip
    head = [(_heading(page, c), c.unit) for c in columns] or [("power", "W")]
    return DataTable(
        "Power and efficiency, with the 95 % interval of repeats and meter below each number",
        ["workload point"],
        [*head, ("meter, 1 σ", ""), ("power at", "")],
        rows,
        legend(m for row in rows for number in row.numbers for m in number.marks),
    )


def _far_rows(comparison: Comparison, sections: Sequence[Section]) -> list[tuple[Section, Row]]:
    rows = []
    for section in sections:
        for facet in section.facets():
            point = last_point(comparison, section, facet)
            if point is not None:
                rows.append((section, comparison.row(point)))
    return rows


def _missing(cell: Cell) -> Number:
    reason = cell.power_missing if cell.measured else ""
    text = MISSING if not reason or reason == NO_METER else f"{MISSING}: {reason}"
    return Number(text, point_id=cell.point_id, missing=True)


def power_number(cell: Cell, column: Column) -> Number:
    """Return a target's power or efficiency as a table number with interval and marks."""
    value = cell.values.get(column.key)
    if value is None or cell.power is None:
        if cell.power is None and column.key == "power_w.all":
            return _missing(cell)
        return Number(MISSING, point_id=cell.point_id, missing=True)
    flags = [flag for flag in cell.flags if meaning_of(flag.kind).energies]
    marks = [
        *cell_marks(flags, len(cell.runs), latency=False, name=column.name),
        *(m for m in power_marks(cell.power) if m.kind != "share" or column.name == "power_w"),
    ]
    text, spread = cell_texts(value)
    return Number(text, spread, cell.point_id, tuple(marks))


def _meter(cell: Cell) -> Number:
    if cell.power is None:
        return Number("–", missing=True)
    relative = cell.power.meter_relative()
    if relative is None:
        return Number("not stated", point_id=cell.point_id, missing=True)
    return Number(f"±{percent(relative)}", point_id=cell.point_id)


def efficiency_ratios(comparison: Comparison, sections: Sequence[Section]) -> DataTable:
    """Build the table of power and efficiency ratios to the baseline."""
    page = sections[0].page
    rate = () if page.metrics.quantities else (rate_per_watt(page).key,)
    own = (q.key for q in page.metrics.quantities if q.power and q.compared)
    keys = dict.fromkeys(("power_w.all", MAIN, *rate, *own, NET.key))
    columns = [c for key in keys if (c := comparison.column(key)) is not None]
    rows: list[TableRow] = []
    for section, row in _far_rows(comparison, sections):
        others = comparison.compared(row)
        for number, target in enumerate(others):
            numbers = [power_ratio(row, target, comparison.baseline, c) for c in columns]
            heads = [(section.where(row.point), len(others) if number == 0 else 0)]
            sides = (row.cells[target], row.cells[comparison.baseline])
            links = [(side.target, side.point_id) for side in sides if side.point_id]
            index = comparison.targets.index(target)
            rows.append(TableRow(heads, target, index, numbers, number == 0, links))
    return DataTable(
        f"Ratio to {comparison.baseline}, with the 95 % interval below it; bold where the "
        "interval excludes 1",
        ["workload point"],
        [(_heading(page, c), "") for c in columns],
        rows,
        legend(m for row in rows for number in row.numbers for m in number.marks),
    )


def power_ratio(row: Row, target: str, baseline: str, column: Column) -> Number:
    """Return a ratio of power or efficiency as a table number, or why there is none."""
    cell, base = row.cells[target], row.cells[baseline]
    if target in row.refused:
        text = f"{NOT_COMPARED}: {row.refused[target]}"
        return Number(text, point_id=cell.point_id, missing=True)
    decision = row.ratios[target].get(column.key)
    if decision is None:
        unknown = [c.target for c in (cell, base) if c.power is None]
        text = f"power of {' and '.join(unknown)} {MISSING}" if unknown else "–"
        return Number(text, point_id=cell.point_id, missing=True)
    return Number(
        digits.times(decision.ratio),
        digits.ends_text(decision.ratio),
        cell.point_id,
        _ratio_marks(decision, (cell, base), column),
        strong=decision.decided,
    )


def _ratio_marks(decision: Decision, sides: Sequence[Cell], column: Column) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    for side in sides:
        flags = [flag for flag in side.flags if meaning_of(flag.kind).energies]
        own = cell_marks(flags, len(side.runs), latency=False, name=column.name)
        marks += [of_side(side.target, m) for m in own]
    if decision.boundaries:
        marks.append(mark("unequal-boundaries", decision.boundaries))
    for side in sides:
        powers = power_marks(side.power) if side.power is not None else []
        marks += [of_side(side.target, m) for m in powers if m.kind != "share"]
    return joined(marks)


def _notes(comparison: Comparison) -> list[str]:
    notes = []
    for target in comparison.targets:
        accounts = [c.power for c in _cells(comparison, target) if c.power is not None]
        if not accounts:
            continue
        sensors = ", ".join(dict.fromkeys(s for a in accounts for s in a.sensors))
        how = sensors if accounts[0].provenance == sensors else f"measured by {sensors}"
        notes.append(f"{named(target)}: power at the {accounts[0].label}, {how}.")
        rules = dict.fromkeys(rule for a in accounts for rule in a.share_rules)
        notes += [f"{named(target)} is charged {rule}." for rule in rules]
    return notes
