"""Build heat tables: coloured overviews of which target is better, where, and by how much.

Rows are mixes, columns are quantities at each block size, at the last point of the sweep. A cell
gives the factor by which the better target leads, in the colour and with the sign of that target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from storlab.analysis import digits
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint, short_mix, title_of
from storlab.brief.flags import Mark, general
from storlab.brief.model import HeatCell, HeatRow, HeatTable
from storlab.brief.tables import ratio_number
from storlab.figures.common import (
    far_points,
    last_point,
    last_point_text,
    latency_kind,
    operations_of,
)
from storlab.figures.theme import sign_of
from storlab.model.decision import Decision
from storlab.words.outcomes import OUTCOMES

STEPS = (1.1, 1.5, 2.5, 5.0)  # smallest ratio of each colour step
FEWEST = 3  # cells; with fewer, sentences are easier to read


@dataclass(frozen=True, slots=True)
class _Head:
    """Column of a heat table: one quantity at one block size (or other facet)."""

    key: str
    words: str
    facet: Any
    text: str  # block size (or other facet) as text


def heat_tables(comparison: Comparison) -> list[HeatTable]:
    """Build a heat table for each workload family with at least three comparisons."""
    if not comparison.others:
        return []
    families = list(dict.fromkeys(section.family for section in comparison.sections))
    tables = (
        _table(comparison, [s for s in comparison.sections if s.family == family])
        for family in families
    )
    return [table for table in tables if table is not None]


def _table(comparison: Comparison, sections: list[Section]) -> HeatTable | None:
    heads = list(_heads(comparison, sections))
    rows = [
        HeatRow(
            short_mix(section.page, section.title),
            target,
            comparison.targets.index(target),
            [_cell(comparison, section, target, head) for head in heads],
        )
        for section in sections
        for target in comparison.others
    ]
    groups = _groups(heads)
    common = [_shared(rows, spans) for spans in _spans(groups)]
    everywhere = _of_all(common)
    for marks, span in zip(common, _spans(groups), strict=True):
        _leave_out(rows, span, marks)
    cells = [cell for row in rows for cell in row.cells]
    count = sum(cell is not None and cell.point_id is not None for cell in cells)
    if count < FEWEST:
        return None
    first = sections[0]
    far = far_points(comparison, sections).values()
    shared = {first.at(point) for _, places in far for _, point in places}
    where = shared.pop() if len(shared) == 1 else last_point_text(first)
    name = f"{first.prefix}: " if first.prefix else ""
    return HeatTable(
        caption=f"{name}{'l' if name else 'L'}ead of the better target"
        + (f" at {where}" if where else "")
        + ", in its colour and with its symbol",
        head=title_of(first.page, first.page.parameters.mix)
        if first.page.parameters.mix
        else "workload",
        groups=groups,
        columns=[head.text for head in heads],
        rows=rows,
        shared=[tuple(m for m in own if m not in everywhere) for own in common],
        everywhere=everywhere,
        signs=[(target, index, sign_of(index)) for index, target in enumerate(comparison.targets)],
        several=len(comparison.others) > 1,
        baseline=comparison.baseline,
        chance=f"{count:,} comparisons, each with its own interval: about 5 % of the cells would "
        "be coloured by chance if the targets were equal",
    )


def _groups(heads: Sequence[_Head]) -> list[tuple[str, int]]:
    """Return the heading of each quantity with the number of columns below it."""
    words = list(dict.fromkeys(head.words for head in heads))
    return [(word, sum(head.words == word for head in heads)) for word in words]


def _spans(groups: Sequence[tuple[str, int]]) -> list[range]:
    """Return the indices of the columns below each heading."""
    ends = list(accumulate(count for _, count in groups))
    return [range(end - count, end) for end, (_, count) in zip(ends, groups, strict=True)]


def _shared(rows: Sequence[HeatRow], span: range) -> tuple[Mark, ...]:
    """Return the marks that all cells of a quantity have; its heading shows them instead."""
    every = [cell for row in rows for at in span if (cell := row.cells[at]) is not None]
    cells = [cell for cell in every if cell.point_id is not None]
    kinds = [{m.kind for m in cell.marks} for cell in cells]
    if len(cells) < 2:
        return ()
    shared = (m for m in cells[0].marks if all(m.kind in own for own in kinds))
    return tuple(general(m) for m in shared)


def _of_all(common: Sequence[tuple[Mark, ...]]) -> tuple[Mark, ...]:
    """Return the marks that all quantities share, if there are several quantities."""
    if len(common) < 2:
        return ()
    return tuple(m for m in common[0] if all(m in own for own in common))


def _leave_out(rows: Sequence[HeatRow], span: range, marks: Sequence[Mark]) -> None:
    kinds = {m.kind for m in marks}
    for row in rows:
        for at in span:
            if (cell := row.cells[at]) is not None:
                own = tuple(m for m in cell.marks if m.kind not in kinds)
                row.cells[at] = replace(cell, marks=own)


def _heads(comparison: Comparison, sections: Sequence[Section]) -> Iterator[_Head]:
    """Yield the columns: compared quantities of which larger or smaller values are better."""
    facets: dict[str, Any] = {}
    for section in sections:
        facets |= {str(facet): facet for facet in section.facets()}
    for key, words in _quantities(comparison, sections[0]):
        column = comparison.column(key)
        if column is None or not column.better:
            continue
        for facet in facets.values():
            if any(_decisions(comparison, section, facet, key) for section in sections):
                owner = next(s for s in sections if facet in s.facets())
                yield _Head(key, words, facet, owner.facet_text(facet))


def _quantities(comparison: Comparison, section: Section) -> Iterator[tuple[str, str]]:
    """Yield key and name of each quantity: the family's own findings, or throughput and latency."""
    page = section.page
    if page.metrics.findings:
        keys = (*page.metrics.headline, *page.metrics.findings)
        for quantity in page.metrics.quantities:
            if quantity.key in keys:
                yield quantity.key, quantity.title
        return
    prefix, _ = latency_kind(comparison, section)
    yield "throughput_mb_s.all", "throughput"
    for operation, name in operations_of(section):
        yield f"{prefix}_mean_ns.{operation}", f"mean {name} latency"
    for operation, name in operations_of(section):
        yield f"{prefix}_p99_ns.{operation}", f"p99 {name} latency"
    if any(cell.power for row in comparison.rows.values() for cell in row.cells.values()):
        yield "efficiency_mb_s_w.all", "throughput per watt"


