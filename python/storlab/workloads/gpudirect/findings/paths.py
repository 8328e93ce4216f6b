"""Compare the direct path with other data paths, for equal work on a target."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from storlab.analysis import digits
from storlab.analysis.compare import Cell, Comparison, decisions_of
from storlab.analysis.efficiency import spread_ratio
from storlab.analysis.points import NBSP, WorkloadPoint, describe, sort_value, spaced_size
from storlab.base.units import format_number
from storlab.brief.flags import Mark, cell_marks, power_marks
from storlab.brief.model import DataTable, Number
from storlab.brief.tables import Leaf, Scale, mean_words, number_of, ratio_number, table_of
from storlab.model.decision import Interval
from storlab.words.text import and_list, named, ratio_ends, ratio_text, spread_text
from storlab.workloads.gpudirect.figures.best import EFFICIENCY, THROUGHPUT
from storlab.workloads.gpudirect.figures.by_path import CPU, J_GB, OF_PATH, way_name
from storlab.workloads.gpudirect.findings.best import NONE, gb_number, sections_of
from storlab.workloads.gpudirect.flags import NOT_DIRECT, UNPROVEN

DIRECT = "direct"
OTHERS = ("bounce-overlapped", "bounce", "host")
WITHOUT = OTHERS[:2]  # the ways to a GPU without the direct path
OVERLAPPED, WAITING = WITHOUT
FLATTERED = (
    "“bounce” waits for each copy, so the direct path looks better than it is: add "
    "“bounce-overlapped” to path, which is how efficient code works without "
    "GPUDirect."
)
ENERGY = "energy per GB"


@dataclass(frozen=True, slots=True)
class Way:
    """Result of one data path for some work, with the path's name."""

    name: str
    path: str
    cell: Cell
    point: WorkloadPoint


@dataclass(frozen=True, slots=True)
class Place:
    """Work on one target that was measured with several data paths."""

    target: str
    where: str
    block: Any
    workers: int
    ways: tuple[Way, ...]

    def pairs(self) -> Iterator[tuple[Way, Way]]:
        """Yield pairs of a direct path and another path."""
        for first in (way for way in self.ways if way.path == DIRECT):
            for path in OTHERS:
                yield from ((first, other) for other in self.ways if other.path == path)


def places(comparison: Comparison) -> list[Place]:
    """Return each piece of work that was measured with the direct path and with another path.

    Only the fewest and the most workers of a sweep are compared. This fixed rule prevents a choice
    of points that favours one path.
    """
    by_place: dict[tuple[str, str], list[Way]] = {}
    texts: dict[str, tuple[str, Any, int]] = {}
    for section in sections_of(comparison):
        for point in section.points:
            rest = {k: v for k, v in point.params.items() if k not in OF_PATH}
            key = json.dumps([section.family, rest], sort_keys=True, default=str)
            names = [n for n in section.axes.varying if n not in OF_PATH]
            where = describe(section.page, point.params, names) or point.workload
            texts[key] = (where, point.params.get("block_size"), int(point.params["workers"]))
            for target in comparison.planned([point]):
                cell = comparison.row(point).cells[target]
                if cell.measured:
                    way = Way(way_name(section, point), str(point.params["path"]), cell, point)
                    by_place.setdefault((target, key), []).append(way)
    every = [
        Place(target, *texts[key], tuple(ways))
        for (target, key), ways in by_place.items()
        if {DIRECT} < {way.path for way in ways}
    ]
    every.sort(key=lambda p: (comparison.targets.index(p.target), sort_value(p.block), p.workers))
    return [place for place in every if place.workers in _ends(every, place)]


def _ends(every: Sequence[Place], place: Place) -> set[int]:
    rest = _rest(place)
    same = [
        p.workers
        for p in every
        if (p.target, p.block, _rest(p)) == (place.target, place.block, rest)
    ]
    return {min(same), max(same)}


def _rest(place: Place) -> str:
    """Return a key that is equal for work that differs only in the number of workers."""
    params = {k: v for k, v in place.ways[0].point.params.items() if k not in (*OF_PATH, "workers")}
    return json.dumps([place.ways[0].point.workload, params], sort_keys=True, default=str)


