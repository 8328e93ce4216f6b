"""Audit rule: gains between two points of a swept parameter must follow from their cells."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from storlab.audit.cells import (
    MAXIMUM,
    Pair,
    Value,
    claimed_ratios,
    configs_of,
    is_about,
    is_headline,
    measured,
    normal,
    place_of,
    shown,
)
from storlab.audit.finding import Finding
from storlab.audit.intervals import Interval, hull
from storlab.audit.intervals import shown as number
from storlab.audit.quantities import Quantity, quantity_of
from storlab.audit.table import PublishedTable, Row

SUMMARY = "gains between two points of a swept parameter follow from the cells at these points"
RULE = "swept_gains"
BLOCK, POINT = 2, 5  # indices in a Place of block size and operating point
NEAREST = 2  # pairs of cells that a finding names
RATES = ("throughput", "iops")  # assumed quantities of a gain that names none

_BLOCK_WORDS = re.compile(r"(?<![a-z])(?:(?:block|io|transfer|object|request)_?size|bs)(?![a-z])")
_SCALING = re.compile(r"scaling|scalability")
_BETWEEN = re.compile(r"->|→|\.\.|/|\bto\b|\bvs\b\.?|–")
_GAIN = re.compile(r"gain|improve|better|advantage|uplift|faster|quicker|speedup|scal[ai]")
_COUNTED = ("size", "jobs", "queue_depth", "count")


@dataclass(frozen=True, slots=True)
class Sweep:
    """Swept parameter, such as the block size, over which a claim states a gain."""

    axes: tuple[int, ...]
    """Indices in a Place: BLOCK, POINT, or both if the claim leaves the parameter open."""
    ends: frozenset[str]
    """Points that the claim names, at most two."""


def sweep_of(claim: Row) -> Sweep | None:
    """Return the swept parameter over which a claim states a gain, or None for other claims.

    A claim that names no second configuration may refer to something outside the table. Such a
    claim is checked only if it names the swept parameter or two of its points.
    """
    if claim.kind not in ("ratio_claim", "headline_claim") or not quantity_of(claim).is_claim:
        return None
    if claim.compare_config not in ("", claim.config):
        return None
    words, x_name = re.sub(r"[^a-z]+", "_", claim.metric.lower()), claim.x_name.strip()
    if quantity_of(claim).name in _COUNTED and not _GAIN.search(words):
        return None  # "block_size_ratio" compares the block sizes themselves
    sizes, points = _ends(claim.block_size), _ends(claim.x_value)
    if _BLOCK_WORDS.fullmatch(normal(x_name)):
        return Sweep((BLOCK,), points or sizes)
    if len(sizes) > 1 or _BLOCK_WORDS.search(words):
        return Sweep((BLOCK,), sizes)
    if len(points) > 1 or (x_name and not points) or _SCALING.search(words):
        return Sweep((POINT,), points)
    return Sweep((BLOCK, POINT), sizes | points) if claim.compare_config else None


def _ends(text: str) -> frozenset[str]:
    return frozenset(filter(None, (normal(part) for part in _BETWEEN.split(text))))


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield one finding for each gain that does not follow from two cells of a configuration."""
    for claim in table.rows:
        sweep = sweep_of(claim)
        if sweep is None:
            continue
        is_maximum = claim.qualifier.lower() == "up_to"
        readings = claimed_ratios(replace(claim, qualifier="exact") if is_maximum else claim)
        candidates = _pairs(claim, sweep, measured(table))
        if readings and candidates:
            yield from _judge(claim, readings, candidates)


def _pairs(claim: Row, sweep: Sweep, values: list[Value]) -> list[Pair]:
    """Return ordered pairs of values that differ only in the swept parameter."""
    groups: defaultdict[tuple[object, ...], list[Value]] = defaultdict(list)
    for value in values:
        if claim.config and value.config not in configs_of(claim.config):
            continue
        if not _is_about(quantity_of(claim), value.quantity):
            continue
        for axis in sweep.axes:
            have = value.place[axis]
            if have and not MAXIMUM.search(have) and _fits(claim, sweep, axis, value):
                others = (*value.place[:axis], *value.place[axis + 1 :])
                groups[axis, value.config, value.quantity.same, value.unit, others].append(value)
    return [
        Pair(first, other)
        for (axis, *_), group in groups.items()
        for first, other in permutations(group, 2)
        if _are_ends(sweep, first.place[int(str(axis))], other.place[int(str(axis))])
    ]


def _are_ends(sweep: Sweep, first: str, other: str) -> bool:
    if first == other:
        return False
    named = sweep.ends & {first, other}
    return len(sweep.axes) > 1 or len(named) == len(sweep.ends)


def _is_about(claim: Quantity, value: Quantity) -> bool:
    if claim.name in ("other", *_COUNTED):
        return value.name in RATES and value.statistic in ("", "avg")
    part = _BLOCK_WORDS.sub("", "_".join(w for w in claim.part.split("_") if w))
    return is_about(replace(claim, part=part.strip("_")), value)


def _fits(claim: Row, sweep: Sweep, axis: int, value: Value) -> bool:
    """Return whether a value matches a claim's workload and point, except the swept parameter."""
    wanted = list(place_of(claim))
    wanted[axis] = ""
    if axis == POINT:
        wanted[POINT - 1] = normal(claim.x_name)
    elif sweep.axes == (BLOCK,) and _BLOCK_WORDS.fullmatch(normal(claim.x_name)):
        wanted[POINT - 1 :] = ["", ""]
    return all(want in ("", have) for want, have in zip(wanted, value.place, strict=True))


def _judge(claim: Row, readings: list[Interval], candidates: list[Pair]) -> Iterator[Finding]:
    """Yield a finding if no pair of values, and no mean over pairs, gives the claimed gain."""
    of_ends: defaultdict[tuple[str, ...], list[Interval]] = defaultdict(list)
    for pair in candidates:
        name = pair.config.quantity.name
        of_ends[name, _point(pair.config), _point(pair.compare)].append(pair.ratio)
    if any(r.meets(hull(ratios)) for r in readings for ratios in of_ends.values()):
        return
    nearest = sorted(
        candidates,
        key=lambda p: (round(min(_distance(p.ratio, r) for r in readings), 9), p.ratio.middle < 1),
    )
    rows = [i for p in nearest[:NEAREST] for i in p.rows]
    yield Finding(
        rule=RULE,
        severity="warning" if is_headline(claim) else "error",
        rows=[claim.id, *dict.fromkeys(rows)],
        printed=f"{claim.metric} {shown(claim)} ({claim.config})",
        recomputed="; ".join(_division(pair) for pair in nearest[:NEAREST]),
        why="No two cells that differ in the swept parameter alone give this gain; the nearest "
        "ones are listed.",
    )


def _point(value: Value) -> str:
    return " ".join(filter(None, (value.place[BLOCK], *value.place[POINT - 1 :])))


def _distance(ratio: Interval, reading: Interval) -> float:
    """Return the factor between the nearest ends of two intervals, or 1 if they overlap."""
    return max(ratio.low / reading.high, reading.low / ratio.high, 1.0)


def _division(pair: Pair) -> str:
    ends = [
        f"{value.text} at {value.rows[0].block_size} {value.rows[0].x_name} {value.rows[0].x_value}"
        for value in (pair.config, pair.compare)
    ]
    middle = number(pair.rounded.middle)
    return f"{' / '.join(' '.join(end.split()) for end in ends)} = {middle}x ({pair.ratio})"
