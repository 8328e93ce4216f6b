"""Audit rule: headlines, ranges and "up to" claims must follow from cells of the same table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from storlab.audit.cells import (
    MAXIMUM,
    Pair,
    Value,
    across_words,
    claimed_ratios,
    configs_of,
    facts,
    is_headline,
    measured,
    normal,
    pairs,
    place_of,
    shown,
)
from storlab.audit.check_swept_gains import sweep_of
from storlab.audit.derived import derived
from storlab.audit.finding import Finding, Severity
from storlab.audit.intervals import AT_LEAST, AT_MOST, Interval, hull, printed_interval
from storlab.audit.intervals import shown as number
from storlab.audit.quantities import Quantity, quantity_of
from storlab.audit.table import NOT_STATED, PublishedTable, Row
from storlab.base.units import exact_number

SUMMARY = 'headlines, ranges and "up to" are supported by the cells of the table'
RULE = "headlines"
FEW = 3  # with fewer places than this, a reader sees which one the maximum is
ALIKE = 1.05  # max / min of the cells up to which their maximum is not misleading

PlaceKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Support:
    """Evidence for a headline: a ratio of two cells, a claim about one cell, or a single value."""

    interval: Interval
    place: PlaceKey
    rows: tuple[str, ...]
    x_value: str
    text: str
    is_direct: bool = True


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of a published table, stated and derived, to check headline claims against."""

    table: PublishedTable
    direct: list[Value]
    made: list[Value]


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield findings on headlines and ranges; rows that repeat one headline share one finding."""
    cells = Cells(table, [*measured(table), *facts(table)], derived(table))
    groups: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in table.rows:
        if row.kind not in ("ratio_claim", "headline_claim") or sweep_of(row) is not None:
            continue
        if is_headline(row) and row.value:
            q = quantity_of(row)
            low = _end(row) == "min"
            key = (row.config, row.compare_config, q.same, q.form, low, place_of(row))
            groups[*key, row.value, row.unit].append(row)
    for group in groups.values():
        rows = sorted(group, key=lambda r: _end(r) == "any")
        if quantity_of(rows[0]).is_claim:
            yield from _ratio(rows, cells)
        else:
            yield from _plain(rows, cells)
    yield from _maxima(measured(table))


def _end(row: Row) -> str:
    """Return whether a headline states the highest value of its cells, the lowest, or any."""
    bound, words = quantity_of(row).bound, row.qualifier.lower()
    if bound == "min" or words == "range_min":
        return "min"
    if bound == "max" or words in ("up_to", "max", "range_max", "table_max"):
        return "max"
    return "any"


def _exact(row: Row) -> Row:
    return replace(row, qualifier="exact") if row.qualifier.lower() in AT_MOST | AT_LEAST else row


def _ratio(rows: list[Row], cells: Cells) -> Iterator[Finding]:
    claim = rows[0]
    readings = claimed_ratios(_exact(claim))
    if not readings or not claim.compare_config:
        return
    supports = _supports(claim, cells)
    if not supports:
        if not _has_values(claim, cells.table):
            yield _unsupported(rows)
        return
    if _end(claim) == "any" and any(_within(r, supports) for r in readings):
        yield from _one_of_many(
            rows, supports, cells
        )  # a mean, or less than the cells would support
        return
    fitting = [r for r in readings if r.meets(_extreme(supports, _direction(r, _end(claim))))]
    if fitting:
        yield from _one_of_many(rows, supports, cells)
        return
    misfit = _misfit(rows, _on_side(readings, supports[0].interval.middle > 1), supports, cells)
    why = misfit.why + across_words(claim, readings, cells.direct)
    yield misfit.model_copy(update={"why": why})


def _on_side(readings: list[Interval], above_one: bool) -> Interval:
    """Return a claim's first possible ratio on the cells' side of 1, or else its first ratio."""
    return next((r for r in readings if (r.middle > 1) == above_one), readings[0])


def _within(reading: Interval, supports: list[Support]) -> bool:
    """Return whether a claimed ratio is not better than the best cell that supports it."""
    cells = hull(s.interval for s in supports)
    if reading.middle >= 1:
        return reading.low <= cells.high and (cells.low >= 1 or reading.meets(cells))
    return reading.high >= cells.low and (cells.high <= 1 or reading.meets(cells))


def _direction(reading: Interval, end: str) -> str:
    """Return whether a claimed ratio means the highest ("max") or lowest ratio of the cells."""
    if reading.middle >= 1:
        return "min" if end == "min" else "max"
    return "max" if end == "min" else "min"


def _extreme(supports: list[Support], direction: str) -> Interval:
    pick = max if direction == "max" else min
    return Interval(pick(s.interval.low for s in supports), pick(s.interval.high for s in supports))


def _supports(claim: Row, cells: Cells) -> list[Support]:
    """Return the evidence for a claim, one entry per workload and operating point.

    Pairs of measured values are preferred, then pairs with derived values, then claims about single
    cells.
    """
    supports = _by_place([_of_pair(p, True) for p in pairs(claim, cells.direct)])
    known = {s.place for s in supports}
    mixed = [_of_pair(p, False) for p in pairs(claim, [*cells.direct, *cells.made])]
    supports += _by_place([s for s in mixed if s.place not in known])
    return [*supports, *_cell_claims(claim, cells.table, supports)]


def _by_place(supports: list[Support]) -> list[Support]:
    """Merge evidence for the same workload and operating point; its interval spans all values."""
    groups: defaultdict[PlaceKey, list[Support]] = defaultdict(list)
    for support in supports:
        groups[support.place].append(support)
    return [
        replace(
            group[0],
            interval=hull(s.interval for s in group),
            rows=tuple(dict.fromkeys(i for s in group for i in s.rows)),
        )
        for group in groups.values()
    ]


def _of_pair(pair: Pair, is_direct: bool) -> Support:
    row = pair.config.rows[0]
    return Support(
        pair.ratio,
        pair.config.place,
        tuple(pair.rows),
        row.x_value,
        f"{pair.config.text} / {pair.compare.text}",
        is_direct,
    )


def _cell_claims(claim: Row, table: PublishedTable, given_supports: list[Support]) -> list[Support]:
    """Return evidence for a headline from the table's claims about single cells.

    Their ratios are inverted if measured values show that they were published the other way round.
    """
    wanted, q, known = place_of(claim), quantity_of(claim), {s.place for s in given_supports}
    supports = []
    for row in table.rows:
        other, place = quantity_of(row), place_of(row)
        if row.kind != "ratio_claim" or is_headline(row) or other.form != q.form:
            continue
        if (row.config, row.compare_config) != (claim.config, claim.compare_config):
            continue
        if not other.is_claim or not _same_subject(q, other) or place in known:
            continue
        readings = claimed_ratios(row)
        if readings and all(w in ("", have) for w, have in zip(wanted, place, strict=True)):
            side = (
                given_supports[0].interval.middle > 1 if given_supports else readings[0].middle > 1
            )
            reading = _on_side(readings, side)
            supports.append(Support(reading, place, (row.id,), row.x_value, shown(row)))
    return _by_place(supports)


def _same_subject(a: Quantity, b: Quantity) -> bool:
    statistics = {a.statistic, b.statistic} - {"max"}
    return a.name == b.name and a.part == b.part and (len(statistics) <= 1 or "" in statistics)


def _has_values(claim: Row, table: PublishedTable) -> bool:
    """Return whether the table has any values of both configurations that a claim compares."""
    sides = (configs_of(claim.config), configs_of(claim.compare_config))
    rows = [r for r in table.rows if r.is_measured and r.value is not None]
    about = [r for r in rows if _same_subject(quantity_of(claim), quantity_of(r))]
    return all(any(r.config in side for r in about) for side in sides)


def _unsupported(rows: list[Row]) -> Finding:
    return Finding(
        rule=RULE,
        severity="note",
        rows=[r.id for r in rows],
        printed=_printed(rows[0]),
        recomputed="no cell of the table shows this quantity",
        why="A reader cannot check the number: the values that it compares are not printed.",
    )


def _printed(claim: Row) -> str:
    words = claim.qualifier.replace("_", " ")
    to = f" to {claim.compare_config}" if claim.compare_config else ""
    return f"{claim.metric} {shown(claim)}, {words} ({claim.config}{to})"


def _misfit(rows: list[Row], reading: Interval, supports: list[Support], cells: Cells) -> Finding:
    claim, direction = rows[0], _direction(reading, _end(rows[0]))
    extreme = _extreme(supports, direction)
    beyond = extreme.below(reading) if direction == "max" else reading.below(extreme)
    pick = max if direction == "max" else min
    best = pick(supports, key=lambda s: s.interval.middle)
    end = {"max": "highest", "min": "lowest"}[direction if reading.middle >= 1 else "max"]
    inverse = reading.middle < 1 and quantity_of(claim).form == "ratio"
    shown_extreme = Interval(1, 1) / extreme if inverse else extreme
    why = "A cell lies outside of what the headline states."
    if beyond:
        why = "No printed cell supports the headline."
        step = claim.rounding_unit
        if reading.middle >= 1 and extreme.meets(reading.plus(-step)):
            why += " The cell was rounded up past the nearest number."
    return Finding(
        rule=RULE,
        severity="error" if beyond and _is_complete(claim, supports, cells.table) else "warning",
        rows=[*(r.id for r in rows), *best.rows],
        printed=_printed(claim),
        recomputed=f"{end} of {len({s.place for s in supports})} cells: {best.text} = "
        f"x {shown_extreme}",
        why=why,
    )


def _is_complete(claim: Row, supports: list[Support], table: PublishedTable) -> bool:
    """Return whether the evidence covers all cells that a claim may summarise."""
    if any(s.x_value == NOT_STATED or not s.is_direct for s in supports):
        return False
    wanted, covered = place_of(claim)[:3], {s.place[:3] for s in supports}
    configs = {*configs_of(claim.config), *configs_of(claim.compare_config)}
    for row in table.rows:
        if row.kind not in ("measured", "ratio_claim") or not configs & set(configs_of(row.config)):
            continue
        place = place_of(row)[:3]
        fits = all(want in ("", have) for want, have in zip(wanted, place, strict=True))
        if fits and any(place) and place not in covered:
            return False
    return _swept(supports, table) <= {normal(s.x_value) for s in supports}


def _swept(supports: list[Support], table: PublishedTable) -> set[str]:
    """Return the values of the swept parameter that the table lists as settings."""
    names = {s.place[4] for s in supports if s.place[4]}
    return {
        normal(exact_number(row.value))
        for row in table.rows
        if row.kind == "config" and row.value is not None
        if any(normal(row.metric).startswith(name) for name in names)
    }


def _one_of_many(rows: list[Row], supports: list[Support], cells: Cells) -> Iterator[Finding]:
    """Yield a note if a maximum over many cells is stated without their range."""
    claim = rows[0]
    places = {s.place for s in supports}
    middles = [s.interval.middle for s in supports]
    spread = max(middles) / min(middles) if min(middles) > 0 else float("inf")
    ranged = quantity_of(claim).bound or claim.qualifier.lower().startswith("range_")
    if _end(claim) == "min" or ranged or len(places) < FEW or spread < ALIKE:
        return
    if not _is_maximum_word(claim) or _has_low_end(claim, cells.table):
        return
    inverse = max(middles) < 1 and quantity_of(claim).form == "ratio" and (claim.value or 0) > 1
    reach = Interval(min(middles), max(middles))
    reach = Interval(1, 1) / reach if inverse else reach
    yield Finding(
        rule=RULE,
        severity="note",
        rows=[*(r.id for r in rows), *dict.fromkeys(i for s in supports for i in s.rows)],
        printed=_printed(claim),
        recomputed=f"the highest of {len(places)} cells, which lie between x {number(reach.low)} "
        f"and x {number(reach.high)}",
        why="A maximum over many cells is biased upward: neither the range nor the number "
        "of cells is stated beside it.",
    )


def _is_maximum_word(claim: Row) -> bool:
    return claim.qualifier.lower() in ("up_to", "max", "headline") or _end(claim) == "max"


def _has_low_end(claim: Row, table: PublishedTable) -> bool:
    """Return whether the table also states the low end of the range of a claimed maximum."""
    q = quantity_of(claim)
    return any(
        {r.config, r.compare_config} == {claim.config, claim.compare_config}
        and _same_subject(q, quantity_of(r))
        and _end(r) == "min"
        for r in table.rows
    )


def _plain(rows: list[Row], cells: Cells) -> Iterator[Finding]:
    """Yield findings on a headline with a value of one configuration, such as "3 ms to 5 ms"."""
    claim = rows[0]
    values = _values(claim, cells)
    printed = printed_interval(claim)
    unit = quantity_of(claim).unit
    if not values or printed is None or unit is None:
        return
    words = claim.qualifier.lower()
    one_sided = words in AT_LEAST or (words in AT_MOST and words != "up_to")
    if not one_sided:
        printed = printed_interval(_exact(claim)) or printed
    stated = printed.scaled(unit.factor)
    if one_sided:
        wrong = [s for s in values if not s.interval.meets(stated)]
        if wrong:
            yield _outside(rows, wrong[0], len(values), "error", "A cell contradicts the headline.")
        return
    end = _end(claim)
    if end == "any":
        supported = any(s.interval.meets(stated) for s in values)
    else:
        supported = _extreme(values, end).meets(stated)
    if supported:
        return
    pick = min if end == "min" else max
    best = pick(values, key=lambda s: s.interval.middle)
    inside = stated.below(best.interval) if end == "max" else best.interval.below(stated)
    is_error = not inside and _is_complete(claim, values, cells.table)
    why = "A cell lies outside of the stated range." if inside else "No printed cell supports it."
    yield _outside(rows, best, len(values), "error" if is_error else "warning", why)


def _outside(rows: list[Row], cell: Support, count: int, severity: Severity, why: str) -> Finding:
    return Finding(
        rule=RULE,
        severity=severity,
        rows=[*(r.id for r in rows), *cell.rows],
        printed=_printed(rows[0]),
        recomputed=f"{cell.text}, of {count} cells",
        why=why,
    )


def _values(claim: Row, cells: Cells) -> list[Support]:
    wanted, q = place_of(claim), quantity_of(claim)
    return [
        Support(v.interval, v.place, tuple(r.id for r in v.rows), v.rows[0].x_value, v.text)
        for v in cells.direct
        if v.rows[0].kind == "measured"
        and v.config in configs_of(claim.config)
        and not v.unit
        and _same_subject(q, v.quantity)
        and all(want in ("", have) for want, have in zip(wanted, v.place, strict=True))
    ]


def _maxima(values: list[Value]) -> Iterator[Finding]:
    """Yield an error for each value above the stated maximum over all operating points."""
    tops = [v for v in values if MAXIMUM.search(v.place[5])]
    for top in tops:
        for peak in values:
            same = peak.config == top.config and peak.place[:4] == top.place[:4]
            if not same or not _same_subject(peak.quantity, top.quantity) or peak.unit != top.unit:
                continue
            at_point = peak.place[5] and not MAXIMUM.search(peak.place[5])
            if at_point and top.interval.below(peak.interval):
                point = f"{peak.rows[0].x_name} {peak.rows[0].x_value}"
                yield Finding(
                    rule=RULE,
                    severity="error",
                    rows=[top.rows[0].id, peak.rows[0].id],
                    printed=f"{top.rows[0].metric} {top.text}, the maximum ({top.config})",
                    recomputed=f"{peak.text} at {point}",
                    why="A value is higher than the maximum over all operating points.",
                )
