"""Text that opens the section of a mix: use case, sweep, efficiency, latency and main caveat.

Each block size (or other facet) has a paragraph. Values are the means of the section's tables, and
ratios are those of the same means. Of three or more targets, the two best are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from storlab.analysis import digits
from storlab.analysis.columns import THROUGHPUT, Column, name_of
from storlab.analysis.compare import Cell, Comparison, decide
from storlab.analysis.efficiency import NO_METER
from storlab.analysis.not_compared import is_metered
from storlab.analysis.points import Section, WorkloadPoint, describe, fill_in
from storlab.analysis.verdict import flag_caveat
from storlab.audit.from_claims import Assertion, ClaimNumber, StatedValue
from storlab.brief.flags import Mark, column_marks, labels, meaning_of
from storlab.brief.model import Opening, Paragraph
from storlab.brief.tables import Scale, number_of
from storlab.figures.common import (
    NOT_MEASURED,
    is_small,
    is_swept,
    latency_kind,
    x_text,
)
from storlab.model.decision import Decision
from storlab.words import openings as words
from storlab.words import power as power_words
from storlab.words.answers import caveat_text
from storlab.words.findings import times_of
from storlab.words.openings import Clause, Lead, Linked, Piece, Side
from storlab.words.text import DIFFERENT_CONCURRENCY, sentence_case

NBSP = "\u00a0"


@dataclass
class _Facet:
    """Paragraph in the making: its place, and what its sentences print."""

    comparison: Comparison
    section: Section
    scale: Scale
    facet: Any
    last: WorkloadPoint  # point that sentences without a sweep are about
    marks: list[tuple[str, Mark]] = field(default_factory=list)  # with their targets
    decisions: list[Decision] = field(default_factory=list)
    checked: list[Assertion | StatedValue] = field(default_factory=list)

    def cells(self, point: WorkloadPoint) -> dict[str, Cell]:
        return self.comparison.row(point).cells


def opening(comparison: Comparison, section: Section, scale: Scale) -> Opening:
    """Build the text that opens a section.

    Args:
        comparison: Comparison that contains the section.
        section: Section of one mix.
        scale: Units of the section's tables.
    """
    paragraphs, facets = [], []
    for facet in section.facets():
        last = comparison.last_point(section, facet)
        point = last or section.of_facet(facet)[0]
        of_facet = _Facet(comparison, section, scale, facet, point)
        sentences: list[list[Piece]] = [[words.NOTHING_MEASURED]]
        if last is not None:
            sentences = list(_sentences(of_facet))
            facets.append(of_facet)
        paragraphs.append(Paragraph(_head(of_facet), _profile(of_facet), sentences))
    marks = [marked for facet in facets for marked in facet.marks]
    kinds = frozenset(marked.kind for _, marked in marks)
    return Opening(
        paragraphs,
        _closing(comparison, facets),
        [marked for _, marked in marks],
        [replace(c, beside=kinds | c.beside) for facet in facets for c in facet.checked],
    )


def _head(of: _Facet) -> str:
    """Return the use cases of a facet, such as ``Logging, moderate ingest``; often empty."""
    rows = (of.comparison.row(point) for point in of.section.of_facet(of.facet))
    return sentence_case("; ".join(dict.fromkeys(name for row in rows for name in row.use_cases)))


def _profile(of: _Facet) -> str:
    """Describe the load of a facet, such as ``random I/O, 256 KiB, queue depth 8``."""
    section, params = of.section, of.last.params
    text, axes = section.page.text, section.axes
    work = fill_in(section.page, text.work, params, axes.varying) or text.work.split("} ")[-1]
    swept = {*axes.section, *([axes.x] if is_swept(section) else [])}
    names = [name for name in (axes.facet, *text.stated, axes.x) if name and name not in swept]
    load = describe(section.page, params, list(dict.fromkeys(names)))
    return ", ".join(part for part in (work, load) if part)


def _sentences(of: _Facet) -> Iterator[list[Piece]]:
    """Yield the sentences of a facet, at most one per subject."""
    first, *others = _rates(of)
    for keys, is_sweep in (
        ([first], True),
        (others, False),
        (_efficiency(of)[:1], False),
        (_latencies(of), False),
    ):
        made = _sentence(of, [c for c in map(of.comparison.column, keys) if c], is_sweep=is_sweep)
        if made:
            yield made


def _known(of: _Facet, keys: Sequence[str]) -> list[str]:
    """Return the keys that have a value at the last point."""
    cells = of.cells(of.last).values()
    return [key for key in dict.fromkeys(keys) if any(key in cell.values for cell in cells)]


def _rates(of: _Facet) -> list[str]:
    """Return the keys of the metrics to print: the first over the sweep, the others at its end."""
    page = of.section.page
    main = _headline_key(of)
    if main == THROUGHPUT and is_small(of.section, of.facet):
        main = page.operations.rate.key
    if page.metrics.run_line:
        return list(page.metrics.run_line)
    if page.operations.by_operation:
        return [main, *_known(of, [f"throughput_mb_s.{op}" for op in page.operations.moved])]
    found = _known(of, page.metrics.findings)
    return [main, *(k for k in found if k != main and not _is_power(of, k) and not _is_time(of, k))]


def _headline_key(of: _Facet) -> str:
    """Return the key of the first headline column that was measured; empty if none was."""
    points = of.section.of_facet(of.facet)
    known = {key for point in points for cell in of.cells(point).values() for key in cell.values}
    return next((key for key in of.section.page.metrics.headline if key in known), "")


def _is_power(of: _Facet, key: str) -> bool:
    column = of.comparison.column(key)
    return column is not None and column.is_power


def _is_time(of: _Facet, key: str) -> bool:
    column = of.comparison.column(key)
    return column is not None and bool(column.time)


def _efficiency(of: _Facet) -> list[str]:
    questions = of.section.page.metrics.questions
    return _known(of, [key for q in questions if q.name == "efficiency" for key in q.keys])


def _latencies(of: _Facet) -> list[str]:
    page = of.section.page
    if page.metrics.findings:
        return [key for key in _known(of, page.metrics.findings) if _is_time(of, key)]
    time, _ = latency_kind(of.comparison, of.section)
    keys = []
    for operation in page.operations.moved:
        first_byte = [f"ttfb_mean_ns.{operation}"] * (operation in page.operations.first_byte)
        keys += _known(of, [f"{time}_mean_ns.{operation}", *first_byte])
    return keys


def _ranked(of: _Facet, column: Column) -> list[str]:
    """Return the targets measured at the last point: the best two in their order, then others."""
    cells = of.cells(of.last)
    sign = 1 if column.better == "less" else -1
    known = [target for target in of.comparison.targets if column.key in cells[target].values]
    ranked = sorted(known, key=lambda target: sign * cells[target].values[column.key].estimate)
    return [*sorted(ranked[:2], key=known.index), *ranked[2:]]


def _sentence(of: _Facet, columns: Sequence[Column], *, is_sweep: bool) -> list[Piece]:
    """Return a sentence about metrics of the same targets; empty if it would have no number."""
    if not columns:
        return []
    ranked = _ranked(of, columns[0])
    pair = ranked[:2]
    points = _ends(of, columns[0], pair) if is_sweep else [of.last]
    known = [c for c in columns if all(c.key in of.cells(of.last)[t].values for t in pair)]
    compared = len(of.decisions)
    made = [_clause(of, column, pair, points) for column in known]
    if not pair or any(clause is None for clause, _ in made):
        return []
    planned = of.comparison.planned([of.last])
    checked = [each for _, own in made for each in own]
    pieces = words.sentence(
        [clause for clause, _ in made if clause is not None],
        _place(of, points),
        targets=len(planned),
        missing=[target for target in planned if target not in ranked],
        other_concurrency=any(decision.concurrency for decision in of.decisions[compared:]),
    )
    statement = words.text_of(pieces)
    of.checked += [replace(each, statement=statement) for each in checked]
    return pieces


def _ends(of: _Facet, column: Column, pair: Sequence[str]) -> list[WorkloadPoint]:
    """Return the first and the last point of the sweep at which both targets have a value."""
    along = [
        point
        for point in of.section.of_facet(of.facet)
        if all(column.key in of.cells(point)[target].values for target in pair)
    ]
    return [along[0], of.last] if along and along[0] is not of.last else [of.last]


def _place(of: _Facet, points: Sequence[WorkloadPoint]) -> str:
    section, (first, *others) = of.section, points
    if others:
        last = others[0]
        values = (x_text(section, first), x_text(section, last))
        return words.span(section.at(first), section.at(last), values)
    return f"at {section.at(first)}" if is_swept(section) else ""


def _clause(
    of: _Facet, column: Column, pair: Sequence[str], points: Sequence[WorkloadPoint]
) -> tuple[Clause | None, list[Assertion | StatedValue]]:
    """Return the values of a metric and their ratios, each with what the audit has to check.

    There is no clause if the values must not be compared.
    """
    sides: list[Side] = []
    checked: list[Assertion | StatedValue] = []
    for target in pair:
        cells = [of.cells(point)[target] for point in points]
        numbers = _one_unit([_number(of, cell, column) for cell in cells])
        pairs = list(zip(cells, numbers, strict=True))
        sides.append(Side(target, tuple(Linked(n.words, cell.point_id) for cell, n in pairs)))
        checked += [_stated(cell, column, number) for cell, number in pairs]
    leads: list[Lead] = []
    ratios: list[Assertion | StatedValue] = []
    for point in points if len(pair) > 1 and column.unit != "%" else ():
        first, other = (of.cells(point)[target] for target in pair)
        accepted = of.comparison.accepts_unequal_boundaries
        decision = decide(first, other, column, accepted=accepted)
        if decision is None:
            continue
        of.decisions.append(decision)
        if decision.outcome == "refused":
            return None, []
        lead, claim = _lead(decision.leader_first, (first, other), of.section.at(point))
        leads.append(lead)
        ratios += [claim] if claim is not None else []
    clause = Clause(
        name_of(of.section.page, column),
        column.unit,
        column.better,
        sides,
        leads if len(leads) == len(points) else [],
    )
    return clause, [*checked, *(ratios if clause.leads else [])]


def _number(of: _Facet, cell: Cell, column: Column) -> ClaimNumber:
    """Return a target's mean as the section's table prints it, and keep its marks."""
    number = number_of(cell, column, of.scale)
    text, _, own_unit = number.text.partition(NBSP)
    unit = own_unit or of.scale.of(column)[0].replace("1/s", "")  # the metric's name says so
    of.marks += [(cell.target, m) for m in (*number.marks, *column_marks(cell, column))]
    return ClaimNumber("value", text, f"{text}{NBSP}{unit}" if unit else text, unit)


def _one_unit(numbers: Sequence[ClaimNumber]) -> list[ClaimNumber]:
    """Return the numbers with their unit printed only after the last one, if it is the same."""
    last = numbers[-1]
    same = all(number.unit == last.unit for number in numbers)
    return [replace(n, words=n.text) if same and n is not last else n for n in numbers]


def _stated(cell: Cell, column: Column, number: ClaimNumber) -> StatedValue:
    return StatedValue(
        "",
        column.key,
        [(cell.target, tuple(cell.runs_with(column)))],
        (number,),
        boundaries=(cell.boundary,),
    )


def _lead(
    decision: Decision, cells: tuple[Cell, Cell], place: str
) -> tuple[Lead, Assertion | None]:
    """Return a comparison for print, and its ratio for the audit if there is one to print."""
    ahead = decision.sides[0]
    if not decision.decided and decision.outcome != "one run":
        return Lead(None, decision.outcome, ahead, place), None
    text = digits.times(decision.advantage)
    claim = Assertion(
        "",
        decision,
        caveat=DIFFERENT_CONCURRENCY if decision.concurrency else "",
        beside=frozenset({"unequal-boundaries"} if decision.boundaries else ()),
        numbers=(times_of(decision, text),),
        boundaries=tuple(c.boundary for c in (cells if cells[0].target == ahead else cells[::-1])),
    )
    return Lead(Linked(text, decision.points[0]), decision.outcome, ahead, place), claim


def _closing(comparison: Comparison, facets: Sequence[_Facet]) -> list[str]:
    """Return the caveats of a section: power, single runs, and the most important flag."""
    decisions = [decision for facet in facets for decision in facet.decisions]
    sentences = _power(comparison, facets, decisions)
    if any(decision.outcome == "one run" for decision in decisions):
        sentences.append(words.ONE_RUN)
    marks = [marked for facet in facets for marked in facet.marks]
    first = next(iter(labels([marked for _, marked in marks])[0]), None)
    if first is not None and (meaning_of(first.kind).claims or meaning_of(first.kind).caveat):
        flagged = [
            cell
            for target in comparison.targets
            if any(name == target and marked.kind == first.kind for name, marked in marks)
            for cell in (facet.cells(facet.last)[target] for facet in facets)
        ]
        sentences.append(caveat_text(flag_caveat(first.kind, flagged)))
    return sentences


def _power(
    comparison: Comparison, facets: Sequence[_Facet], decisions: Sequence[Decision]
) -> list[str]:
    """Return sentences on power that is not compared, not measured, or at unequal boundaries."""
    refused = next((d for d in decisions if d.outcome == "refused"), None)
    if refused is not None:
        return [power_words.refused(refused.sides, refused.reason)]
    cells = [cell for facet in facets for cell in facet.cells(facet.last).values()]
    weak: dict[str, list[str]] = {}
    lacking: dict[str, str] = {}
    boundaries: dict[str, str] = {}
    for cell in (cell for cell in cells if cell.measured):
        if cell.power is None:
            lacking[cell.target] = cell.power_missing or NO_METER
            continue
        boundaries[cell.target] = cell.power.label
        if cell.power.provenance in NOT_MEASURED:
            names = weak.setdefault(cell.power.provenance, [])
            names += [] if cell.target in names else [cell.target]
    is_unequal = any(decision.boundaries for decision in decisions)
    sentences = words.power(weak, boundaries if is_unequal else {})
    if is_metered(comparison):
        sentences += [power_words.not_metered(*item) for item in lacking.items()]
    return sentences
