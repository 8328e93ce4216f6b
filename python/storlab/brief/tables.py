"""The tables of numbers: per section, of ratios, and of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from storlab.analysis.compare import Cell, Column, Comparison, Ratio, Row
from storlab.analysis.dataset import RunData
from storlab.analysis.efficiency import Account, metric_at
from storlab.analysis.points import Section, WorkloadPoint, format_value, title_of
from storlab.brief.flags import MEANINGS, Mark, cell_marks, legend, mark
from storlab.brief.model import DataTable, Number, PointRuns, RunRow, TableRow
from storlab.brief.power import power_number, power_ratio
from storlab.brief.text import latency_unit, plural, ratio_spread, spread_text
from storlab.figures.common import MISSING, NOT_MEASURED, digits3, times_text

TABLE_KEYS = (
    "throughput_mb_s.all",
    "iops.all",
    "latency_mean_ns.read",
    "latency_p99_ns.read",
    "latency_mean_ns.write",
    "latency_p99_ns.write",
    "latency_mean_ns.trim",
    "latency_p99_ns.trim",
    "intended_latency_mean_ns.read",
    "intended_latency_p99_ns.read",
    "intended_latency_mean_ns.write",
    "intended_latency_p99_ns.write",
    "concurrency_effective.all",
    "power_w.all",
    "efficiency_mb_s_w.all",
)
RUN_KEYS = (*TABLE_KEYS[:-1], "energy_j.all", "cpu_us_per_io.all")
RATIO_TABLE_KEYS = (
    "throughput_mb_s.all",
    "latency_mean_ns.read",
    "latency_p99_ns.read",
    "latency_mean_ns.write",
    "latency_p99_ns.write",
    "intended_latency_mean_ns.read",
    "intended_latency_p99_ns.read",
    "intended_latency_mean_ns.write",
    "intended_latency_p99_ns.write",
    "efficiency_mb_s_w.all",
)
SHORT = {
    "throughput_mb_s.all": "throughput",
    "iops.all": "IOPS",
    "latency_mean_ns.read": "read mean",
    "latency_p99_ns.read": "read p99",
    "latency_mean_ns.write": "write mean",
    "latency_p99_ns.write": "write p99",
    "latency_mean_ns.trim": "trim mean",
    "latency_p99_ns.trim": "trim p99",
    "intended_latency_mean_ns.read": "read mean, intended",
    "intended_latency_p99_ns.read": "read p99, intended",
    "intended_latency_mean_ns.write": "write mean, intended",
    "intended_latency_p99_ns.write": "write p99, intended",
    "concurrency_effective.all": "effective concurrency",
    "cpu_us_per_io.all": "client CPU",
    "power_w.all": "power",
    "power_p95_w.all": "power p95",
    "idle_power_w.all": "idle power",
    "energy_j.all": "energy",
    "efficiency_mb_s_w.all": "per watt",
    "efficiency_tb_kwh.all": "per energy",
    "iops_w.all": "operations per watt",
    "efficiency_net_mb_s_w.all": "per watt above idle",
}
UNITS = {"1/s": "1/s", "MB/s": "MB/s", "us/IO": "µs/IO", "1": ""}


class Scale:
    """One latency unit for every table of a brief."""

    def __init__(self, comparison: Comparison) -> None:
        values = [
            value.estimate
            for row in comparison.rows.values()
            for cell in row.cells.values()
            for key, value in cell.values.items()
            if key.startswith("latency_mean") and value.estimate > 0
        ]
        self.unit, self.factor = latency_unit(values)

    def of(self, column: Column) -> tuple[str, float]:
        """Unit to print and factor to divide by."""
        return (
            (self.unit, self.factor)
            if column.unit == "ns"
            else (UNITS.get(column.unit, column.unit), 1.0)
        )


def columns_for(comparison: Comparison, keys: Iterable[str]) -> list[Column]:
    """The columns of these keys that were measured, in this order."""
    return [column for key in keys if (column := comparison.column(key)) is not None]


def section_table(
    comparison: Comparison, section: Section, scale: Scale, keys: Iterable[str] = TABLE_KEYS
) -> DataTable:
    """Every point of a section with every target that the study runs it on."""
    targets = _planned(comparison, section)
    cells = [c for point in section.points for c in comparison.row(point).cells.values()]
    known = {key for cell in cells for key in cell.values}
    columns = [c for c in columns_for(comparison, keys) if c.key in known or not known]
    names = [name for name in (section.axes.facet, section.axes.x) if name is not None]
    rows: list[TableRow] = []
    for facet in section.facets():
        points = section.of_facet(facet)
        for number, point in enumerate(points):
            for place, target in enumerate(targets):
                heads = _heads(point, names, number, place, len(points), len(targets))
                index = comparison.targets.index(target)
                cell = comparison.row(point).cells[target]
                numbers = [_number(cell, column, scale) for column in columns]
                links = [(plural(len(cell.runs), "run"), cell.point_id)] if cell.point_id else []
                rows.append(TableRow(heads, target, index, numbers, place == 0, links))
    caption = f"{section.title}: mean of the repeats, with the 95 % interval below it"
    return DataTable(
        caption,
        [title_of(name) for name in names],
        [(SHORT[c.key], scale.of(c)[0]) for c in columns],
        rows,
        legend(m for row in rows for number in row.numbers for m in number.marks),
    )


def _planned(comparison: Comparison, section: Section) -> list[str]:
    """The targets that a section has points of, all of them where it has none."""
    rows = [comparison.row(point) for point in section.points]
    named = [t for t in comparison.targets if any(row.cells[t].point_id for row in rows)]
    return named or comparison.targets


def _heads(
    point: WorkloadPoint, names: Sequence[str], number: int, index: int, points: int, targets: int
) -> list[tuple[str, int]]:
    spans = [points * targets if number == 0 and index == 0 else 0] * (len(names) - 1)
    spans.append(targets if index == 0 else 0)
    return [
        (format_value(name, point.params.get(name)), span)
        for name, span in zip(names, spans, strict=True)
    ]


def _number(cell: Cell, column: Column, scale: Scale) -> Number:
    if column.is_power:
        return power_number(cell, column)
    value = cell.values.get(column.key)
    if value is None:
        relevant = not cell.measured
        return Number(MISSING if relevant else "–", point_id=cell.point_id, missing=True)
    _, factor = scale.of(column)
    marks = list(cell_marks(cell.flags, len(cell.runs), latency=column.is_latency))
    if column.percent is None:
        marks = [m for m in marks if m.kind != "few-operations"]
    return Number(
        digits3(value.estimate / factor),
        spread_text(value, factor),
        cell.point_id,
        (*marks, *_count_marks(cell)),
    )


def _count_marks(cell: Cell) -> list[Mark]:
    marks = []
    if len(cell.runs) == 1:
        marks.append(mark("one-run", "one run finished"))
    if len(cell.runs) < cell.planned:
        failed = f", {len(cell.failed)} failed" if cell.failed else ""
        said = f"{len(cell.runs)} of {plural(cell.planned, 'planned run')} finished{failed}"
        marks.append(mark("incomplete", said))
    if cell.provenance in NOT_MEASURED:
        kind = cell.provenance if cell.provenance in MEANINGS else "modelled"
        marks.append(mark(kind, f"provenance: {cell.provenance}"))
    return marks


def _comparable(row: Row, comparison: Comparison) -> list[str]:
    """The targets that the study runs this work on, as it does the baseline."""
    if row.cells[comparison.baseline].point_id is None:
        return []
    return [target for target in comparison.others if row.cells[target].point_id]


def ratio_table(comparison: Comparison, keys: Iterable[str] = RATIO_TABLE_KEYS) -> DataTable | None:
    """Every ratio to the baseline; None where there is nothing to compare."""
    every = [ratios for row in comparison.rows.values() for ratios in row.ratios.values()]
    known = {key for ratios in every for key in ratios}
    if any(row.refused for row in comparison.rows.values()):
        known |= {column.key for column in comparison.columns if column.is_power}
    columns = [c for c in columns_for(comparison, keys) if c.key in known or not known]
    rows = []
    for section in comparison.sections:
        for place, point in enumerate(section.points):
            row = comparison.row(point)
            others = _comparable(row, comparison)
            for number, target in enumerate(others):
                where = section.where(point)
                heads = [(where, len(others) if number == 0 else 0)]
                numbers = [
                    power_ratio(row, target, comparison.baseline, column)
                    if column.is_power
                    else _ratio_number(
                        row.ratios[target].get(column.key),
                        row.cells[target],
                        row.cells[comparison.baseline],
                        column,
                    )
                    for column in columns
                ]
                index = comparison.targets.index(target)
                sides = (row.cells[target], row.cells[comparison.baseline])
                links = [(side.target, side.point_id) for side in sides if side.point_id]
                first = place == 0 and number == 0
                rows.append(TableRow(heads, target, index, numbers, first, links))
    if not rows or not columns:
        return None
    caption = (
        f"Ratio to {comparison.baseline}, with the 95 % interval below it; "
        "bold where the interval excludes 1"
    )
    return DataTable(
        caption,
        ["workload point"],
        [(SHORT[c.key], "") for c in columns],
        rows,
        legend(m for row in rows for number in row.numbers for m in number.marks),
    )


def _ratio_number(ratio: Ratio | None, cell: Cell, base: Cell, column: Column) -> Number:
    if ratio is None:
        none = not (cell.measured and base.measured)
        return Number(MISSING if none else "–", point_id=cell.point_id, missing=True)
    marks: list[Mark] = []
    for side in (cell, base):
        for m in cell_marks(side.flags, len(side.runs), latency=column.is_latency):
            if m.kind == "few-operations" and column.percent is None:
                continue
            marks.append(mark(m.kind, f"{side.target}: {m.message}"))
        marks += [mark(m.kind, f"{side.target}: {m.message}") for m in _count_marks(side)]
    if ratio.concurrency is not None:
        one, other = (digits3(v) for v in ratio.concurrency)
        text = f"effective concurrency {one} on {cell.target}, {other} on {base.target}"
        marks.append(mark("different-concurrency", text))
    return Number(
        times_text(ratio.interval.estimate),
        ratio_spread(ratio.interval),
        cell.point_id,
        tuple(_joined(marks)),
        strong=ratio.decided,
    )


def _joined(marks: Sequence[Mark]) -> list[Mark]:
    """One mark per kind, with both sides' messages."""
    by_kind: dict[str, list[Mark]] = {}
    for m in marks:
        by_kind.setdefault(m.kind, []).append(m)
    return [mark(kind, "; ".join(m.message for m in same)) for kind, same in by_kind.items()]


