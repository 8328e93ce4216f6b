"""Summary tables of cluster runs: best results of each sweep, and scaling with clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from storlab.analysis import density, digits
from storlab.analysis.clients import sections_by_clients
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.dataset import TargetColumn
from storlab.analysis.points import CLIENTS, Section, WorkloadPoint
from storlab.base.units import TB
from storlab.brief.density import declared_text
from storlab.brief.flags import legend
from storlab.brief.model import DataTable, Number, TableRow
from storlab.brief.tables import Leaf, Scale, Scales, number_of, table_of
from storlab.contracts.page import Page
from storlab.figures.common import is_swept, place_of
from storlab.model.decision import Interval
from storlab.words.text import MISSING, cell_texts, plural

THROUGHPUT = "throughput_mb_s.all"
GB = 1e-3  # GB/s per MB/s
NONE = Number("–", missing=True)
UNDECLARED = Number("not declared", missing=True)


def maxima_tables(comparison: Comparison, scales: Scales) -> list[DataTable]:
    """Build tables of the best mean throughput of each mix and block size over a sweep.

    Each value is given with the point at which it was measured. A second table divides the values
    by declared capacity and price.
    """
    tables = []
    for kind, sections in comparison.kinds.items():
        page, axis, scale = sections[0].page, _axis(sections), scales[kind]
        made = [
            (place_of(section, facet), section.at(point), cell)
            for section in sections
            if is_swept(section)
            for facet in section.facets()
            for point, cell in _largest(comparison, section, facet)
        ]
        if not made:
            continue
        head = [
            ("throughput", "GB/s"),
            (page.operations.rate_short, ""),
            ("at", ""),
            ("outstanding", ""),
        ]
        leaves = [Leaf([w], c, _most(comparison, at, c, page, scale)) for w, at, c in made]
        caption = f"Maxima over {axis}: the largest mean, and where it was found"
        tables.append(_table(comparison, sections, caption, head, leaves))
        if worth := _worth_head(comparison, page):
            leaves = [Leaf([w], c, _worth(comparison, c, page)) for w, _, c in made]
            caption = f"Maxima over {axis}, by what the target holds and costs, as declared"
            tables.append(_table(comparison, sections, caption, worth, leaves))
    return tables


def _table(
    comparison: Comparison,
    sections: Sequence[Section],
    caption: str,
    head: list[tuple[str, str]],
    leaves: list[Leaf],
) -> DataTable:
    if len(comparison.kinds) > 1:
        caption = f"{sections[0].workload}: {caption[:1].lower()}{caption[1:]}"
    return table_of(comparison, caption, ["workload"], head, leaves)


def _axis(sections: Sequence[Section]) -> str:
    names = dict.fromkeys(
        section.axes.x.replace("_", " ") for section in sections if is_swept(section)
    )
    return " or ".join(names)


def _largest(
    comparison: Comparison, section: Section, facet: object
) -> Iterator[tuple[WorkloadPoint, Cell]]:
    """Yield for each target the point with the largest mean throughput, and the target's cell."""
    points = section.of_facet(facet)
    for target in comparison.planned(points):
        cells = [(p, comparison.row(p).cells[target]) for p in points]
        known = [(p, c) for p, c in cells if THROUGHPUT in c.values]
        yield max(known, key=lambda pair: pair[1].values[THROUGHPUT].estimate, default=cells[-1])


def _most(comparison: Comparison, at: str, cell: Cell, page: Page, scale: Scale) -> list[Number]:
    if not cell.measured:
        return [Number(MISSING, point_id=cell.point_id, missing=True)] * 4
    outstanding = NONE
    if cell.configured is not None:
        outstanding = Number(f"{cell.configured:,.0f}", "", cell.point_id)
    return [
        gb_number(comparison, cell, scale),
        key_number(comparison, cell, page.operations.rate.key, scale),
        Number(at, "", cell.point_id),
        outstanding,
    ]


