"""Claims: sentences that assert a number, made by rule from the comparison.

The rule: every mix and block size at the far end of its axis (the most jobs at which all targets
were measured), and only differences whose 95 % interval excludes 1. Nothing is picked for being
large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from storlab.analysis.columns import TIMES, Column
from storlab.analysis.compare import Cell, Comparison, Row
from storlab.analysis.points import Section, WorkloadPoint, page_of
from storlab.analysis.stats import Interval
from storlab.audit.from_claims import ClaimNumber, NumberKind
from storlab.brief.flags import Mark, cell_marks, mark
from storlab.brief.power_marks import power_marks
from storlab.brief.text import (
    BIAS,
    and_list,
    bracket,
    change,
    latency_unit,
    plural,
    ratio_bracket,
    ratio_spread,
    sentence_case,
)
from storlab.contracts.page import Quantity
from storlab.figures.common import (
    NOT_MEASURED,
    digits3,
    last_point,
    latency_kind,
    quantity_named,
    ratio_digits,
    times_text,
)

THROUGHPUT = "throughput_mb_s.all"
KINDS = {"ns": "latency", "s": "time", "J": "energy", "Wh": "energy"}
NOUNS = {"time": " time", "energy": " energy"}  # of which there is more or less


@dataclass(frozen=True, slots=True)
class Claim:
    """One asserted number with what it rests on."""

    kind: str  # "throughput", "latency", or of fixed work "time" or "energy"
    metric: str
    target: str
    baseline: str
    where: str  # "70/30 read/write, 256 KiB, 8 jobs"
    use_cases: tuple[str, ...]
    ratio: Interval
    big: str  # the number to print large
    unit: str  # the line under it
    bounds: str  # its interval
    sentence: str  # complete in itself
    short: str  # the same where the place and the ratio stand beside it
    caveat: str  # empty where there is none
    point_ids: tuple[str, ...]
    run_ids: tuple[str, ...]
    marks: tuple[Mark, ...] = field(default_factory=tuple)
    numbers: tuple[ClaimNumber, ...] = ()  # of the sentence, which the audit computes once more

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the data inside the brief."""
        return {
            "kind": self.kind,
            "metric": self.metric,
            "target": self.target,
            "baseline": self.baseline,
            "where": self.where,
            "ratio": self.ratio.as_dict(),
            "sentence": self.sentence,
            "caveat": self.caveat,
            "runs": list(self.run_ids),
            "flags": [m.kind for m in self.marks],
        }


def make_claims(comparison: Comparison) -> list[Claim]:
    """All claims, latencies last, in the order of the sections."""
    found = [
        claim
        for section in comparison.sections
        for facet in section.facets()
        for target in comparison.others
        for key in _keys(comparison, section, facet)
        if (claim := _claim(comparison, section, facet, target, key)) is not None
    ]
    return sorted(found, key=lambda claim: claim.kind == "latency")


def _keys(comparison: Comparison, section: Section, facet: Any) -> list[str]:
    """Throughput, and mean latencies: from the intended start where the load is an open loop.

    Of a family that names its findings, those.
    """
    kind, _ = latency_kind(comparison, section)
    page = section.page
    if page.findings:
        first = _headline_key(comparison, section, facet)
        return list(dict.fromkeys([*([first] if first else []), *page.findings]))
    return [
        THROUGHPUT,
        *(f"{kind}_mean_ns.{operation}" for operation in page.moved),
        *(f"ttfb_mean_ns.{operation}" for operation in page.first_byte),
    ]


def _headline_key(comparison: Comparison, section: Section, facet: Any = None) -> str:
    """The column that tells the targets apart; empty where none of them was measured."""
    points = section.points if facet is None else section.of_facet(facet)
    cells = [cell for point in points for cell in comparison.row(point).cells.values()]
    known = {key for cell in cells for key in cell.values}
    return next((key for key in section.page.headline.keys if key in known), "")


def _title(section: Section, point: WorkloadPoint) -> str:
    """Where it was found, and how much smaller the work was than its name says."""
    where, shrunk = section.where(point), section.page.shrunk(point.params)
    return f"{where} ({shrunk})" if shrunk and shrunk not in where else where


