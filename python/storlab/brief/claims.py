"""Claims: sentences that assert a number, chosen from the comparison by a fixed rule.

Claims are made at every mix and block size, at the last point of the axis (the most jobs at which
the most targets were measured), for every difference whose 95 % interval excludes 1. None is chosen
for its size. As some of many comparisons differ by chance, a number is printed large only if the
interval that holds for all comparisons together also excludes 1; other claims state that it does
not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from storlab.analysis import digits
from storlab.analysis.answer import Verdict, inverse
from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, Comparison, Ratio, Row, ratio_between
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.stats import CONFIDENCE, Interval
from storlab.analysis.verdict import questions_of, verdicts
from storlab.audit.from_claims import ClaimNumber
from storlab.brief.claim_words import THROUGHPUT, Ahead, times_of, words_of
from storlab.brief.flags import Mark, cell_marks, mark, provenance_marks
from storlab.brief.power_marks import power_marks
from storlab.brief.text import BIAS, and_list, plural, ratio_bracket
from storlab.figures.common import (
    NOT_MEASURED,
    digits3,
    last_point,
    latency_kind,
    quantity_named,
    times_text,
)

KINDS = {"ns": "time", "s": "time", "J": "energy", "Wh": "energy"}


@dataclass(frozen=True, slots=True)
class Joint:
    """Ratio of a claim with the interval that holds for all comparisons together (Bonferroni)."""

    ratio: Interval
    confidence: float
    count: int  # number of comparisons that the interval covers
    number: ClaimNumber  # size of the target's lead

    @property
    def decided(self) -> bool:
        """Whether the interval over all comparisons also excludes 1."""
        return self.ratio.excludes(1.0)


@dataclass(frozen=True, slots=True)
class Claim:
    """Assertion that one target is ahead of another, with the runs it is based on.

    ``target`` is ahead and ``baseline`` is behind. ``ratio`` is the value of ``target`` over that
    of ``baseline``; ``times``, above 1, is how many times as good that is.
    """

    kind: str  # "throughput", "latency", or for fixed work "time" or "energy"
    metric: str
    target: str
    baseline: str
    where: str  # such as "70/30 read/write, 256 KiB, 8 jobs"
    use_cases: tuple[str, ...]
    ratio: Interval
    times: Interval
    index: int  # index of the leading target, which decides its colour
    joint: Joint
    big: str  # number to print large, from the joint interval
    unit: str  # text of the line below the large number
    bounds: str  # bounds of the joint interval
    sentence: str  # sentence that is complete on its own
    short: str  # version for a card that already shows place and ratio
    caveat: str  # qualification as a sentence; may be empty
    point_ids: tuple[str, ...]
    run_ids: tuple[str, ...]
    marks: tuple[Mark, ...] = field(default_factory=tuple)
    numbers: tuple[ClaimNumber, ...] = ()  # numbers of the sentence, which the audit recomputes
    asked: bool = False  # whether it answers a question of the study

    @property
    def note(self) -> str:
        """Note required if the joint interval does not confirm the claim; otherwise empty."""
        if self.joint.decided:
            return ""
        return f"Not decided when all {self.joint.count:,} comparisons are counted."

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for the data embedded in the brief."""
        return {
            "kind": self.kind,
            "metric": self.metric,
            "target": self.target,
            "baseline": self.baseline,
            "where": self.where,
            "ratio": self.ratio.as_dict(),
            "times": self.times.as_dict(),
            "joint": self.joint.ratio.as_dict(),
            "comparisons": self.joint.count,
            "asked": self.asked,
            "sentence": self.sentence,
            "caveat": self.caveat,
            "runs": list(self.run_ids),
            "flags": [m.kind for m in self.marks],
        }


@dataclass(frozen=True, slots=True)
class _ClaimCandidate:
    """Candidate for a claim: a target compared with the baseline in one quantity."""

    section: Section
    row: Row
    target: str
    column: Column
    ratio: Ratio
    asked: bool


