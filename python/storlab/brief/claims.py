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
from storlab.analysis.points import Section, page_of
from storlab.analysis.stats import Interval
from storlab.brief.flags import Mark, cell_marks, mark
from storlab.brief.text import (
    bracket,
    latency_unit,
    more_or_less,
    plural,
    ratio_bracket,
    ratio_spread,
    sentence_case,
)
from storlab.figures.common import digits3, last_point, latency_kind, times_text

THROUGHPUT = "throughput_mb_s.all"
BIAS = "The extremes of many points are biased outward: read them as a range, not as a promise."


@dataclass(frozen=True, slots=True)
class Claim:
    """One asserted number with what it rests on."""

    kind: str  # "throughput" or "latency"
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
    """All claims, throughput first, in the order of the sections."""
    found = [
        claim
        for section in comparison.sections
        for facet in section.facets()
        for target in comparison.others
        for key in _keys(comparison, section)
        if (claim := _claim(comparison, section, facet, target, key)) is not None
    ]
    return sorted(found, key=lambda claim: claim.kind != "throughput")


def _keys(comparison: Comparison, section: Section) -> list[str]:
    """Throughput, and mean latencies: from the intended start where the load is an open loop."""
    kind, _ = latency_kind(comparison, section)
    page = section.page
    return [
        THROUGHPUT,
        *(f"{kind}_mean_ns.{operation}" for operation in page.moved),
        *(f"ttfb_mean_ns.{operation}" for operation in page.first_byte),
    ]


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
                ratio = row.ratios[target].get(THROUGHPUT)
                if ratio is not None and not ratio.decided:
                    where = section.where(point)
                    found.append(f"{target} at {where}: {ratio_bracket(ratio.interval)}")
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
    rows = [comparison.row(point) for section in sections for point in section.points]
    ratios = [row.ratios[target][THROUGHPUT] for row in rows if THROUGHPUT in row.ratios[target]]
    if not ratios:
        return ""
    base, points = comparison.baseline, len(ratios)
    less = sum(r.decided and r.interval.estimate < 1 for r in ratios)
    more = sum(r.decided and r.interval.estimate > 1 for r in ratios)
    values = [r.interval.estimate for r in ratios]
    middle = math.exp(sum(math.log(v) for v in values) / points)
    if points in (less, more):
        count = f"all {points} workload points" if points > 1 else "the one workload point"
        said = f"{target} moved {'less' if less else 'more'} data per second than {base} at {count}"
    else:
        said = (
            f"{target} moved more data per second than {base} at {more or 'none'} and less at "
            f"{less or 'none'} of "
            f"{plural(points, 'workload point')}"
        )
        if points - more - less:
            said += f"; at {points - more - less} the interval does not decide"
    if points == 1:
        return f"{said}: {ratio_bracket(ratios[0].interval)} its throughput."
    return (
        f"{said}: {times_text(middle)} its throughput in the geometric mean, from "
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
    caveat = ""
    marks = _marks(cell, base, column)
    if ratio.concurrency is not None:
        one, other = (digits3(value) for value in ratio.concurrency)
        caveat = (
            f"Taken at different effective concurrency: {one} on {target}, {other} on "
            f"{comparison.baseline}."
        )
        marks = (*marks, mark("different-concurrency", caveat))
    where = section.where(point)
    sentence, short, unit = _words(row, target, comparison.baseline, column, where, ratio.interval)
    return Claim(
        kind="latency" if column.is_latency else "throughput",
        metric=key,
        target=target,
        baseline=comparison.baseline,
        where=where,
        use_cases=tuple(row.use_cases),
        ratio=ratio.interval,
        big=times_text(ratio.interval.estimate),
        unit=unit,
        bounds=f"95\u00a0% interval {ratio_spread(ratio.interval)}",
        sentence=sentence_case(sentence),
        short=sentence_case(short),
        caveat=caveat,
        point_ids=tuple(i for i in (cell.point_id, base.point_id) if i),
        run_ids=(*cell.run_ids, *base.run_ids),
        marks=marks,
    )


def _marks(cell: Cell, base: Cell, column: Column) -> tuple[Mark, ...]:
    both = [
        mark(m.kind, f"{side.target}: {m.message}")
        for side in (cell, base)
        for m in cell_marks(side.flags, len(side.runs), latency=column.is_latency)
        if m.kind != "few-operations"  # claims rest on means
    ]
    merged: dict[str, Mark] = {}
    for one in both:
        kept = merged.get(one.kind)
        merged[one.kind] = one if kept is None else mark(one.kind, f"{kept.message}; {one.message}")
    return tuple(merged.values())


def _words(
    row: Row, target: str, baseline: str, column: Column, where: str, ratio: Interval
) -> tuple[str, str, str]:
    mine = row.cells[target].values[column.key]
    theirs = row.cells[baseline].values[column.key]
    times = ratio_bracket(ratio)
    if column.key == THROUGHPUT:
        sentence = (
            f"{target} moved {bracket(mine)} MB/s at {where}: {times} {baseline}’s "
            f"{bracket(theirs)} MB/s, {more_or_less(ratio.estimate)}."
        )
        short = (
            f"{target} moved {bracket(mine)} MB/s and {baseline} {bracket(theirs)} MB/s: "
            f"{more_or_less(ratio.estimate)}."
        )
        return sentence, short, f"{baseline}’s throughput"
    unit, factor = latency_unit([mine.estimate, theirs.estimate], least=1)
    what = f"mean {page_of(row.point.kind).name_of(column.operation)} {TIMES[column.time]}"
    sentence = (
        f"{target}’s {what} was {bracket(mine, factor)} {unit} at {where}: "
        f"{times} {baseline}’s {bracket(theirs, factor)} {unit}."
    )
    return sentence, sentence, f"{baseline}’s {what}"
