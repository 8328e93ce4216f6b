"""Tables of numbers in a brief: results of a section, ratios to the baseline, and runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from storlab.analysis import digits
from storlab.analysis.columns import (
    FAMILY_DISTRIBUTIONS,
    STATISTICS,
    TIMES,
    Column,
    groups_of,
    label_of,
    ratio_table_keys,
    run_keys,
    short_of,
    table_keys,
    time_keys,
)
from storlab.analysis.compare import PER_REPEAT, Cell, Comparison, Row
from storlab.analysis.contests import PER_WORDS, share_of
from storlab.analysis.dataset import RunData
from storlab.analysis.efficiency import Account, metric_at
from storlab.analysis.points import Section, WorkloadPoint, format_value, page_of, title_of
from storlab.analysis.verdict import questions_of
from storlab.base.units import format_number
from storlab.brief.flags import (
    Mark,
    column_marks,
    joined,
    legend,
    mark,
    of_side,
    provenance_marks,
)
from storlab.brief.model import DataTable, Number, PointRuns, RunRow, RunTable, TableRow
from storlab.brief.power import power_number, power_ratio
from storlab.contracts.question import Per
from storlab.model.decision import Decision
from storlab.words.text import (
    MISSING,
    cell_texts,
    latency_text,
    latency_unit,
    percent,
    plural,
    range_text,
    sentence_case,
)

UNITS = {"us/IO": "µs/IO", "us": "µs", "1": ""}
COUNTED = ("errors",)  # metrics that are integers


class Scale:
    """Units of a workload family's tables; all latencies get the same unit."""

    def __init__(self, comparison: Comparison, sections: Sequence[Section]) -> None:
        values = [
            value.estimate
            for section in sections
            for point in section.points
            for cell in comparison.row(point).cells.values()
            for key, value in cell.values.items()
            if key.startswith(("latency_mean", "ttfb_mean")) and value.estimate > 0
        ]
        self._unit = latency_unit(values)

    def of(self, column: Column) -> tuple[str, float]:
        """Return the unit to print for a column, and the factor to divide its values by."""
        if column.time in FAMILY_DISTRIBUTIONS:
            # Each value shows its own unit, as these times range from nanoseconds to seconds.
            return "", 1.0
        if column.unit == "ns":
            return self._unit
        if column.unit == "1/s" and column.short.endswith("/s"):
            return "", 1.0
        return UNITS.get(column.unit, column.unit), 1.0


Scales = Mapping[str, Scale]


def scales_of(comparison: Comparison) -> Scales:
    """Choose the latency unit of each workload family's tables."""
    return {kind: Scale(comparison, sections) for kind, sections in comparison.kinds.items()}


def columns_for(comparison: Comparison, keys: Iterable[str]) -> list[Column]:
    """Return the columns with these keys that the comparison has, in the order of the keys."""
    return [column for key in keys if (column := comparison.column(key)) is not None]


def known_columns(
    comparison: Comparison, sections: Sequence[Section], keys: Iterable[str]
) -> list[Column]:
    """Return the columns with values in these sections; all of ``keys`` if no column has any."""
    cells = [
        cell
        for section in sections
        for point in section.points
        for cell in comparison.row(point).cells.values()
    ]
    known = {key for cell in cells for key in cell.values}
    return [c for c in columns_for(comparison, keys) if c.key in known or not known]


def section_tables(
    comparison: Comparison, section: Section, scale: Scale, keys: Collection[str] | None = None
) -> list[DataTable]:
    """Build the tables of a section, with a row for every point and target.

    Families with several percentiles get a separate table of latencies. ``keys`` selects columns.
    """
    if section.page.metrics.quantities and keys is None:
        return _group_tables(comparison, section, scale)
    wanted = table_keys(section.page) if keys is None else list(keys)
    apart = _apart(comparison, section, wanted if keys is not None else None)
    chosen = [key for key in wanted if key not in apart]
    tables = [_point_table(comparison, section, scale, chosen)] if chosen else []
    if apart:
        tables.append(_time_table(comparison, section, scale, apart))
    return tables


