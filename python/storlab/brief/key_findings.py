"""Key findings of a brief: who is better in each quantity, by how much, and at how many points.

The target that the first question names (or the first one) is compared with each other target, at
every point of the sweep, each with the interval of that comparison alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from storlab.analysis import digits
from storlab.analysis.compare import Comparison
from storlab.analysis.contests import POWER, Contest, Tally, middle, quantity_label, tallies
from storlab.analysis.points import Section
from storlab.analysis.verdict import questions_of, verdicts
from storlab.audit.from_claims import Assertion
from storlab.brief.fact_tables import capacity_text
from storlab.brief.flags import caveat_of, general
from storlab.brief.model import FindingRow, FindingTable
from storlab.contracts.question import Per
from storlab.words import findings as words
from storlab.words.outcomes import OUTCOMES


def key_findings(comparison: Comparison) -> list[FindingTable]:
    """Build a table for each workload family and each target that the leader is compared with.

    Args:
        comparison: Comparison with all points.
    """
    several = len(comparison.kinds) > 1
    return [
        table
        for sections in comparison.kinds.values()
        for leader in [_leader(comparison, sections)]
        for other in comparison.targets
        if other != leader
        for table in [_table(comparison, sections, (leader, other), named=several)]
        if table.rows
    ]


def assertions(tables: Sequence[FindingTable]) -> list[Assertion]:
    """Return all rows that compare two values, for the audit."""
    return [row.finding for table in tables for row in table.rows if row.finding is not None]


def findings_data(tables: Sequence[FindingTable]) -> list[dict[str, Any]]:
    """Return all rows as plain values, for the data embedded in the brief."""
    return [_row_data(table, row) for table in tables for row in table.rows]


def _row_data(table: FindingTable, row: FindingRow) -> dict[str, Any]:
    """Return a row as plain values; its decision is None if the targets are not compared."""
    finding = row.finding
    plain = words.not_compared(row.quantity, table.sides, row.outcome, row.where)
    return {
        "quantity": row.quantity,
        "points": row.won + row.lost + row.undecided,
        "won": row.won,
        "lost": row.lost,
        "undecided": row.undecided,
        "decision": None if finding is None else finding.decision.model_dump(),
        "statement": plain if finding is None else finding.statement,
        "caveat": "" if finding is None else finding.caveat,
        "flags": [] if finding is None else sorted(finding.beside),
    }


def _leader(comparison: Comparison, sections: Sequence[Section]) -> str:
    """Return the target that the first question with an answer names, or else the first one."""
    workload = sections[0].workload
    own = (v for v in verdicts(comparison) if v.workload in ("", workload) and v.leader)
    return next((verdict.leader for verdict in own), comparison.targets[0])


def _table(
    comparison: Comparison, sections: Sequence[Section], sides: tuple[str, str], *, named: bool
) -> FindingTable:
    """Build a table; quantities of the study's questions come first."""
    asked = {
        (key, question.per): place
        for place, question in enumerate(questions_of(comparison, sections))
        for key in question.keys
    }
    found = sorted(
        (tally for tally in tallies(comparison, sections, sides) if not _is_only_declared(tally)),
        key=lambda tally: asked.get((tally.key, tally.per), len(asked)),
    )
    rows = [row for tally in found for row in _rows(comparison, sections, tally)]
    kinds = [{m.kind for m in row.marks} for row in rows if row.finding is not None]
    shared = set.intersection(*kinds) if len(kinds) > 1 else set()
    every = {m.kind: general(m) for row in rows for m in row.marks if m.kind in shared}
    points = max((len(tally.contests) for tally in found), default=0)
    work, places = _common_work([row.where for row in rows if row.finding is not None])
    notes = {
        contest.section.page.text.scale_note(contest.row.point.params)
        for tally in found
        for contest in tally.contests
    }
    if len(notes) == 1:  # otherwise it is part of the places
        work += notes
    return FindingTable(
        caption=words.caption(sections[0].workload if named else "", sides, points, work),
        sides=sides,
        rows=[
            replace(
                row,
                marks=tuple(m for m in row.marks if m.kind not in shared),
                where=places.get(row.where, row.where),
            )
            for row in rows
        ],
        shared=tuple(every.values()),
    )