def make_claims(comparison: Comparison, whole: Comparison | None = None) -> list[Claim]:
    """Make all claims: answers to questions first, in their order; latencies last among the others.

    Claims of equal rank keep the order of the sections.

    Args:
        comparison: Comparison that is shown, perhaps a selection of points.
        whole: Comparison with all points, whose comparisons are counted; None if nothing is left
            out.
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
        if look.ratio.decided
    ]
    keys = dict.fromkeys(key for own in asked.values() for keys_asked in own for key in keys_asked)
    order = {key: place for place, key in enumerate(keys)}
    last = len(order)
    return sorted(
        claims,
        key=lambda c: (order.get(c.metric, last) if c.asked else last, c.kind == "latency"),
    )


def cards(
    claims: Sequence[Claim], judged: Sequence[Verdict], answered: Sequence[set[str]]
) -> list[Claim]:
    """Return the claims to print with a large number.

    These are decided over all comparisons together, have a size, and are not covered by an answer.
    Claims that answer a question come first; others are used only if there are none, no question is
    undecided, and they are not about latency.

    Args:
        claims: All claims.
        judged: Verdicts on the questions.
        answered: Ids of the points that each answer already covers.
    """
    fresh = [
        claim
        for claim in claims
        if claim.joint.decided
        and not digits.has_unknown_size(claim.joint.ratio)
        and set(claim.point_ids) not in answered
    ]
    asked = [claim for claim in fresh if claim.asked]
    is_open = any(verdict.kind == "undecided" for verdict in judged)
    return asked or [c for c in fresh if c.kind != "latency" and not is_open]


def _asked(comparison: Comparison, sections: Sequence[Section]) -> list[tuple[str, ...]]:
    return [question.keys for question in questions_of(comparison, sections) if not question.per]


def _looks(
    comparison: Comparison, section: Section, facet: Any, asked: Sequence[tuple[str, ...]]
) -> Iterator[_ClaimCandidate]:
    """Yield the comparisons at the last point of one mix and size."""
    point = last_point(comparison, section, facet)
    if point is None:
        return
    row = comparison.row(point)
    answers = _answers(comparison, section, facet, asked)
    for target in comparison.others:
        for key in _keys(comparison, section, facet, answers):
            column, ratio = comparison.column(key), row.ratios[target].get(key)
            if column is not None and ratio is not None:
                yield _ClaimCandidate(section, row, target, column, ratio, key in answers)


def _answers(
    comparison: Comparison, section: Section, facet: Any, asked: Sequence[tuple[str, ...]]
) -> list[str]:
    """Return, for each question, the first column that has a value here."""
    point = last_point(comparison, section, facet)
    cells = [] if point is None else comparison.row(point).cells.values()
    known = {key for cell in cells for key in cell.values}
    questions = (next((key for key in keys if key in known), "") for keys in asked)
    return list(dict.fromkeys(key for key in questions if key))


def _keys(comparison: Comparison, section: Section, facet: Any, asked: Sequence[str]) -> list[str]:
    """Return the columns to make claims for, those of questions first.

    By default these are throughput and the mean and p99 latencies, from the intended start in an
    open loop. A workload family that defines findings uses those instead.
    """
    kind, _ = latency_kind(comparison, section)
    page = section.page
    if page.metrics.findings:
        first = _headline_key(comparison, section, facet)
        return list(dict.fromkeys([*asked, *([first] if first else []), *page.metrics.findings]))
    times = [
        *((kind, operation) for operation in page.operations.moved),
        *(("ttfb", operation) for operation in page.operations.first_byte),
    ]
    named = [f"{time}_{which}_ns.{op}" for which in ("mean", "p99") for time, op in times]
    return list(dict.fromkeys([*asked, THROUGHPUT, *named]))


def _headline_key(comparison: Comparison, section: Section, facet: Any = None) -> str:
    """Return the first headline column that was measured; empty if none was."""
    points = section.points if facet is None else section.of_facet(facet)
    cells = [cell for point in points for cell in comparison.row(point).cells.values()]
    known = {key for cell in cells for key in cell.values}
    return next((key for key in section.page.metrics.headline.keys if key in known), "")


def _title(section: Section, point: WorkloadPoint) -> str:
    """Describe the place of a claim, with the scale factor if the work was scaled down."""
    where, scale_note = section.where(point), section.page.text.scale_note(point.params)
    return f"{where} ({scale_note})" if scale_note and scale_note not in where else where


def undecided(comparison: Comparison) -> list[str]:
    """Return clauses for the candidates whose interval includes 1 or is missing."""
    clauses = []
    for section in comparison.sections:
        for facet in section.facets():
            point = last_point(comparison, section, facet)
            if point is None:
                continue
            row = comparison.row(point)
            for target in comparison.others:
                key = _headline_key(comparison, section, facet)
                ratio = row.ratios[target].get(key)
                if ratio is not None and not ratio.decided:
                    where = _title(section, point)
                    noun = section.page.metrics.headline.noun
                    words = f"{ratio_bracket(ratio.interval)} the {noun} of {comparison.baseline}"
                    if digits.is_open(ratio.interval):
                        words = f"{noun} not known to within tenfold"
                    clauses.append(f"{target} at {where}: {words}")
    return clauses


def summarise(comparison: Comparison) -> list[str]:
    """Summarise each target against the baseline: number of points ahead, behind, and by how much.

    Workload families are summarised separately: a mean over disk reads and GETs has no meaning.
    """
    several = len(comparison.kinds) > 1
    summaries = (
        (sections, _summary(comparison, target, sections))
        for sections in comparison.kinds.values()
        for target in comparison.others
    )
    return [
        f"{sections[0].workload}: {sentence}" if several else sentence
        for sections, sentence in summaries
        if sentence
    ]


def _summary(comparison: Comparison, target: str, sections: Sequence[Section]) -> str:
    words = sections[0].page.metrics.headline
    ratios = []
    for section in sections:
        key = _headline_key(comparison, section)
        rows = [comparison.row(point) for point in section.points]
        ratios += [row.ratios[target][key] for row in rows if key in row.ratios[target]]
    if not ratios:
        return ""
    base, points = comparison.baseline, len(ratios)
    less = sum(r.decided and r.interval.estimate < 1 for r in ratios)
    more = sum(r.decided and r.interval.estimate > 1 for r in ratios)
    values = [r.interval.estimate for r in ratios]
    middle = math.exp(sum(math.log(v) for v in values) / points)
    only = "the only workload point"
    if points in (less, more):
        count = {1: only, 2: "both workload points"}.get(points, f"all {points} workload points")
        sentence = f"{target} {words.less if less else words.more} {base} at {count}"
    elif not less + more:
        places = only if points == 1 else f"any of {points} workload points"
        sentence = (
            f"{target} and {base} differ in {words.noun} within run-to-run variation at {places}"
        )
    else:
        of = f"of {plural(points, 'workload point')}"
        if more:
            sentence = f"{target} {words.more} {base} at {more} {of}"
            sentence += f" and less at {less}" if less else ""
        else:
            sentence = f"{target} {words.less} {base} at {less} {of}"
        if points - more - less:
            sentence += f"; {points - more - less} undecided"
    whose = "its" if less + more else f"{base}’s"
    if points == 1:
        return f"{sentence}: {ratio_bracket(ratios[0].interval)} {whose} {words.noun}."
    return (
        f"{sentence}: {times_text(middle)} {whose} {words.noun} in the geometric mean, from "
        f"{times_text(min(values))} to {times_text(max(values))}. {BIAS}"
    )


def _claim(comparison: Comparison, look: _ClaimCandidate, count: int) -> Claim:
    section, row, column, ratio = look.section, look.row, look.column, look.ratio
    target, key = look.target, column.key
    cell, base = row.cells[target], row.cells[comparison.baseline]
    caveat = _weak_power(cell, base) if column.is_power else ""
    marks = marks_of(cell, base, column)
    if ratio.concurrency is not None:
        first, other = (digits3(value) for value in ratio.concurrency)
        caveat = (
            f"Taken at different effective concurrency: {first} on {target}, {other} on "
            f"{comparison.baseline}."
        )
        marks = (*marks, mark("different-concurrency", caveat))
    where = _title(section, row.point)
    if ratio.boundaries:
        marks = (*marks, mark("unequal-boundaries", ratio.boundaries))
        caveat = f"Power at unequal boundaries, which the study accepts: {ratio.boundaries}."
    more = ratio.interval.estimate > 1
    is_ahead = not more if column.better == "less" else more
    sides = (target, comparison.baseline) if is_ahead else (comparison.baseline, target)
    cells = [row.cells[side] for side in sides]
    own = quantity_named(section.page, key) if section.page.metrics.findings else None
    ahead = Ahead(
        row, *sides, column, own, where, ratio.interval if is_ahead else inverse(ratio.interval)
    )
    words, joint = words_of(ahead), _joint(comparison, ahead, count)
    return Claim(
        kind="latency" if column.is_latency else KINDS.get(column.unit, "throughput"),
        metric=key,
        target=sides[0],
        baseline=sides[1],
        where=where,
        use_cases=tuple(row.use_cases),
        ratio=ahead.ratio,
        times=ahead.times,
        index=comparison.targets.index(sides[0]),
        joint=joint,
        big=digits.times(inverse(joint.ratio) if ahead.less else joint.ratio),
        unit=words.unit,
        bounds=_bounds(joint, ahead.less),
        sentence=words.sentence,
        short=words.short,
        caveat=caveat,
        point_ids=tuple(cell.point_id for cell in cells if cell.point_id),
        run_ids=tuple(run for cell in cells for run in cell.runs_with(column)),
        marks=marks,
        numbers=words.numbers,
        asked=look.asked,
    )


def _joint(comparison: Comparison, ahead: Ahead, count: int) -> Joint:
    """Return the ratio with an interval that holds for ``count`` comparisons together."""
    sure = 1 - (1 - CONFIDENCE) / max(count, 1)
    sides = [ahead.row.cells[side] for side in (ahead.target, ahead.behind)]
    again = ratio_between(comparison, sides[0], sides[1], ahead.column.key, sure)
    ratio = ahead.ratio if again is None else again.interval
    return Joint(ratio, sure, count, times_of(replace(ahead, ratio=ratio)))


def _bounds(joint: Joint, less: bool) -> str:
    """Return a line such as ``95 % interval 1.2-1.5, over all 12 comparisons together``."""
    ends = digits.ends_text(inverse(joint.ratio) if less else joint.ratio)
    if not ends:
        return ""
    together = f", over all {joint.count:,} comparisons together" if joint.count > 1 else ""
    return f"95\u00a0% interval {ends}{together}"


def marks_of(cell: Cell, base: Cell, column: Column) -> tuple[Mark, ...]:
    """Return the flags of both sides that affect a column, merged by kind."""
    both = [
        mark(m.kind, f"{side.target}: {m.message}")
        for side in (cell, base)
        for m in _side_marks(side, column)
        if m.kind != "few-operations" or column.key in side.few  # does not apply to means
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
    """Return a sentence that names the sides whose power was not measured."""
    words: dict[str, list[str]] = {}
    for side in (cell, base):
        if side.power is not None and side.power.provenance in NOT_MEASURED:
            words.setdefault(side.power.provenance, []).append(side.target)
    sentences = (
        f"The power of {and_list(on)} is {word}, not measured." for word, on in words.items()
    )
    return " ".join(sentences)
