"""Audit rule: ratios and percentages must follow from the cells that they compare."""

from __future__ import annotations

from collections.abc import Iterable

from storlab.audit.cells import (
    Pair,
    Value,
    across_words,
    claimed_ratios,
    facts,
    is_headline,
    measured,
    pairs,
    shown,
)
from storlab.audit.derived import derived
from storlab.audit.finding import Finding
from storlab.audit.intervals import Interval, hull
from storlab.audit.intervals import shown as number
from storlab.audit.quantities import HIGHER_IS_BETTER, quantity_of
from storlab.audit.table import PublishedTable, Row

SUMMARY = "ratios and percentages agree with the cells that they compare"
RULE = "ratio_arithmetic"
COARSE = 1.1  # high / low end of a ratio above which it is known to about one digit only


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield findings on claimed ratios, such as "3x faster", that the table's cells contradict.

    Rule ``headlines`` checks claims that summarise several cells.
    """
    values = [*measured(table), *facts(table)]
    others = derived(table)
    for claim in table.rows:
        if not quantity_of(claim).is_claim or is_headline(claim):
            continue
        if claim.kind in ("context", "config"):
            continue
        readings = claimed_ratios(claim)
        candidates = pairs(claim, values) or pairs(claim, others)
        if readings and candidates:
            yield from _judge(claim, readings, candidates, values)


def _judge(
    claim: Row, readings: list[Interval], candidates: list[Pair], values: list[Value]
) -> Iterable[Finding]:
    fitting = [p for p in candidates if any(r.meets(p.ratio) for r in readings)]
    if fitting:
        yield from _too_fine(claim, fitting)
        return
    places = {p.config.place for p in candidates}
    if len(places) > 1 and any(hull(p.ratio for p in candidates).meets(r) for r in readings):
        return  # the claim may be a mean over places
    rows = [claim.id, *dict.fromkeys(i for p in candidates for i in p.rows)]
    turned = [p for p in candidates if any(r.meets(_inverse(p)) for r in readings)]
    if turned and quantity_of(claim).name in HIGHER_IS_BETTER:
        yield Finding(
            rule=RULE,
            severity="warning",
            rows=rows,
            printed=_printed(claim),
            recomputed=f"{_division(turned[0])}; the other way round it fits",
            why="The ratio is inverted: it presents the lower number as the higher one.",
        )
        return
    yield Finding(
        rule=RULE,
        severity="error",
        rows=rows,
        printed=_printed(claim),
        recomputed="; ".join(dict.fromkeys(_division(p) for p in candidates[:4])),
        why=_why(claim, candidates) + across_words(claim, readings, values),
    )


def _inverse(pair: Pair) -> Interval:
    return pair.compare.interval / pair.config.interval


def _printed(claim: Row) -> str:
    return f"{claim.metric} {shown(claim)} ({claim.config} to {claim.compare_config})"


def _division(pair: Pair) -> str:
    ratio, turned = pair.ratio, _inverse(pair)
    middle = pair.config.rounded.middle / (pair.compare.rounded.middle or float("nan"))
    text = f"{pair.config.text} / {pair.compare.text} = {number(middle)}x ({ratio})"
    if ratio.high < 1 and middle:
        text += f", the other way round {number(1 / middle)}x ({turned})"
    return text


def _why(claim: Row, candidates: list[Pair]) -> str:
    text = "The ratio does not follow from its cells, whether these were rounded or truncated."
    form, value = quantity_of(claim).form, claim.value or 0.0
    percent = claim.unit.strip() in ("%", "percent", "pct")
    share = Interval((abs(value) - 1) / 100, (abs(value) + 1) / 100)
    more = percent and form in ("increase", "better", "faster")
    if more and any(share.meets(p.ratio) for p in candidates):
        text += f" {value:g} % of is {value - 100:g} % more."
    for factor in (1e3, 1e6):
        for reading in claimed_ratios(claim):
            slipped = (reading.scaled(factor), reading.scaled(1 / factor))
            if any(r.meets(q) for r in slipped for p in candidates for q in (p.ratio, _inverse(p))):
                return f"{text} It is off by {factor:,.0f}: units were mixed up."
    return text


def _too_fine(claim: Row, fitting: list[Pair]) -> Iterable[Finding]:
    """Yield a note if a claimed ratio has more digits than its cells support."""
    best = min(fitting, key=lambda p: _spread(p.rounded))
    turned = best.rounded.high < 1 and (claim.value or 0) > 1
    known = Interval(1 / best.rounded.high, 1 / best.rounded.low) if turned else best.rounded
    value = abs(claim.value or 0.0)
    if _spread(known) <= COARSE or quantity_of(claim).form != "ratio" or not value:
        return
    if value < 1 or claim.rounding_unit * 4 > known.high - known.low:
        return
    yield Finding(
        rule=RULE,
        severity="note",
        rows=[claim.id, *best.rows],
        printed=_printed(claim),
        recomputed=f"{best.config.text} and {best.compare.text} leave {known}",
        why="The ratio has more digits than follow from the digits of the cells.",
    )


def _spread(ratio: Interval) -> float:
    return ratio.high / ratio.low if ratio.low > 0 else float("inf")