def gb_number(comparison: Comparison, cell: Cell, scale: Scale) -> Number:
    """Return the throughput of a target at a point as a table number in GB/s."""
    value = cell.values.get(THROUGHPUT)
    number = key_number(comparison, cell, THROUGHPUT, scale)
    if value is None:
        return number
    shown = density.scaled(value, GB) or value
    text, spread = cell_texts(shown)
    return replace(number, text=text, spread=spread if number.spread else "")


def key_number(comparison: Comparison, cell: Cell, key: str, scale: Scale) -> Number:
    """Return the value of a column as a table number; a dash if the column does not exist."""
    column = comparison.column(key)
    return NONE if column is None else number_of(cell, column, scale)


def _currency(comparison: Comparison) -> str:
    """Return the currency of the declared costs; empty if none or several are declared."""
    targets = [column.target for column in comparison.dataset.targets]
    currencies = {t.currency for t in targets if density.whole_cost(t) is not None}
    return currencies.pop() if len(currencies) == 1 else ""


def _worth_head(comparison: Comparison, page: Page) -> list[tuple[str, str]]:
    """Return the headings of the columns that divide maxima by declared capacity or cost."""
    targets = [column.target for column in comparison.dataset.targets]
    rate = page.operations.rate_short
    head: list[tuple[str, str]] = []
    if any(t.capacity for t in targets):
        head += [("per raw TB", "GB/s"), ("per raw TB", rate)]
    if any(t.usable for t in targets):
        head += [("per usable TB", "GB/s"), ("per usable TB", rate)]
    if money := _currency(comparison):
        head += [(f"{money} per GB/s", ""), (f"{money} per 1,000 {rate}", "")]
    return head


def _worth(comparison: Comparison, cell: Cell, page: Page) -> list[Number]:
    columns = {column.label: column.target for column in comparison.dataset.targets}
    target, rate = columns[cell.target], page.operations.rate.key
    values: list[Interval | None] = []
    if not cell.measured:
        missing = Number(MISSING, point_id=cell.point_id, missing=True)
        return [missing] * len(_worth_head(comparison, page))
    targets = columns.values()
    if any(t.capacity for t in targets):
        per_tb = density.per_tb(cell, target, THROUGHPUT)
        values += [density.scaled(per_tb, GB), density.per_tb(cell, target, rate)]
    if any(t.usable for t in targets):
        per_tb = density.per_usable_tb(cell, target, THROUGHPUT)
        values += [density.scaled(per_tb, GB), density.per_usable_tb(cell, target, rate)]
    if _currency(comparison):
        values += [
            density.cost_per(cell, target, THROUGHPUT, GB),
            density.cost_per(cell, target, rate, 1e-3),
        ]
    return [UNDECLARED if v is None else Number(*cell_texts(v), cell.point_id) for v in values]


def fast_facts(comparison: Comparison, scales: Scales) -> list[DataTable]:
    """Build a table per workload family with one row per target: capacity and best results."""
    tables = []
    for kind, sections in comparison.kinds.items():
        page = sections[0].page
        points = [point for section in sections for point in section.points]
        rows = [
            _facts(comparison, index, column, points, page, scales[kind])
            for index, column in enumerate(comparison.dataset.targets)
        ]
        caption = "Fast facts: what each target holds, and the most that it did"
        if len(comparison.kinds) > 1:
            caption = f"{sections[0].workload}: {caption[:1].lower()}{caption[1:]}"
        head = [
            ("raw", "TB"), ("usable", "TB"), ("drives", ""),
            ("most", "GB/s"), ("per raw TB", "GB/s"),
            ("most", page.operations.rate_short), ("per raw TB", page.operations.rate_short),
        ]  # fmt: skip
        marks = legend(m for row in rows for number in row.numbers for m in number.marks)
        tables.append(DataTable(caption, [], head, rows, marks))
    return tables