def path_tables(comparison: Comparison, scale: Scale) -> list[DataTable]:
    """Build a table of each path's values, and one of the direct path's ratios to the others."""
    compared = places(comparison)
    if not compared:
        return []
    tail = _tail(compared)
    return [_absolute(comparison, compared, tail, scale), _ratios(comparison, compared, tail)]


def _tail(compared: Sequence[Place]) -> str:
    """Return the key of the p99 latency of reads, or of writes if nothing was read."""
    known = {key for place in compared for way in place.ways for key in way.cell.values}
    return next((k for op in ("read", "write") if (k := f"latency_p99_ns.{op}") in known), "")


def _absolute(
    comparison: Comparison, compared: Sequence[Place], tail: str, scale: Scale
) -> DataTable:
    latency = comparison.column(tail)
    cpu = comparison.column(CPU)
    leaves = [
        Leaf(
            [place.where, way.name],
            way.cell,
            [
                gb_number(comparison, way.cell, THROUGHPUT, scale),
                NONE if latency is None else number_of(way.cell, latency, scale),
                NONE if cpu is None else number_of(way.cell, cpu, scale),
                energy_number(comparison, way.cell, scale),
            ],
        )
        for place in compared
        for way in place.ways
    ]
    unit = "" if latency is None else scale.of(latency)[0]
    return table_of(
        comparison,
        f"The same work by each path, at the fewest and the most workers: {mean_words(leaves)}",
        ["work", "path"],
        [
            ("throughput", "GB/s"),
            (_tail_words(tail), unit),
            ("client CPU", "s/GB"),
            (ENERGY, "J/GB"),
        ],
        leaves,
    )


def _tail_words(tail: str) -> str:
    return f"{tail.rpartition('.')[2]} p99"


def energy_number(comparison: Comparison, cell: Cell, scale: Scale) -> Number:
    """Return the energy in J/GB (the inverse of throughput per watt) as a table number."""
    column, value = comparison.column(EFFICIENCY), cell.values.get(EFFICIENCY)
    if column is None or value is None or value.estimate <= 0:
        return NONE
    number = number_of(cell, column, scale)
    low = None if not value.high else J_GB / value.high
    high = None if not value.low else J_GB / value.low
    shown = Interval(J_GB / value.estimate, low, high, value.n)
    spread = spread_text(shown) if number.spread and shown.is_known else ""
    return replace(number, text=format_number(shown.estimate), spread=spread)


def _ratios(comparison: Comparison, compared: Sequence[Place], tail: str) -> DataTable:
    leaves = [
        Leaf(
            [place.where, f"{first.name} over {other.name}"],
            first.cell,
            _ratio_numbers(comparison, first, other, tail),
        )
        for place in compared
        for first, other in place.pairs()
    ]
    return table_of(
        comparison,
        "What the direct path brings: direct divided by the other path on the same target, with "
        "the 95 % interval below it; bold where the interval excludes 1",
        ["work", "paths"],
        [("throughput", ""), (_tail_words(tail), ""), ("client CPU per GB", ""), (ENERGY, "")],
        leaves,
    )


def _ratio_numbers(comparison: Comparison, first: Way, other: Way, tail: str) -> list[Number]:
    keys = (THROUGHPUT, tail, CPU)
    known = decisions_of(first.cell, other.cell, keys)
    numbers = []
    for key in keys:
        column = comparison.column(key)
        names = (first.name, other.name)
        numbers.append(
            NONE
            if column is None
            else ratio_number(known.get(key), first.cell, other.cell, column, names)
        )
    return [*numbers, _energy_ratio(first.cell, other.cell)]


def _energy_ratio(first: Cell, other: Cell) -> Number:
    interval = energy_ratio(first, other)
    if interval is None:
        return NONE
    marks: dict[str, Mark] = {}
    for cell in (first, other):
        flags = cell_marks(cell.flags, len(cell.runs), latency=False, name="efficiency_mb_s_w")
        marks |= {m.kind: m for m in (*flags, *(power_marks(cell.power) if cell.power else ()))}
    return Number(
        digits.times(interval),
        digits.ends_text(interval),
        first.point_id,
        tuple(marks.values()),
        strong=interval.excludes(1.0),
    )