def _group_tables(comparison: Comparison, section: Section, scale: Scale) -> list[DataTable]:
    """Build a table for each group of quantities that a workload family defines and measured."""
    tables = [
        _point_table(comparison, section, scale, keys, f"{caption}, {section.title}")
        for caption, keys in groups_of(section.page).items()
        if known_columns(comparison, [section], keys)
    ]
    return [table for table in tables if table.columns]


def _apart(comparison: Comparison, section: Section, wanted: list[str] | None) -> list[str]:
    """Return the keys of the latency columns that get a separate table."""
    page = section.page
    if len(page.operations.percentiles) < 2:
        return []
    every = [
        key
        for operation in page.operations.main
        for time in TIMES
        for key in time_keys(page, time, [operation])
        if wanted is None or key in wanted
    ]
    return [column.key for column in known_columns(comparison, [section], every)]


def _point_table(
    comparison: Comparison,
    section: Section,
    scale: Scale,
    keys: Sequence[str],
    caption: str = "",
) -> DataTable:
    columns = known_columns(comparison, [section], keys)
    names = [name for name in (section.axes.facet, section.axes.x) if name is not None]
    rows: list[Leaf] = []
    for point in section.points:
        for target in comparison.planned(section.points):
            cell = comparison.row(point).cells[target]
            numbers = [number_of(cell, column, scale) for column in columns]
            rows.append(Leaf(_values(section, point, names), cell, numbers))
    return table_of(
        comparison,
        f"{caption or section.title}: {mean_words(rows)}",
        [title_of(section.page, name) for name in names],
        [(short_of(section.page, c), scale.of(c)[0]) for c in columns],
        rows,
    )


def table_of_points(
    comparison: Comparison, sections: Sequence[Section], scale: Scale, keys: Sequence[str]
) -> DataTable:
    """Build one table of all points of a workload family, with a row for every target."""
    columns = known_columns(comparison, sections, keys)
    rows = [
        Leaf([section.where(point)], cell, [number_of(cell, column, scale) for column in columns])
        for section in sections
        for point in section.points
        for target in comparison.planned(section.points)
        for cell in [comparison.row(point).cells[target]]
    ]
    return table_of(
        comparison,
        sentence_case(mean_words(rows)),
        ["workload point"],
        [(short_of(sections[0].page, c), scale.of(c)[0]) for c in columns],
        rows,
    )


def _time_table(
    comparison: Comparison, section: Section, scale: Scale, keys: Sequence[str]
) -> DataTable:
    """Build a table of latencies with a row per point, operation and kind of latency.

    Its columns are statistics: mean and percentiles. One row per point would be too wide.
    """
    page = section.page
    names = [name for name in (section.axes.facet, section.axes.x) if name is not None]
    by_key = {column.key: column for column in columns_for(comparison, keys)}
    statistics = [
        s
        for s in ("mean", *page.operations.percentiles)
        if any(f"_{s}_ns." in key for key in by_key)
    ]
    kinds = list(dict.fromkeys((c.operation, c.time) for c in by_key.values()))
    rows: list[Leaf] = []
    for point in section.points:
        for operation, time in kinds:
            heads = [
                *_values(section, point, names),
                _time_words(page.operations.name_of(operation), time),
            ]
            for target in comparison.planned(section.points):
                cell = comparison.row(point).cells[target]
                columns = (by_key.get(f"{time}_{s}_ns.{operation}") for s in statistics)
                numbers = [Number("–", missing=True) if c is None else number_of(cell, c, scale)
                           for c in columns]  # fmt: skip
                rows.append(Leaf(heads, cell, numbers))
    unit = scale.of(next(iter(by_key.values())))[0]
    marked = {m.label for row in rows for n in row.numbers for m in n.marks if m.kind == PER_REPEAT}
    unmerged = "".join(f" (or, if “{label}”, median of the repeats’ own)" for label in marked)
    return table_of(
        comparison,
        f"{section.title}: latencies, percentiles of the repeats’ merged histograms{unmerged}",
        [*(title_of(page, name) for name in names), "time of"],
        [(STATISTICS[s], unit) for s in statistics],
        rows,
    )