def _common_work(places: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Divide descriptions of points into what all begin with, and the rest of each.

    >>> _common_work(["unet3d, 1 accelerator", "unet3d, 2 accelerators"])[0]
    ['unet3d']
    """
    parts = {place: place.split(", ") for place in places}
    beginnings = zip(*(own[:-1] for own in parts.values()), strict=False)
    shared = [own[0] for own in takewhile(lambda own: len(set(own)) == 1, beginnings)]
    return shared, {place: ", ".join(own[len(shared) :]) for place, own in parts.items()}


def _is_only_declared(tally: Tally) -> bool:
    """Return whether a tally compares power that the study declares for both targets."""
    return tally.key == POWER and all(
        contest.row.cells[side].provenance_of(contest.column) == "declared"
        for contest in tally.contests
        for side in tally.sides
    )


def _rows(comparison: Comparison, sections: Sequence[Section], tally: Tally) -> list[FindingRow]:
    """Build a row for each target that is better anywhere, or one row if neither is."""
    won = {side: tally.won(side) for side in tally.sides}
    ahead = sorted((s for s in tally.sides if won[s]), key=lambda s: len(won[s]), reverse=True)
    typical = tally.typical
    if not ahead and typical is None:
        return [_not_compared(sections, tally)]
    if not ahead and typical is not None:
        return [_row(comparison, tally, typical, "", 1)]
    return [
        _row(comparison, tally, middle(won[side], side), side, 0 if place else len(ahead))
        for place, side in enumerate(ahead)
    ]


def _row(
    comparison: Comparison, tally: Tally, contest: Contest, better: str, span: int
) -> FindingRow:
    """Build a row from the comparison that is its example.

    Args:
        comparison: Comparison with all points.
        tally: All comparisons in the quantity.
        contest: The example.
        better: Target that is better; empty if neither is.
        span: Number of rows of the quantity from here on.
    """
    column = contest.column
    decision = contest.described(better or tally.sides[0])
    decision = decision if better else decision.leader_first
    first, other = (contest.row.cells[side] for side in decision.sides)
    caveat, marks = caveat_of((first, other), column, decision)
    lead = digits.times(decision.advantage)
    known = not digits.is_too_noisy(decision.advantage)
    values = words.value_numbers([c.values[column.key] for c in (first, other)], column.unit)
    texts = {
        cell.target: (
            f"{number.words}{_divisor(comparison, cell.target, tally.per)}",
            cell.point_id or "",
        )
        for cell, number in zip((first, other), values, strict=True)
    }
    lost = tally.sides[1] if better == tally.sides[0] else tally.sides[0]
    return FindingRow(
        quantity=decision.what,
        span=span,
        better=better,
        index=comparison.targets.index(better) if better else None,
        outcome="" if better else OUTCOMES[tally.outcome],
        lead=lead if known else "",
        bounds=digits.ends_text(decision.advantage),
        won=len(tally.won(better)) if better else 0,
        lost=len(tally.won(lost)) if better else 0,
        undecided=tally.undecided,
        where=contest.section.where(contest.row.point),
        values=tuple(texts[side] for side in tally.sides),
        marks=marks,
        finding=Assertion(
            statement=words.statement(decision, lead, [number.words for number in values]),
            decision=decision,
            caveat=caveat,
            beside=frozenset(m.kind for m in marks),
            numbers=(*([words.times_of(decision, lead)] if known else []), *values),
            boundaries=(first.boundary, other.boundary),
        ),
    )


def _divisor(comparison: Comparison, target: str, per: Per) -> str:
    """Return what a value is divided by, such as `` of 245 TB``; empty if by nothing."""
    (facts,) = (c.target for c in comparison.dataset.targets if c.label == target)
    if per == "tb" and facts.capacity is not None:
        return f" of {capacity_text(facts.capacity)}"
    if per == "money" and facts.storage_price is not None:
        return f" for {facts.currency}\u00a0{facts.storage_price:,.0f}"
    return ""


def _not_compared(sections: Sequence[Section], tally: Tally) -> FindingRow:
    reason = tally.refused.reason if tally.refused is not None else tally.missing
    return FindingRow(
        quantity=quantity_label(sections[0].page, tally.key, tally.per),
        span=1,
        better="",
        index=None,
        outcome=OUTCOMES[tally.outcome],
        lead="",
        bounds="",
        won=0,
        lost=0,
        undecided=0,
        where=reason,
        values=(),
    )