def energy_ratio(first: Cell, other: Cell) -> Interval | None:
    """Return the ratio of two paths' energy per GB; None if one has no power readings."""
    if first.power is None or other.power is None:
        return None
    name = EFFICIENCY.partition(".")[0]
    # J/GB is the inverse of efficiency, so divide the other path's efficiency by the first's.
    below, above = first.power.spread(name), other.power.spread(name)
    if above is None or below is None or min(above.estimate, below.estimate) <= 0:
        return None
    return spread_ratio(above, below)


def direct_path_gain(comparison: Comparison, others: Sequence[str] = OTHERS) -> list[str]:
    """Return sentences on what the direct path gains over each other path on each target.

    A sentence gives the range of the ratios over all compared work.
    """
    compared = places(comparison)
    sentences = []
    for target in dict.fromkeys(place.target for place in compared):
        for path in others:
            pairs = [
                (first, other)
                for place in compared
                if place.target == target
                for first, other in place.pairs()
                if other.path == path
            ]
            if pairs:
                sentences.append(_sentence(compared, target, path, pairs))
    return sentences


def _sentence(
    compared: Sequence[Place],
    target: str,
    path: str,
    pairs: Sequence[tuple[Way, Way]],
) -> str:
    tail = _tail(compared)
    words = {"throughput": THROUGHPUT, _tail_words(tail): tail, "client CPU per GB": CPU}
    decisions = {
        word: [d for f, o in pairs for d in decisions_of(f.cell, o.cell, (key,)).values()]
        for word, key in words.items()
    }
    every = {word: [decision.ratio for decision in own] for word, own in decisions.items()}
    energies = [e for f, o in pairs if (e := energy_ratio(f.cell, o.cell)) is not None]
    every[ENERGY] = energies
    parts = [f"{word} {_range(ratios)}" for word, ratios in every.items() if ratios]
    apart = any(d.concurrency is not None for d in decisions[_tail_words(tail)])
    doubt = " (not proven for all bytes)" if _doubtful(pairs) else ""
    more = (
        " Some of these latencies were taken at different effective concurrency." if apart else ""
    )
    if path == WAITING and not _has(compared, target, OVERLAPPED):
        more += f" {FLATTERED}"
    where = f"{path} on {named(target)}, {_where(compared, target)}"
    return f"The direct path{doubt} over {where}: {'; '.join(parts)}.{more}"


def _has(compared: Sequence[Place], target: str, path: str) -> bool:
    return any(way.path == path for p in compared if p.target == target for way in p.ways)


def _where(compared: Sequence[Place], target: str) -> str:
    """Describe the compared work: ``4 KiB and 1 MiB, 1 and 256 workers``."""
    own = [place for place in compared if place.target == target]
    sizes = dict.fromkeys(spaced_size(place.block) for place in own)
    counts = sorted({place.workers for place in own})
    noun = "worker" if counts == [1] else "workers"
    return f"{and_list(list(sizes))}, {and_list([f'{n:,}' for n in counts])}{NBSP}{noun}"


def _doubtful(pairs: Sequence[tuple[Way, Way]]) -> bool:
    kinds = {flag.kind for first, _ in pairs for flag in first.cell.flags}
    return bool(kinds & {NOT_DIRECT, UNPROVEN})


def _range(ratios: Sequence[Interval]) -> str:
    """Format a range of ratios, such as ``0.98× to 1.02×``, or a single ratio with its interval.

    For several ratios, a note is added if all of their intervals include 1.
    """
    if len(ratios) == 1:
        return ratio_text(ratios[0])
    low, high = ratio_ends(ratios)
    span = low if low == high else f"{low} to {high}"
    decided = sum(ratio.excludes(1.0) for ratio in ratios)
    return span if decided else f"{span} (no interval excludes 1)"