def undecided(comparison: Comparison) -> list[str]:
    """Where the rule looked and the interval includes 1, or there is none: named, not hidden."""
    found = []
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
                    noun = section.page.headline.noun
                    said = f"{target} at {where}: {ratio_bracket(ratio.interval)}"
                    found.append(f"{said} the {noun} of {comparison.baseline}")
    return found


def summarise(comparison: Comparison) -> list[str]:
    """One or two sentences per compared target: how often more, how often less, and how far.

    Families are not thrown together: a mean over reads of a disk and GETs of a store means nothing.
    """
    several = len(comparison.kinds) > 1
    found = (
        (sections, _summary(comparison, target, sections))
        for sections in comparison.kinds.values()
        for target in comparison.others
    )
    return [
        f"{sections[0].workload}: {said}" if several else sentence_case(said)
        for sections, said in found
        if said
    ]


def _summary(comparison: Comparison, target: str, sections: Sequence[Section]) -> str:
    words = sections[0].page.headline
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
    if points in (less, more):
        count = f"all {points} workload points" if points > 1 else "the one workload point"
        said = f"{target} {words.less if less else words.more} {base} at {count}"
    else:
        said = (
            f"{target} {words.more} {base} at {more or 'none'} and less at "
            f"{less or 'none'} of "
            f"{plural(points, 'workload point')}"
        )
        if points - more - less:
            said += f"; at {points - more - less} the interval does not decide"
    if points == 1:
        return f"{said}: {ratio_bracket(ratios[0].interval)} its {words.noun}."
    return (
        f"{said}: {times_text(middle)} its {words.noun} in the geometric mean, from "
        f"{times_text(min(values))} to {times_text(max(values))}. {BIAS}"
    )


def _claim(
    comparison: Comparison, section: Section, facet: Any, target: str, key: str
) -> Claim | None:
    point = last_point(comparison, section, facet)
    column = comparison.column(key)
    if point is None or column is None:
        return None
    row = comparison.row(point)
    ratio = row.ratios[target].get(key)
    if ratio is None or not ratio.decided:
        return None
    cell, base = row.cells[target], row.cells[comparison.baseline]
    caveat = _weak_power(cell, base) if column.is_power else ""
    marks = _marks(cell, base, column)
    if ratio.concurrency is not None:
        one, other = (digits3(value) for value in ratio.concurrency)
        caveat = (
            f"Taken at different effective concurrency: {one} on {target}, {other} on "
            f"{comparison.baseline}."
        )
        marks = (*marks, mark("different-concurrency", caveat))
    where = _title(section, point)
    if ratio.boundaries:
        marks = (*marks, mark("unequal-boundaries", ratio.boundaries))
        caveat = f"Power at unequal boundaries, which the study accepts: {ratio.boundaries}."
    quantity = quantity_named(section.page, key)
    kind = KINDS.get(column.unit, "throughput")
    if section.page.findings and quantity is not None:
        words = _own_words(row, target, comparison.baseline, quantity, where, ratio.interval)
    else:
        words = _words(row, target, comparison.baseline, column, where, ratio.interval)
    return Claim(
        kind=kind,
        metric=key,
        target=target,
        baseline=comparison.baseline,
        where=where,
        use_cases=tuple(row.use_cases),
        ratio=ratio.interval,
        big=times_text(ratio.interval.estimate),
        unit=words.unit,
        bounds=f"95\u00a0% interval {ratio_spread(ratio.interval)}",
        sentence=sentence_case(words.sentence),
        short=sentence_case(words.short),
        caveat=caveat,
        point_ids=tuple(i for i in (cell.point_id, base.point_id) if i),
        run_ids=(*cell.run_ids, *base.run_ids),
        marks=marks,
        numbers=words.numbers,
    )


def _marks(cell: Cell, base: Cell, column: Column) -> tuple[Mark, ...]:
    both = [
        mark(m.kind, f"{side.target}: {m.message}")
        for side in (cell, base)
        for m in _side_marks(side, column)
        if m.kind != "few-operations"  # claims rest on means
    ]
    merged: dict[str, Mark] = {}
    for one in both:
        kept = merged.get(one.kind)
        merged[one.kind] = one if kept is None else mark(one.kind, f"{kept.message}; {one.message}")
    return tuple(merged.values())


