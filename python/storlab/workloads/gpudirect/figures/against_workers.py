"""Line charts over a sweep, such as of workers, with a ring at the best point of each target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.base.units import format_number
from storlab.figures.common import x_text
from storlab.figures.figure import Figure, Place
from storlab.figures.over_sweep import Lines, Look
from storlab.words.text import latency_text
from storlab.workloads.gpudirect.figures.best import EFFICIENCY, THROUGHPUT, best_points

GB = 1e-3  # converts MB/s to GB/s
CPU = "cpu_s_per_gb.all"
NBSP = "\u00a0"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Quantity to draw, with the word for its best value, such as ``highest``."""

    kind: str
    name: str
    key: str
    words: str  # name of the quantity, such as "throughput"
    unit: str
    best: str  # "highest" or "lowest"
    factor: float = 1.0
    most: bool = True
    log: bool = False


_WANTED = {
    wanted.name: wanted
    for wanted in (
        _Wanted(
            "gpudirect_throughput", "throughput", THROUGHPUT, "throughput", "GB/s", "highest", GB
        ),
        _Wanted(
            "gpudirect_efficiency", "efficiency", EFFICIENCY, "throughput per watt", "GB/s/W",
            "highest", GB,
        ),
        _Wanted(
            "gpudirect_cpu", "cpu", CPU, "client CPU per GB", "s/GB", "lowest", most=False, log=True
        ),
    )
}  # fmt: skip


def draw(far: Place, name: str) -> Figure | None:
    """Draw throughput, efficiency or CPU over a sweep, as selected by ``name``."""
    return _figure(far, _WANTED[name])


def latency(far: Place, operation: str, statistic: str) -> Figure | None:
    """Draw latency over a sweep, in µs or ms depending on the smallest value."""
    along = far.section.of_facet(far.facet)
    cells = [c for p in along for c in far.comparison.row(p).cells.values()]
    key = f"latency_{statistic}_ns.{operation}"
    known = [cell.values[key].estimate for cell in cells if key in cell.values]
    unit, factor = ("ms", 1e-6) if min(known, default=0.0) >= 1e6 else ("µs", 1e-3)
    wanted = _Wanted(
        "gpudirect_median" if statistic == "p50" else "gpudirect_latency",
        f"latency-{operation}-{statistic}", key,
        f"{operation} latency, {statistic}", unit, "lowest", factor, most=False, log=True,
    )  # fmt: skip
    return _figure(far, wanted)


def _figure(far: Place, wanted: _Wanted) -> Figure | None:
    comparison, section, facet = far.comparison, far.section, far.facet
    column = comparison.column(wanted.key)
    if column is None:
        return None
    lines = Lines.of(comparison, section, facet, column, wanted.factor)
    if not lines.means:
        return None
    best = best_points(comparison, section, facet, wanted.key, most=wanted.most)
    ringed = {b.target: x_text(section, b.point) for b in best} if not wanted.log else {}
    look = Look(
        kind=wanted.kind,
        name=wanted.name,
        words=f"{wanted.words} ({wanted.unit})",
        y_title=f"{wanted.words} ({wanted.unit})",
        unit=wanted.unit,
        bounds=lines.bounds(log=wanted.log),
        log=wanted.log,
        rings=lines.at(ringed),
        latencies=column.unit == "ns",
    )
    return lines.figure(look, _title(wanted, column, comparison, section, facet))


def _title(
    wanted: _Wanted, column: Column, comparison: Comparison, section: Section, facet: Any
) -> str:
    """Return a title: ``throughput, highest of 11 points: 3.1 GB/s on A with 256 workers``."""
    parts = []
    for best in best_points(comparison, section, facet, wanted.key, most=wanted.most):
        value = best.value.estimate
        shown = (
            latency_text(value)
            if column.unit == "ns"
            else f"{format_number(value * wanted.factor)}{NBSP}{wanted.unit}"
        )
        parts.append(f"{shown} on {best.target} with {best.at}")
    points = len(section.of_facet(facet))
    return f"{wanted.words}, {wanted.best} of {points} points: {', '.join(parts)}"