def _time_words(name: str, time: str) -> str:
    more = {"ttfb": ", first byte", "intended_latency": ", from the intended start"}
    return f"{name}{more.get(time, '')}"


def _values(section: Section, point: WorkloadPoint, names: Iterable[str]) -> list[str]:
    return [
        section.facet_text(point.params.get(name))
        if name == section.axes.facet
        else format_value(section.page, name, point.params.get(name))
        for name in names
    ]


@dataclass(frozen=True, slots=True)
class Leaf:
    """Row of a table to build: headings, the target's cell, and numbers."""

    heads: list[str]
    cell: Cell
    numbers: list[Number]


def mean_words(leaves: Sequence[Leaf]) -> str:
    """Return what a table's numbers are, such as ``mean of the repeats, with ...``."""
    both = any(len(leaf.cell.runs) == 2 for leaf in leaves)
    of_two = " (of two repeats, the smaller and the larger)" if both else ""
    return f"mean of the repeats, with the 95 % interval below it{of_two}"


def table_of(
    comparison: Comparison,
    caption: str,
    head: list[str],
    columns: list[tuple[str, str]],
    leaves: Sequence[Leaf],
    *,
    linked: bool = True,
) -> DataTable:
    """Build a table from rows, in which equal headings of neighbouring rows are merged.

    Args:
        comparison: Comparison of all targets.
        caption: What the numbers are.
        head: Headings of the columns of row headings.
        columns: Name and unit of each column of numbers.
        leaves: Rows with their numbers.
        linked: Whether a last column leads to the runs of each row.
    """
    rows = []
    spans = _spans([leaf.heads for leaf in leaves])
    for leaf, heads in zip(leaves, spans, strict=True):
        cell = leaf.cell
        runs = plural(len(cell.runs), "run")
        links = [(runs, cell.point_id)] if cell.point_id and linked else []
        index = comparison.targets.index(cell.target)
        first = heads[-1][1] > 0 if heads else True
        rows.append(TableRow(heads, cell.target, index, leaf.numbers, first, links))
    return DataTable(
        caption,
        head,
        columns,
        rows,
        legend(m for row in rows for number in row.numbers for m in number.marks),
    )


def _spans(heads: Sequence[list[str]]) -> list[list[tuple[str, int]]]:
    """Return the headings of each row, each with the number of rows that it spans.

    A heading that the row above has as well spans 0 rows.
    """
    rows: list[list[tuple[str, int]]] = []
    for place, texts in enumerate(heads):
        row = []
        for level, text in enumerate(texts):
            same = texts[: level + 1]
            if place and heads[place - 1][: level + 1] == same:
                row.append((text, 0))
                continue
            end = place
            while end < len(heads) and heads[end][: level + 1] == same:
                end += 1
            row.append((text, end - place))
        rows.append(row)
    return rows


def number_of(cell: Cell, column: Column, scale: Scale) -> Number:
    """Return the mean of a target at a point as a table number with interval and marks.

    Without a mean, the number's text says that it is missing.
    """
    if column.is_power:
        return power_number(cell, column)
    value = cell.values.get(column.key)
    if value is None:
        relevant = not cell.measured
        return Number(MISSING if relevant else "–", point_id=cell.point_id, missing=True)
    _, factor = scale.of(column)
    marks = column_marks(cell, column)
    if column.name in COUNTED:
        share = cell.values.get("error_percent.all")
        spread = percent(share.estimate / 100) if share is not None and value.estimate else ""
        counted = tuple(_count_marks(cell, column))
        return Number(f"{value.estimate:,.0f}", spread, cell.point_id, counted)
    show = latency_text if column.time in FAMILY_DISTRIBUTIONS else format_number
    text, spread = cell_texts(value, factor, show)
    if own := cell.own_percentiles(column):
        spread = range_text([each / factor for each in own], show)
    return Number(
        text,
        spread,
        cell.point_id,
        (*marks, *_count_marks(cell, column)),
    )