def _side_marks(side: Cell, column: Column) -> list[Mark]:
    latency = column.is_latency
    found = [*cell_marks(side.flags, len(side.runs), latency=latency, name=column.name)]
    if column.is_power and side.power is not None:
        found += [m for m in power_marks(side.power) if m.kind != "share"]
    return found


def _weak_power(cell: Cell, base: Cell) -> str:
    """Says of which side power was not measured."""
    words: dict[str, list[str]] = {}
    for side in (cell, base):
        if side.power is not None and side.power.provenance in NOT_MEASURED:
            words.setdefault(side.power.provenance, []).append(side.target)
    said = (f"The power of {and_list(on)} is {word}, not measured." for word, on in words.items())
    return " ".join(said)


@dataclass(frozen=True, slots=True)
class _Words:
    """What a claim says, and the numbers in its sentence."""

    sentence: str
    short: str
    unit: str  # the line under the ratio
    numbers: tuple[ClaimNumber, ...]


def _own_words(
    row: Row, target: str, baseline: str, quantity: Quantity, where: str, ratio: Interval
) -> _Words:
    """Of a family's own quantity: both values, their ratio, and by how much more or less."""
    unit, title = quantity.unit, quantity.title
    one, other = _values(row, (target, baseline), quantity.key, unit, "\u00a0")
    times, change = _multiple(ratio), _change(ratio)
    more = f"{change.words}{NOUNS.get(KINDS.get(unit, ''), '')}"
    sentence = (
        f"{target}’s {title} was {one.words} at {where}: {times.words} {baseline}’s {other.words}, "
        f"{more}."
    )
    short = f"{sentence_case(title)}: {one.words} on {target} and {other.words} on {baseline}, "
    unit_line = f"{baseline}’s {title}"
    return _Words(sentence, f"{short}{more}.", unit_line, (one, times, other, change))


def _words(
    row: Row, target: str, baseline: str, column: Column, where: str, ratio: Interval
) -> _Words:
    sides, times = (target, baseline), _multiple(ratio)
    if column.key == THROUGHPUT:
        one, other = _values(row, sides, column.key, "MB/s", " ")
        change = _change(ratio)
        sentence = (
            f"{target} moved {one.words} at {where}: {times.words} {baseline}’s {other.words}, "
            f"{change.words}."
        )
        short = f"{target} moved {one.words} and {baseline} {other.words}: {change.words}."
        return _Words(sentence, short, f"{baseline}’s throughput", (one, times, other, change))
    estimates = [row.cells[side].values[column.key].estimate for side in sides]
    unit, factor = latency_unit(estimates, least=1)
    one, other = _values(row, sides, column.key, unit, " ", factor)
    what = f"mean {page_of(row.point.kind).name_of(column.operation)} {TIMES[column.time]}"
    sentence = (
        f"{target}’s {what} was {one.words} at {where}: {times.words} {baseline}’s {other.words}."
    )
    return _Words(sentence, sentence, f"{baseline}’s {what}", (one, times, other))


def _values(
    row: Row, sides: tuple[str, str], key: str, unit: str, space: str, factor: float = 1.0
) -> list[ClaimNumber]:
    """The target's value and the baseline's, with their intervals."""
    kinds: tuple[NumberKind, NumberKind] = ("value", "baseline")
    values = (row.cells[side].values[key] for side in sides)
    return [
        ClaimNumber(
            kind, digits3(value.estimate / factor), f"{bracket(value, factor)}{space}{unit}", unit
        )
        for kind, value in zip(kinds, values, strict=True)
    ]


def _multiple(ratio: Interval) -> ClaimNumber:
    return ClaimNumber("multiple", ratio_digits(ratio.estimate), ratio_bracket(ratio))


def _change(ratio: Interval) -> ClaimNumber:
    """By how much more or less, or how many times as much."""
    return ClaimNumber(*change(ratio.estimate))