def _point(comparison: Comparison, section: Section, facet: Any) -> WorkloadPoint | None:
    return last_point(comparison, section, facet) if facet in section.facets() else None


def _decisions(
    comparison: Comparison, section: Section, facet: Any, key: str
) -> dict[str, Decision]:
    point = _point(comparison, section, facet)
    if point is None:
        return {}
    of_targets = comparison.row(point).decisions
    return {target: own[key] for target, own in of_targets.items() if key in own}


def _cell(comparison: Comparison, section: Section, target: str, head: _Head) -> HeatCell | None:
    decision = _decisions(comparison, section, head.facet, head.key).get(target)
    column, point = comparison.column(head.key), _point(comparison, section, head.facet)
    if decision is None or column is None or point is None:
        return None
    row = comparison.row(point)
    cell, base = row.cells[target], row.cells[comparison.baseline]
    if decision.interval is None:
        return HeatCell(OUTCOMES[decision.outcome], "", None, "", 0, None, note=decision.reason)
    marks = ratio_number(decision, cell, base, column).marks
    lead = decision.leader_first
    index, gain = comparison.targets.index(lead.sides[0]), lead.advantage
    if not decision.decided:
        text, spread = OUTCOMES[decision.outcome], digits.ends_text(decision.ratio)
        return HeatCell(text, spread, None, "", 0, cell.point_id, marks)
    return HeatCell(
        digits.times(gain).replace("at least ", "≥\u202f"),
        digits.ends_text(gain),
        index,
        sign_of(index),
        sum(gain.estimate >= step for step in STEPS),
        cell.point_id,
        marks,
    )
