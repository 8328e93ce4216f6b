"""Make claims: sentences such as "A reads 1.4 times as fast as B", chosen by a fixed rule.

For every mix and block size, targets are compared at the last point of the sweep (the most jobs at
which the most targets were measured). Each ratio whose 95 % confidence interval excludes 1 becomes
a claim, however large or small it is. As some of many comparisons differ by chance, a claim is
printed in large type only if the difference is significant in all comparisons together. Other
claims get a note about that. Printed intervals are those of single comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from storlab.analysis.columns import THROUGHPUT, Column, name_of
from storlab.analysis.compare import Cell, Comparison, Row, decide
from storlab.analysis.contests import place_text
from storlab.analysis.points import Section
from storlab.analysis.verdict import questions_of, verdicts
from storlab.audit.from_claims import Assertion
from storlab.brief.flags import Mark, cell_marks, mark, provenance_marks
from storlab.brief.power_marks import power_marks
from storlab.figures.common import NOT_MEASURED, last_point, latency_kind, quantity_named
from storlab.model.decision import Decision
from storlab.words import claims as words
from storlab.words import power as power_words

KINDS = {"ns": "time", "s": "time", "J": "energy", "Wh": "energy"}


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim that one target is better than another; the better one is the decision's first side.

    All numbers have the 95 % confidence interval of this comparison alone.
    """

    kind: str  # "throughput", "latency", or for fixed work "time" or "energy"
    finding: Assertion
    joint: Decision  # the same comparison, with an outcome that holds for all comparisons together
    marks: tuple[Mark, ...] = field(default_factory=tuple)
    asked: bool = False  # whether it answers a question of the study

    @property
    def decision(self) -> Decision:
        """Decision by the interval of this comparison alone."""
        return self.finding.decision

    def as_dict(self) -> dict[str, Any]:
        """Return the claim as plain values for the data embedded in the brief."""
        return {
            "kind": self.kind,
            "asked": self.asked,
            "decision": self.decision.model_dump(),
            "joint": self.joint.model_dump(),
            "sentence": self.finding.statement,
            "caveat": self.finding.caveat,
            "flags": [m.kind for m in self.marks],
        }


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Candidate for a claim: a target compared with the baseline in one quantity."""

    section: Section
    row: Row
    column: Column
    decision: Decision
    asked: bool


def make_claims(comparison: Comparison, whole: Comparison | None = None) -> list[Claim]:
    """Make all claims of a comparison.

    Claims about quantities of the study's questions come first, in the order of the questions. Of
    the others, claims about latency come last. Otherwise the order of the sections is kept.

    Args:
        comparison: Comparison with the points that the brief shows.
        whole: Comparison with all points, used to count the comparisons; None if the brief shows
            all.
    """
    asked = {kind: _asked(comparison, own) for kind, own in comparison.kinds.items()}
    looks = [
        look
        for section in comparison.sections
        for facet in section.facets()
        for look in _looks(comparison, section, facet, asked[section.kind])
    ]
    answered = max((v.comparisons for v in verdicts(whole or comparison)), default=0)
    every = answered + sum(not look.asked for look in looks)
    claims = [
        _claim(comparison, look, answered if look.asked else every)
        for look in looks
        if look.decision.decided
    ]
    keys = dict.fromkeys(key for own in asked.values() for keys_asked in own for key in keys_asked)
    order = {key: place for place, key in enumerate(keys)}
    last = len(order)
    return sorted(
        claims,
        key=lambda c: (
            order.get(c.decision.quantity, last) if c.asked else last,
            c.kind == "latency",
        ),
    )


def _asked(comparison: Comparison, sections: Sequence[Section]) -> list[tuple[str, ...]]:
    return [question.keys for question in questions_of(comparison, sections) if not question.per]


def _looks(
    comparison: Comparison, section: Section, facet: Any, asked: Sequence[tuple[str, ...]]
) -> Iterator[_Candidate]:
    """Yield the comparisons of all targets with the baseline at one mix and block size."""
    point = last_point(comparison, section, facet)
    if point is None:
        return
    row = comparison.row(point)
    answers = _answers(comparison, section, facet, asked)
    for target in comparison.others:
        for key in _keys(comparison, section, facet, answers):
            column, ratio = comparison.column(key), row.ratios[target].get(key)
            if column is not None and ratio is not None:
                yield _Candidate(section, row, column, ratio, key in answers)


def _answers(
    comparison: Comparison, section: Section, facet: Any, asked: Sequence[tuple[str, ...]]
) -> list[str]:
    """Return, for each question, the key of its first column with a value at the last point."""
    point = last_point(comparison, section, facet)
    cells = [] if point is None else comparison.row(point).cells.values()
    known = {key for cell in cells for key in cell.values}
    questions = (next((key for key in keys if key in known), "") for keys in asked)
    return list(dict.fromkeys(key for key in questions if key))


def _keys(comparison: Comparison, section: Section, facet: Any, asked: Sequence[str]) -> list[str]:
    """Return the keys of the columns to make claims for, those of the study's questions first.

    By default these are throughput and mean and p99 latency, which counts from the intended start
    in an open loop. A workload family may define others as its findings.
    """
    kind, _ = latency_kind(comparison, section)
    page = section.page
    if page.metrics.findings:
        first = headline_key(comparison, section, facet)
        return list(dict.fromkeys([*asked, *([first] if first else []), *page.metrics.findings]))
    times = [
        *((kind, operation) for operation in page.operations.moved),
        *(("ttfb", operation) for operation in page.operations.first_byte),
    ]
    named = [f"{time}_{which}_ns.{op}" for which in ("mean", "p99") for time, op in times]
    return list(dict.fromkeys([*asked, THROUGHPUT, *named]))


def headline_key(comparison: Comparison, section: Section, facet: Any = None) -> str:
    """Return the key of the first headline column that was measured; empty if none was."""
    points = section.points if facet is None else section.of_facet(facet)
    cells = [cell for point in points for cell in comparison.row(point).cells.values()]
    known = {key for cell in cells for key in cell.values}
    return next((key for key in section.page.metrics.headline if key in known), "")


def _claim(comparison: Comparison, look: _Candidate, count: int) -> Claim:
    section, row, column = look.section, look.row, look.column
    own = quantity_named(section.page, column.key) if section.page.metrics.findings else None
    decision = look.decision.leader_first.model_copy(
        update={
            "what": name_of(section.page, column),
            "where": place_text(section, row.point),
        }
    )
    cells = (row.cells[decision.sides[0]], row.cells[decision.sides[1]])
    values = (cells[0].values[column.key], cells[1].values[column.key])
    text = words.words_of(decision, values, column.unit, own)
    # The marks need both sides in the order of the comparison: target, then baseline.
    compared = (row.cells[look.decision.sides[0]], row.cells[look.decision.sides[1]])
    caveat, marks = caveat_of(compared, column, look.decision)
    finding = Assertion(
        statement=text.sentence,
        decision=decision,
        caveat=caveat,
        beside=frozenset(m.kind for m in marks),
        numbers=text.numbers,
        boundaries=boundaries_of(cells),
    )
    accepted = comparison.accepts_unequal_boundaries
    joint = decide(*cells, column, accepted=accepted, comparisons=max(count, 1))
    return Claim(
        kind="latency" if column.is_latency else KINDS.get(column.unit, "throughput"),
        finding=finding,
        joint=joint or decision,
        marks=marks,
        asked=look.asked,
    )


def boundaries_of(cells: tuple[Cell, Cell]) -> tuple[str | None, str | None]:
    """Return the power boundaries of two targets, such as ``wall``; None without a meter."""
    first, other = (None if cell.power is None else cell.power.boundary for cell in cells)
    return first, other


def caveat_of(
    cells: tuple[Cell, Cell], column: Column, decision: Decision
) -> tuple[str, tuple[Mark, ...]]:
    """Return the caveat of a claim, such as unequal concurrency, and the marks of its flags."""
    cell, base = cells
    caveat = _weak_power(cell, base) if column.is_power else ""
    marks = marks_of(cell, base, column)
    if decision.concurrency is not None:
        caveat = words.concurrency_caveat((cell.target, base.target), decision.concurrency)
        marks = (*marks, mark("different-concurrency", caveat))
    if decision.boundaries:
        marks = (*marks, mark("unequal-boundaries", decision.boundaries))
        caveat = power_words.boundary_caveat(decision.boundaries)
    return caveat, marks


def marks_of(cell: Cell, base: Cell, column: Column) -> tuple[Mark, ...]:
    """Return the marks of all flags that affect a column on either side, one mark per kind."""
    both = [
        mark(m.kind, f"{side.target}: {m.message}")
        for side in (cell, base)
        for m in _side_marks(side, column)
        if side.flags_percentile(m.kind, column)
    ]
    merged: dict[str, Mark] = {}
    for marked in both:
        kept = merged.get(marked.kind)
        merged[marked.kind] = (
            marked if kept is None else mark(marked.kind, f"{kept.message}; {marked.message}")
        )
    return tuple(merged.values())


def _side_marks(side: Cell, column: Column) -> list[Mark]:
    latency = column.is_latency
    marks = [*cell_marks(side.flags, len(side.runs), latency=latency, name=column.name)]
    if column.is_power and side.power is not None:
        return marks + [m for m in power_marks(side.power) if m.kind != "share"]
    return marks + provenance_marks(side, column)


def _weak_power(cell: Cell, base: Cell) -> str:
    """Return a sentence that names the targets whose power was not measured; empty without such."""
    weak: dict[str, list[str]] = {}
    for side in (cell, base):
        if side.power is not None and side.power.provenance in NOT_MEASURED:
            weak.setdefault(side.power.provenance, []).append(side.target)
    return power_words.weak(weak)
