"""Audit rule: percentages must be possible (at most 100 % slower) and agree with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from storlab.audit.cells import claimed_ratios, configs_of, place_of, shown
from storlab.audit.finding import Finding
from storlab.audit.intervals import Interval
from storlab.audit.intervals import shown as number
from storlab.audit.quantities import HIGHER_IS_BETTER, LOWER_IS_BETTER, quantity_of
from storlab.audit.table import PublishedTable, Row

SUMMARY = "percentages are possible and agree (nothing is 135 % slower; time against throughput)"
RULE = "percent_language"
_ONE = Interval(1.0, 1.0)


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield findings on impossible reductions and on pairs of claims that contradict each other."""
    claims = [r for r in table.rows if quantity_of(r).is_claim and r.value is not None]
    yield from _impossible(claims)
    yield from _time_and_throughput(claims)
    yield from _both_directions(claims)
    yield from _ratio_and_percent(claims)


def _percent(row: Row) -> bool:
    unit = quantity_of(row).unit
    return unit is not None and unit.kind == "percent"


def _impossible(claims: list[Row]) -> Iterator[Finding]:
    """Yield an error for each claim that a quantity falls by more than 100 %."""
    groups: defaultdict[tuple[str, str, str, float], list[Row]] = defaultdict(list)
    for row in claims:
        if _percent(row) and _takes_away(row) and (row.value or 0.0) > 100:
            key = (row.config, row.compare_config, row.metric, row.value or 0.0)
            groups[key].append(row)
    for (config, compare, metric, value), rows in groups.items():
        less = 100 * (1 - 1 / (1 + value / 100))
        yield Finding(
            rule=RULE,
            severity="error",
            rows=[r.id for r in rows],
            printed=f"{metric} {shown(rows[0])} ({config} to {compare})",
            recomputed=f"at most 100 %; if the other is {value:g} % higher, this one is "
            f"{number(less)} % lower",
            why="A quantity that cannot be negative cannot fall by more than 100 %.",
        )


def _takes_away(row: Row) -> bool:
    """Return whether the claim states a decrease of a quantity that cannot be negative."""
    q = quantity_of(row)
    rates = q.name in HIGHER_IS_BETTER or q.name == "other"
    by_form = {
        "reduction": rates or q.name in LOWER_IS_BETTER,
        "slower": rates,
        "worse": q.name in HIGHER_IS_BETTER,
    }
    return by_form.get(q.form, False)


def _work(row: Row) -> tuple[object, ...]:
    """Return a key of a claim: workload, mix, block size and operating point, but no operation."""
    place = place_of(row)
    return (*place[:3], *place[4:])


def _is_loose(row: Row) -> bool:
    return row.qualifier.lower() in ("up_to", "headline", "range_min", "range_max", "max")


def _time_and_throughput(claims: list[Row]) -> Iterator[Finding]:
    """Yield findings if time and throughput of the same work are not reciprocal."""
    times = [r for r in claims if quantity_of(r).name == "duration"]
    rates = [r for r in claims if quantity_of(r).name in ("throughput", "iops")]
    groups: defaultdict[tuple[object, ...], list[tuple[Row, Row]]] = defaultdict(list)
    for time in times:
        for rate in rates:
            same = time.config == rate.config and time.compare_config == rate.compare_config
            if same and _work(time) == _work(rate) and _about_work(time, rate):
                key = (time.config, time.compare_config, _work(time), time.value, rate.value)
                groups[key, time.metric, rate.metric].append((time, rate))
    for readings in groups.values():
        if any(_reciprocal(time, rate) for time, rate in readings):
            continue
        time, rate = readings[0]
        needed = [_ONE / t for t in _exact_ratios(time)]
        loose = any(_is_loose(r) for pair in readings for r in pair)
        if not needed or not _exact_ratios(rate):
            continue
        yield Finding(
            rule=RULE,
            severity="warning" if loose else "error",
            rows=sorted({r.id for pair in readings for r in pair}),
            printed=f"{time.metric} {shown(time)}, {rate.metric} {shown(rate)} "
            f"({time.config} to {time.compare_config})",
            recomputed=f"throughput x {needed[0]}, which is {_in_percent(needed[0])}",
            why="For the same work, the ratio of throughputs is the inverse of the ratio of times, "
            "but these two do not match.",
        )


def _about_work(time: Row, rate: Row) -> bool:
    """Return whether a time and a rate claim both describe a whole job, not a part of it."""
    parts = quantity_of(time).part or quantity_of(rate).part
    return not parts and not rate.op.strip() and any(place_of(time))


def _in_percent(ratio: Interval) -> str:
    change = 100 * (ratio.middle - 1)
    return f"{number(abs(change))} % {'more' if change > 0 else 'less'}"


def _exact_ratios(row: Row) -> list[Interval]:
    """Return the ratios that a claim's wording admits if a qualifier like "up to" is ignored."""
    return claimed_ratios(replace(row, qualifier="exact"))


def _reciprocal(time: Row, rate: Row) -> bool:
    return any((t * r).meets(_ONE) for t in _exact_ratios(time) for r in _exact_ratios(rate))


def _both_directions(claims: list[Row]) -> Iterator[Finding]:
    """Yield an error if claims of A against B and of B against A disagree.

    If A is 25 % above B, B must be 20 % below A.
    """
    for place, a in enumerate(claims):
        for b in claims[place + 1 :]:
            turned = a.config == b.compare_config and a.compare_config == b.config
            if not turned or quantity_of(a).same != quantity_of(b).same:
                continue
            if place_of(a) != place_of(b) or _is_loose(a) or _is_loose(b):
                continue
            ratios = [(x, y) for x in claimed_ratios(a) for y in claimed_ratios(b)]
            if not ratios or any((x * y).meets(_ONE) for x, y in ratios):
                continue
            back = _ONE / ratios[0][0]
            yield Finding(
                rule=RULE,
                severity="error",
                rows=[a.id, b.id],
                printed=f"{a.metric} {shown(a)} ({a.config} to {a.compare_config}), "
                f"{b.metric} {shown(b)} the other way",
                recomputed=f"the other way round x {back}, which is {_in_percent(back)}",
                why="If A is p % above B, then B is p / (1 + p / 100) % below A.",
            )


def _ratio_and_percent(claims: list[Row]) -> Iterator[Finding]:
    """Yield an error if a ratio contradicts a percentage: 2.5 x is 150 % more, not 250 %."""
    groups: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in claims:
        if not _is_loose(row) and configs_of(row.config):
            q = quantity_of(row)
            groups[row.config, row.compare_config, q.same, q.bound, place_of(row)].append(row)
    for rows in groups.values():
        ratios = [r for r in rows if quantity_of(r).form == "ratio" and not _percent(r)]
        shares = [r for r in rows if quantity_of(r).form != "ratio" and _percent(r)]
        for a in ratios:
            for b in shares:
                x, y = claimed_ratios(a), claimed_ratios(b)
                if not x or not y or any(i.meets(j) for i in x for j in y):
                    continue
                yield Finding(
                    rule=RULE,
                    severity="error",
                    rows=[a.id, b.id],
                    printed=f"{a.metric} {shown(a)}, {b.metric} {shown(b)} "
                    f"({a.config} to {a.compare_config})",
                    recomputed=f"{shown(a)} is {_in_percent(x[0])}",
                    why="A ratio of r is 100 x (r - 1) % more, so the two claims disagree.",
                )