def _facts(
    comparison: Comparison,
    index: int,
    column: TargetColumn,
    points: Sequence[WorkloadPoint],
    page: Page,
    scale: Scale,
) -> TableRow:
    target = column.target
    cells = [comparison.row(point).cells[column.label] for point in points]
    best = [
        max(known, key=lambda cell, k=key: cell.values[k].estimate) if known else None  # type: ignore[misc]
        for key in (THROUGHPUT, page.operations.rate.key)
        for known in [[cell for cell in cells if key in cell.values]]
    ]
    fast, busy = best
    numbers = [
        _fact(None if target.capacity is None else target.capacity / TB),
        _fact(None if target.usable is None else target.usable / TB),
        _fact(target.drives),
        NONE if fast is None else gb_number(comparison, fast, scale),
        _per(fast, density.scaled(density.per_tb(fast, target, THROUGHPUT), GB) if fast else None),
        NONE if busy is None else key_number(comparison, busy, page.operations.rate.key, scale),
        _per(busy, density.per_tb(busy, target, page.operations.rate.key) if busy else None),
    ]
    links = [
        (what, cell.point_id)
        for what, cell in (("throughput", fast), (page.operations.rate_short, busy))
        if cell is not None and cell.point_id
    ]
    return TableRow([], column.label, index, numbers, True, links)


def _fact(value: float | None) -> Number:
    if value is None:
        return UNDECLARED
    return Number(declared_text(value), fact=True)


def _per(cell: Cell | None, value: Interval | None) -> Number:
    if cell is None or value is None:
        return NONE if cell is None else UNDECLARED
    return Number(*cell_texts(value), cell.point_id)


def scaling_tables(comparison: Comparison, scales: Scales) -> list[DataTable]:
    """Build tables of scaling with clients: total, per client, and percent of linear scaling."""
    own = [section for section in comparison.sections if section.axes.x == CLIENTS]
    sections = [s for s in [*own, *sections_by_clients(comparison)] if is_swept(s)]
    families: dict[tuple[str, str, str], list[Section]] = {}
    for section in sections:
        families.setdefault(section.family, []).append(section)
    tables = []
    for members in families.values():
        leaves = [
            leaf
            for section in members
            for facet in section.facets()
            for leaf in _scaled(comparison, section, facet, scales[section.kind])
        ]
        rate = members[0].page.operations.rate_short
        head = [
            ("throughput", "GB/s"), (rate, ""), ("each client", "MB/s"), ("speed-up", ""),
            ("scaling efficiency", "%"),
        ]  # fmt: skip
        caption = f"Scaling with clients, {members[0].workload}: the whole, and each client"
        tables.append(table_of(comparison, caption, ["workload", "clients"], head, leaves))
    return tables


def _scaled(
    comparison: Comparison, section: Section, facet: object, scale: Scale
) -> Iterator[Leaf]:
    points = section.of_facet(facet)
    first = points[0]
    for point in points:
        for target in comparison.planned(points):
            cell, few = (comparison.row(p).cells[target] for p in (point, first))
            value, base = cell.values.get(THROUGHPUT), few.values.get(THROUGHPUT)
            numbers = [
                gb_number(comparison, cell, scale),
                key_number(comparison, cell, section.page.operations.rate.key, scale),
            ]
            if value is None or base is None or not base.estimate or not point.clients:
                numbers += [NONE, NONE, NONE]
            else:
                times = value.estimate / base.estimate
                share = 100 * times * (first.clients or 1) / point.clients
                per_client = density.scaled(value, 1 / point.clients) or value
                marks = numbers[0].marks
                numbers += [
                    Number(*cell_texts(per_client), cell.point_id, marks),
                    Number(digits.times(times), "", cell.point_id, marks),
                    Number(f"{share:.0f}", "", cell.point_id, marks),
                ]
            yield Leaf([place_of(section, facet), str(point.clients)], cell, numbers)


def clients_words(counts: Sequence[int]) -> str:
    """Return a phrase such as ``12 clients`` or ``1, 2 and 4 clients``."""
    if len(counts) == 1:
        return plural(counts[0], "client")
    texts = [str(count) for count in counts]
    return f"{', '.join(texts[:-1])} and {texts[-1]}\u00a0clients"