def _count_marks(cell: Cell, column: Column) -> list[Mark]:
    marks = []
    if len(cell.runs) == 1:
        marks.append(mark("one-run", "one run finished"))
    if len(cell.runs) < cell.planned:
        failed = f", {len(cell.failed)} failed" if cell.failed else ""
        text = f"{len(cell.runs)} of {plural(cell.planned, 'planned run')} finished{failed}"
        marks.append(mark("incomplete", text))
    return [*marks, *provenance_marks(cell, column)]


def ratio_table(
    comparison: Comparison, sections: Sequence[Section], keys: Iterable[str] | None = None
) -> DataTable | None:
    """Build the table of a workload family's ratios to the baseline; None if it has none."""
    places = [(section, comparison.row(point)) for section in sections for point in section.points]
    known = {key for _, row in places for ratios in row.ratios.values() for key in ratios}
    if any(row.refused for _, row in places):
        known |= {column.key for column in comparison.columns if column.is_power}
    wanted = ratio_table_keys(sections[0].page) if keys is None else keys
    columns = [c for c in columns_for(comparison, wanted) if c.key in known or not known]
    asked = [key for q in questions_of(comparison, sections) if not q.per for key in q.keys]
    columns.sort(key=lambda c: asked.index(c.key) if c.key in asked else len(asked))
    divided = [] if keys is not None else _divided(comparison, sections, known)
    rows = []
    for section, row in places:
        others = comparison.compared(row)
        for number, target in enumerate(others):
            heads = [(section.where(row.point), len(others) if number == 0 else 0)]
            base = row.cells[comparison.baseline]
            numbers = [
                power_ratio(row, target, comparison.baseline, column)
                if column.is_power
                else ratio_number(
                    row.decisions[target].get(column.key), row.cells[target], base, column
                )
                for column in columns
            ]
            numbers += [_per_number(comparison, row, target, *quantity) for quantity in divided]
            index = comparison.targets.index(target)
            sides = (row.cells[target], base)
            links = [(side.target, side.point_id) for side in sides if side.point_id]
            first = row.point is section.points[0] and number == 0
            rows.append(TableRow(heads, target, index, numbers, first, links))
    if not rows or not columns:
        return None
    page = sections[0].page
    labels = [f"{label_of(page, column)}{PER_WORDS[per]}" for column, per in divided]
    caption = (
        f"Ratio to {comparison.baseline}, with the 95 % interval below it; "
        "bold where the interval excludes 1"
    )
    return DataTable(
        caption,
        ["workload point"],
        [(label, "") for label in (*(label_of(page, c) for c in columns), *labels)],
        rows,
        legend(m for row in rows for number in row.numbers for m in number.marks),
    )


def _divided(
    comparison: Comparison, sections: Sequence[Section], known: Collection[str]
) -> list[tuple[Column, Per]]:
    """Return the quantities that questions ask for per terabyte or per price.

    A quantity is left out unless the baseline and another target declare capacity or price.
    """
    base = comparison.baseline
    return [
        (column, question.per)
        for question in questions_of(comparison, sections)
        if question.per
        and any(share_of(comparison, (t, base), question.per) for t in comparison.others)
        for column in [c for c in columns_for(comparison, question.keys) if c.key in known][:1]
    ]


def _per_number(comparison: Comparison, row: Row, target: str, column: Column, per: Per) -> Number:
    """Return the ratio of a target to the baseline, in value per terabyte or per price."""
    decision = row.ratios[target].get(column.key)
    share = share_of(comparison, (target, comparison.baseline), per)
    if decision is not None:
        scaled = None if share is None else {"interval": decision.ratio.scaled(share)}
        decision = None if scaled is None else decision.model_copy(update=scaled)
    return ratio_number(decision, row.cells[target], row.cells[comparison.baseline], column)


