"""Match published results to measured points, and show both in a table.

A published value matches a measured point with equal mix, block size and operating point (such as
the number of jobs). Published values are not used in means, ratios or findings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from storlab.analysis.columns import COLUMNS, Column, columns_of
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint, format_value, title_of
from storlab.analysis.published import PublishedCell
from storlab.audit.finding import Finding
from storlab.audit.quantities import factor_of, operation_of, quantity_of
from storlab.base.units import format_number, significant
from storlab.brief.flags import Mark, legend, mark
from storlab.brief.model import DataTable, ExtraSection, FigureGroup, Number, TableRow
from storlab.brief.power import power_number
from storlab.brief.published_claims import claim_tables
from storlab.brief.published_points import points_of, reads_of
from storlab.brief.tables import Scale, Scales, scales_of
from storlab.contracts.page import Page
from storlab.contracts.registry import FAMILIES
from storlab.figures.theme import series_label
from storlab.model.published import PublishedTable, Row, load_published
from storlab.results.store import ResultStore
from storlab.words.text import MISSING, and_list, cell_texts, plural

SI = {"MB/s": 1e6, "ns": 1e-9, "1/s": 1.0, "MB/s/W": 1e6, "TB/kWh": 1e12 / 3.6e6}
SI |= {
    "MB/s/TB": 1e6 / 1e12,
    **{f"{w.page.operations.rate_short}/W": 1.0 for w in FAMILIES.values()},
}
STATISTIC = {"avg": "mean", "": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "p999": "p999"}
NAMES = {
    "throughput": "throughput_mb_s",
    "power_efficiency": "efficiency_mb_s_w",
    "energy_efficiency": "efficiency_tb_kwh",
    "throughput_per_tb": "throughput_mb_s_tb",
}
RULE = "own_published"
# A brief rounds numbers to two digits or more, which changes them by up to 5 %.
PRINTED_WITHIN = 0.06
BY_KEY = {column.key: column for column in COLUMNS}


def load_tables(stores: Sequence[ResultStore]) -> list[PublishedTable]:
    """Load the tables of published results that the studies name.

    A relative path is first looked up in the result directory.

    Raises:
        ResultError: A table does not exist.
    """
    places: dict[str, str | Path] = {}
    for store in stores:
        for name in store.study.study.published:
            beside = store.directory / name
            source = beside if Path(name).suffix and beside.is_file() else name
            places.setdefault(Path(source).name, source)
    return [load_published(place) for place in places.values()]


def match(comparison: Comparison, tables: Iterable[PublishedTable]) -> list[PublishedCell]:
    """Return published values that match a measured point; of duplicates, the most precise."""
    matches: dict[tuple[str, ...], tuple[Row, PublishedCell]] = {}
    for table in tables:
        operations = _operations(table)
        for row, sections in (
            (row, sections)
            for row in table.rows
            for sections in comparison.kinds.values()
            if row.is_measured and row.config and row.value is not None
        ):
            page = sections[0].page
            done = operations[row.workload]
            key = _key(row, page, pure=reads_of(row, done, page) in (0.0, 100.0))
            if key is None or not _same_family(done, page):
                continue
            for point, at in points_of(comparison, sections, row, done):
                cell = _cell(table, row, key, point, at)
                place = (table.name, row.config, point.key, key)
                if place not in matches or row.decimals > matches[place][0].decimals:
                    matches[place] = (row, cell)
    return [cell for _, cell in matches.values()]


def _operations(table: PublishedTable) -> dict[str, set[str]]:
    """Return by workload the operations that a publication gives numbers for, such as read."""
    operations: dict[str, set[str]] = {}
    for row in table.rows:
        operations.setdefault(row.workload, set()).add(operation_of(row))
    return operations


def _same_family(operations: set[str], page: Page) -> bool:
    """Return whether published operations are those of a workload family.

    A total of GETs and PUTs, for example, must not be compared with a total of reads and writes.
    Operations that no family names fit any family.
    """
    named = {o for w in FAMILIES.values() for o in w.page.operations.main} & operations
    return not named or bool(named & set(page.operations.main))


def _cell(
    table: PublishedTable, row: Row, key: str, point: WorkloadPoint, at: str
) -> PublishedCell:
    value = (row.value or 0.0) * (factor_of(row) or 1.0) / SI[BY_KEY[key].unit]
    same = row.value is not None and abs(value - row.value) <= 1e-9 * abs(value)
    return PublishedCell(
        config=row.config,
        source=table.name,
        rows=(row.id,),
        point_key=point.key,
        key=key,
        value=value,
        printed=_token(row) if same else "",
        stated=not at,
        at=at,
        cited=table.about.text,
    )


def _token(row: Row) -> str:
    """Return a published number as it was printed; empty for numbers such as "2.3 million"."""
    if row.value is None or row.printed_scale != 1:
        return ""
    return f"{row.value:,.{row.decimals}f}"


def _key(row: Row, page: Page, *, pure: bool) -> str | None:
    """Return the key of the column that a published number belongs to; None if there is none.

    ``pure`` states that the workload consists of a single operation.
    """
    meaning = quantity_of(row)
    if meaning.form != "value" or meaning.bound or factor_of(row) is None:
        return None
    operation = operation_of(row)
    if meaning.name in ("latency", "ttfb"):
        statistic = STATISTIC.get(meaning.statistic)
        key = f"{meaning.name}_{statistic}_ns.{operation}"
        return key if key in BY_KEY and operation in page.operations.main else None
    if meaning.statistic not in ("", "avg"):
        return None
    rates = {"iops": page.operations.rate.name, "iops_per_watt": f"{page.operations.rate.name}_w"}
    name = NAMES.get(meaning.name) or rates.get(meaning.name)
    if operation in page.operations.main and not page.operations.by_operation:
        if not pure:
            return None  # the workload family shows its operations together
        operation = "all"
    key = f"{name}.{'all' if operation in ('total', '', 'all') else operation}"
    return key if key in BY_KEY else None


def published_section(
    comparison: Comparison,
    tables: Sequence[PublishedTable],
    groups: list[FigureGroup],
    scales: Scales,
) -> ExtraSection | None:
    """Build the section on published results; None if the study names none."""
    if not tables:
        return None
    cells = comparison.published
    names = [table.name for table in tables]
    claims = claim_tables(comparison, tables)
    if claims and not cells:
        lead = [
            f"{_cited(tables)} prints ratios of this work but no values. Somebody else measured "
            "them on other machines: they are part of no mean, ratio or finding here."
        ]
        return ExtraSection(
            anchor="published",
            title="Published beside measured",
            short="Published",
            lead=lead,
            tables=claims,
            notes=_notes(comparison, tables),
        )
    if not cells:
        lead = [
            f"The study names {and_list(names)}, which has no number for the mix, size and "
            "operating point of anything measured here."
        ]
        return ExtraSection("published", "Published beside measured", "Published", lead)
    lead = [
        f"Printed in {_cited(tables)}. Somebody else measured these numbers, on other machines and "
        "set-ups: they stand beside the measured ones and are part of no mean, ratio or finding."
    ]
    return ExtraSection(
        anchor="published",
        title="Published beside measured",
        short="Published",
        lead=lead,
        groups=groups,
        tables=[
            table
            for kind, sections in comparison.kinds.items()
            if (table := _table(comparison, sections, cells, scales[kind])).rows
        ]
        + claims,
        notes=_notes(comparison, tables),
    )


def _cited(tables: Sequence[PublishedTable]) -> str:
    return and_list([f"“{t.about.title}”" if t.about.title else t.name for t in tables])


def _table(
    comparison: Comparison, sections: Sequence[Section], cells: list[PublishedCell], scale: Scale
) -> DataTable:
    here_keys = {point.key for section in sections for point in section.points}
    cells = [cell for cell in cells if cell.point_key in here_keys]
    columns = [c for c in columns_of(sections[0].page) if any(x.key == c.key for x in cells)]
    keys = [column.key for column in columns]
    configs = list(dict.fromkeys((cell.config, cell.source) for cell in cells))
    rows: list[TableRow] = []
    for section in sections:
        for facet in section.facets():
            for point in section.of_facet(facet):
                here = [cell for cell in cells if cell.point_key == point.key]
                if here:
                    rows += _point_rows(comparison, section, point, here, keys, configs, scale)
    marks = legend(m for row in rows for number in row.numbers for m in number.marks)
    heads = [(_heading(column), scale.of(column)[0]) for column in columns]
    caption = "Measured here, with the 95 % interval, and as published (hatched)"
    return DataTable(caption, ["workload point"], heads, rows, marks)


def _heading(column: Column) -> str:
    """Return the heading of a column, which is ``per watt`` for all efficiencies."""
    return "per watt" if column.unit.endswith("/W") else column.short


def _point_rows(
    comparison: Comparison,
    section: Section,
    point: WorkloadPoint,
    here: list[PublishedCell],
    keys: list[str],
    configs: list[tuple[str, str]],
    scale: Scale,
) -> list[TableRow]:
    present = [c for c in configs if any((x.config, x.source) == c for x in here)]
    targets = comparison.planned([point])
    span = len(targets) + len(present)
    rows = []
    for place, target in enumerate(targets):
        index = comparison.targets.index(target)
        cell = comparison.row(point).cells[target]
        heads = [(section.where(point), span if place == 0 else 0)]
        links = [(plural(len(cell.runs), "run"), cell.point_id)] if cell.point_id else []
        numbers = [_measured(comparison, cell, key, scale) for key in keys]
        label = series_label(target, cell.provenance)
        rows.append(TableRow(heads, label, index, numbers, place == 0, links))
    for config, source in present:
        by_key = {x.key: x for x in here if (x.config, x.source) == (config, source)}
        index = comparison.series_index(next(iter(by_key.values())))
        numbers = [_printed(by_key.get(key), scale) for key in keys]
        ids = ", ".join(sorted({row for x in by_key.values() for row in x.rows}))
        rows.append(
            TableRow(
                [("", 0)], config, index, numbers, False, [], chip="published", note=f"rows {ids}"
            )
        )
    return rows


def _measured(comparison: Comparison, cell: Cell, key: str, scale: Scale) -> Number:
    column = comparison.column(key)
    if column is not None and column.is_power:
        return power_number(cell, column)
    value = cell.values.get(key)
    if value is None:
        return Number(MISSING, point_id=cell.point_id, missing=True)
    factor = scale.of(BY_KEY[key])[1]
    return Number(*cell_texts(value, factor), cell.point_id)


def _printed(cell: PublishedCell | None, scale: Scale) -> Number:
    if cell is None:
        return Number("–", missing=True)
    factor = scale.of(BY_KEY[cell.key])[1]
    text = cell.printed if cell.printed and factor == 1.0 else format_number(cell.value / factor)
    marks: tuple[Mark, ...] = ()
    if not cell.stated:
        marks = (mark("not-stated", f"{cell.source}, row {', '.join(cell.rows)}: {cell.at}"),)
    return Number(text, marks=marks, fact=True)


def printed_wrong(comparison: Comparison) -> list[Finding]:
    """Return an error for each published number that the brief would print with another value."""
    scales, findings = scales_of(comparison), []
    kinds = {point.key: point.kind for s in comparison.sections for point in s.points}
    for cell in comparison.published:
        scale = scales[kinds[cell.point_key]]
        text = _printed(cell, scale).text
        value = cell.value / scale.of(BY_KEY[cell.key])[1]
        if not math.isclose(float(text.replace(",", "")), value, rel_tol=PRINTED_WITHIN):
            finding = Finding(
                rule=RULE,
                severity="error",
                rows=list(cell.rows),
                printed=f"{text} {scale.of(BY_KEY[cell.key])[0]} ({cell.label})",
                recomputed=significant(value, 4),
                why="A published number stands in the brief as another one.",
            )
            findings.append(finding)
    return findings


def _notes(comparison: Comparison, tables: Sequence[PublishedTable]) -> list[str]:
    notes = []
    for table in tables:
        rows = f"table {table.name} with {len(table.rows):,} printed facts"
        notes.append(f"Source: {table.about.text or table.name} ({rows}).")
        for name in dict.fromkeys(n for s in comparison.sections for n in s.page.load.outstanding):
            setting = _setting(table, name)
            points = [p for s in comparison.sections for p in s.points if name in p.params]
            measured = {p.params[name] for p in points}
            if len(setting) == 1 and len(measured) == 1 and setting != measured:
                printed, measured_value = setting.pop(), measured.pop()
                notes.append(
                    f"Not the same concurrency: {title_of(points[0].page, name)} "
                    f"{format_value(points[0].page, name, printed)} in {table.name}, "
                    f"{format_value(points[0].page, name, measured_value)} here. "
                    "Read the latencies accordingly."
                )
    return notes


def _setting(table: PublishedTable, name: str) -> set[float | None]:
    """Return the values that a publication gives for a setting that applies to all results."""
    rows = [r for r in table.rows if r.kind == "config" and not r.config and r.value is not None]
    return {r.value for r in rows if quantity_of(r).name == name and not quantity_of(r).part}
