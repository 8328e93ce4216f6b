"""Show published percentages, such as "40 % faster than", beside ratios measured in this campaign.

Publications may print percentages without values. These claims are converted to ratios, as in the
audit. They are not used in means, ratios or findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from storlab.analysis import digits
from storlab.analysis.compare import Comparison
from storlab.analysis.compare import Row as PointRow
from storlab.analysis.points import Section, WorkloadPoint
from storlab.audit.cells import claimed_ratios
from storlab.audit.quantities import quantity_of, size_bytes
from storlab.base.units import exact_number
from storlab.brief.flags import cell_marks, legend, mark, power_marks
from storlab.brief.model import DataTable, Number, TableRow
from storlab.contracts.page import Quantity
from storlab.figures.common import far_places, quantity_named
from storlab.model.decision import Interval
from storlab.model.published import PublishedTable, Row
from storlab.words.text import MISSING, percent

IMPOSSIBLE = "impossible"
FORMS = {"increase": "more", "reduction": "less", "slower": "slower", "faster": "faster"}
TAKES_AWAY = ("reduction", "slower")  # forms of a quantity that cannot fall by more than 100 %


@dataclass(frozen=True, slots=True)
class _Claim:
    """Percentage of a publication, merged from all of its rows that repeat it."""

    table: str
    config: str
    compare: str
    quantity: Quantity
    words: str  # claim as printed
    ratio: float | None  # value of ``config`` / value of ``compare``; None if impossible
    rows: tuple[str, ...]
    sizes: tuple[float, ...] = ()  # transfer sizes in bytes; empty if not stated
    x_name: str = ""  # published name of the swept parameter, such as gdsio_workers
    x: float | None = None

    def is_of(self, section: Section, facet: Any) -> bool:
        """Return whether the claim is about this block size; true if it names no size."""
        is_size = section.axes.facet in section.page.parameters.sizes
        return not (self.sizes and is_size and isinstance(facet, int)) or facet in self.sizes

    def point(self, section: Section, facet: Any, far: WorkloadPoint) -> WorkloadPoint:
        """Return the point that the claim is about, or ``far`` if that was not measured."""
        axis = section.axes.x
        if self.x is None or self.x_name.lower().rpartition("_")[2] != axis:
            return far
        points = section.of_facet(facet)
        return next((point for point in points if point.params.get(axis) == self.x), far)


def claim_tables(comparison: Comparison, tables: Sequence[PublishedTable]) -> list[DataTable]:
    """Build a table of published and measured ratios for each workload family with claims."""
    claimed = []
    for sections in comparison.kinds.values():
        claims = [claim for table in tables for claim in _claims(table, sections[0])]
        rows = [
            row
            for section, facet, far in far_places(comparison, sections)
            for row in _rows(comparison, section, facet, far, claims)
        ]
        if rows:
            claimed.append(_table(rows))
    return claimed


def _claims(table: PublishedTable, section: Section) -> Iterator[_Claim]:
    words, own = section.page.published.names, section.page.metrics.quantities
    grouped: dict[tuple[str, str, str, str, float], list[Row]] = {}
    for row in table.rows:
        printed = quantity_of(row)
        quantity = next((q for q in own if q.published and q.published == printed.name), None)
        of_workload = any(word in row.workload.lower() for word in words)
        if of_workload and printed.is_claim and quantity is not None and row.value is not None:
            place = (row.config, row.compare_config, quantity.key, printed.form, row.value)
            grouped.setdefault(place, []).append(row)
    for (config, compare, key, form, _), rows in grouped.items():
        quantity = quantity_named(section.page, key)
        # Of rows that repeat a number, prefer the one that states block size and swept parameter.
        exact = max(
            (row for row in rows if row.qualifier != "up_to"), key=_places_named, default=None
        )
        row = exact or max(rows, key=_places_named)
        before = "" if exact else "up to "
        words_of = f"{before}{row.printed} {FORMS.get(form, form)} than {compare}"
        if row.x is not None:
            words_of = f"{words_of}, with {exact_number(row.x)} {row.x_name.replace('_', ' ')}"
        ids = tuple(row.id for row in rows)
        if quantity is not None:
            yield _Claim(
                table.name,
                config,
                compare,
                quantity,
                words_of,
                _ratio(row),
                ids,
                tuple(size_bytes(row.block_size)) if row.block_size else (),
                row.x_name,
                row.x,
            )


def _places_named(row: Row) -> int:
    return bool(row.block_size) + (row.x is not None)


def _ratio(row: Row) -> float | None:
    """Return the ratio that a percentage claims, ignoring "up to"; None if it is below 0."""
    if quantity_of(row).form in TAKES_AWAY and (row.value or 0.0) > 100:
        return None
    plain = claimed_ratios(replace(row, qualifier="exact"))
    return plain[0].middle if plain else None


def _rows(
    comparison: Comparison,
    section: Section,
    facet: Any,
    far: WorkloadPoint,
    claims: Sequence[_Claim],
) -> list[TableRow]:
    if not section.page.published.is_comparable(far.params):
        return []
    known = [
        (claim.point(section, facet, far), claim)
        for claim in claims
        if {claim.config, claim.compare} <= set(comparison.targets) and claim.is_of(section, facet)
    ]
    points = [point.key for point, _ in known]
    known.sort(key=lambda pair: points.index(pair[0].key))  # group the claims of one point
    rows = []
    for number, (point, claim) in enumerate(known):
        index = comparison.targets.index(claim.config)
        row = comparison.row(point)
        first = number == 0 or known[number - 1][0].key != point.key
        sides = (row.cells[claim.config], row.cells[claim.compare])
        heads = [
            (section.where(point), points.count(point.key) if first else 0),
            (claim.quantity.title, 1),
            (claim.words, 1),
        ]
        links = [(side.target, side.point_id) for side in sides if side.point_id]
        numbers = [_published(claim), _measured(comparison, row, claim)]
        rows.append(TableRow(heads, claim.config, index, numbers, first, links))
    return rows


def _published(claim: _Claim) -> Number:
    marks = (mark("published", f"{claim.table}, rows {', '.join(claim.rows)}"),)
    if claim.ratio is None:
        return Number(IMPOSSIBLE, "more than all of it", None, marks, fact=True)
    return Number(digits.times(claim.ratio), _change(claim.ratio), None, marks, fact=True)


def _change(ratio: float) -> str:
    """Format a ratio as publications do: ``40 % less``, ``120 % more``."""
    return f"{percent(abs(ratio - 1))} {'less' if ratio < 1 else 'more'}"


def _measured(comparison: Comparison, row: PointRow, claim: _Claim) -> Number:
    """Return the measured ratio of a claim's two targets, inverted if the first is the baseline."""
    interval = _turned(comparison.baseline, row, claim)
    cell, other = row.cells[claim.config], row.cells[claim.compare]
    if interval is None:
        return Number(MISSING, point_id=cell.point_id, missing=True)
    name, is_power = claim.quantity.name, claim.quantity.power
    marks = {
        m.kind: m
        for side in (cell, other)
        for m in (
            *cell_marks(side.flags, len(side.runs), latency=False, name=name),
            *(power_marks(side.power) if is_power and side.power is not None else ()),
        )
    }
    spread, more = digits.ends_text(interval), _change(interval.estimate)
    return Number(
        digits.times(interval),
        f"{spread}, {more}" if spread else more,
        cell.point_id,
        tuple(marks.values()),
        strong=interval.excludes(1.0),
    )


def _turned(baseline: str, row: PointRow, claim: _Claim) -> Interval | None:
    key = claim.quantity.key
    if claim.compare == baseline:
        ratio = row.ratios.get(claim.config, {}).get(key)
        return None if ratio is None else ratio.interval
    ratio = row.ratios.get(claim.compare, {}).get(key) if claim.config == baseline else None
    if ratio is None or ratio.ratio.estimate <= 0:
        return None
    return ratio.ratio.inverse()


def _table(rows: list[TableRow]) -> DataTable:
    return DataTable(
        "Claims as published, and the same ratios measured here with their 95 % interval",
        ["workload point", "quantity", "as published"],
        [("which is", ""), ("measured here", "")],
        rows,
        legend(m for row in rows for number in row.numbers for m in number.marks),
    )