def appendix(comparison: Comparison, scale: Scale, hrefs: dict[int, str]) -> list[PointRuns]:
    """Every point with all its runs. ``hrefs`` maps id(store) to its directory as a link."""
    columns = columns_for(comparison, RUN_KEYS)
    found = []
    for section in comparison.sections:
        for point in section.points:
            for index, target in enumerate(comparison.targets):
                cell = comparison.row(point).cells[target]
                if cell.point_id is None:
                    continue
                where = section.where(point)
                runs = [
                    run_row(run, columns, scale, hrefs[id(run.store)], cell.power)
                    for run in comparison.dataset.of(point, target)
                ]
                found.append(PointRuns(cell.point_id, target, index, where, cell.planned, runs))
    return found


def run_row(
    run: RunData, columns: Sequence[Column], scale: Scale, href: str, power: Account | None
) -> RunRow:
    """One run as text."""
    record = run.record
    values = []
    for column in columns:
        value = record.metric(column.name, column.operation)
        if column.is_power and power is not None:  # at the boundary that the brief shows
            metric = metric_at(record, column.name, power.boundary)
            value = None if metric is None else metric.value
        if value is None and column.name == "concurrency_effective" and record.concurrency:
            value = record.concurrency.implied
        values.append("–" if value is None else digits3(value / scale.of(column)[1]))
    failure = "" if record.failure is None else record.failure.message
    return RunRow(
        record.run_id,
        record.repeat,
        record.status,
        record.started_at.replace("T", " ")[:19],
        values,
        [mark(flag.kind, flag.message) for flag in record.flags],
        failure,
        f"{href}runs/{record.run_id}/",
    )