def ratio_number(
    decision: Decision | None,
    cell: Cell,
    base: Cell,
    column: Column,
    names: tuple[str, str] | None = None,
) -> Number:
    """Return the ratio of ``cell`` to ``base`` as a table number with the marks of both.

    ``names`` are what messages of marks call the two; by default the names of their targets.
    """
    names = names or (cell.target, base.target)
    if decision is None or decision.interval is None:
        none = decision is not None or not (cell.measured and base.measured)
        return Number(MISSING if none else "–", point_id=cell.point_id, missing=True)
    marks: list[Mark] = []
    for name, side in zip(names, (cell, base), strict=True):
        every = (*column_marks(side, column), *_count_marks(side, column))
        marks += [of_side(name, m) for m in every]
    if decision.concurrency is not None:
        first, other = (format_number(v) for v in decision.concurrency)
        text = f"effective concurrency {first} on {names[0]}, {other} on {names[1]}"
        marks.append(mark("different-concurrency", text))
    return Number(
        digits.times(decision.ratio),
        digits.ends_text(decision.ratio),
        cell.point_id,
        joined(marks),
        strong=decision.decided,
    )


def run_tables(comparison: Comparison, scales: Scales, hrefs: dict[int, str]) -> list[RunTable]:
    """Build a table of all runs per workload family, grouped by point and target.

    ``hrefs`` maps the ``id()`` of each result store to a link to its directory.
    """
    tables = []
    for kind, sections in comparison.kinds.items():
        scale = scales[kind]
        columns = known_columns(comparison, sections, run_keys(sections[0].page))
        points = [
            point
            for section in sections
            for point in _point_runs(comparison, section, columns, scale, hrefs)
        ]
        names = list(dict.fromkeys(section.workload for section in sections))
        caption = "All runs, by workload point and target"
        if len(comparison.kinds) > 1:
            caption = f"All runs of {' and '.join(names)}, by workload point and target"
        heads = [(label_of(sections[0].page, c), scale.of(c)[0]) for c in columns]
        tables.append(RunTable(caption, heads, points))
    return tables


def _point_runs(
    comparison: Comparison,
    section: Section,
    columns: Sequence[Column],
    scale: Scale,
    hrefs: dict[int, str],
) -> Iterator[PointRuns]:
    for point in section.points:
        for index, target in enumerate(comparison.targets):
            cell = comparison.row(point).cells[target]
            if cell.point_id is None:
                continue
            runs = [
                run_row(run, columns, scale, hrefs[id(run.store)], cell.power)
                for run in comparison.dataset.of(point, target)
            ]
            where = section.where(point)
            yield PointRuns(cell.point_id, target, index, where, cell.planned, runs)


def run_row(
    run: RunData, columns: Sequence[Column], scale: Scale, href: str, power: Account | None
) -> RunRow:
    """Return one run as a row of text for the appendix."""
    record = run.record
    values = []
    for column in columns:
        value = record.metric(column.name, column.operation)
        if column.is_power and power is not None:  # at the power boundary that the brief uses
            metric = metric_at(record, column.name, power.boundary, column.operation)
            value = None if metric is None else metric.value
        if value is None and column.name == "concurrency_effective" and record.concurrency:
            value = record.concurrency.implied
        values.append(_run_value(value, column, scale))
    failure = "" if record.failure is None else record.failure.message
    return RunRow(
        record.run_id,
        record.repeat,
        record.status,
        record.started_at.replace("T", " ")[:19],
        values,
        [mark(flag.kind, flag.message) for flag in record.flags],
        failure,
        f"{href}runs/{run.directory_name}/",
        errors_text(run),
    )


def _run_value(value: float | None, column: Column, scale: Scale) -> str:
    if value is None:
        return "–"
    if column.name in COUNTED:
        return f"{value:,.0f}"
    show = latency_text if column.time in FAMILY_DISTRIBUTIONS else format_number
    return show(value / scale.of(column)[1])


def errors_text(run: RunData) -> str:
    """Describe the failed operations of a run by operation and kind; empty if none failed."""
    page = page_of(run.record.kind)
    parts = []
    for operation, totals in run.record.totals.items():
        kinds = sorted((kind, count) for kind, count in totals.errors.items() if count)
        if kinds:
            counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds)
            parts.append(f"{page.operations.name_of(operation)}: {counts}")
    return "; ".join(parts)
