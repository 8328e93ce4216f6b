"""Line charts over the swept axis, with rings at the best point of each target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.figures.common import digits3, latency_text, x_text
from storlab.figures.figure import Figure
from storlab.figures.lines import ring_layer
from storlab.figures.over_sweep import Lines, Look
from storlab.figures.theme import log_bounds
from storlab.workloads.gpudirect.figures.best import EFFICIENCY, THROUGHPUT, best_points

GB = 1e-3  # converts MB/s to GB/s
CPU = "cpu_s_per_gb.all"
NBSP = "\u00a0"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Quantity of one chart, with the phrase for its best point."""

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


def draw(
    comparison: Comparison, section: Section, facet: Any, _far: WorkloadPoint, name: str
) -> Figure | None:
    """Draw throughput, efficiency or CPU, as selected by ``name``."""
    return _figure(comparison, section, facet, _WANTED[name])


def latency(
    comparison: Comparison,
    section: Section,
    facet: Any,
    _far: WorkloadPoint,
    operation: str,
    statistic: str,
) -> Figure | None:
    """Draw latency, in µs or ms depending on the smallest value."""
    cells = [c for p in section.of_facet(facet) for c in comparison.row(p).cells.values()]
    key = f"latency_{statistic}_ns.{operation}"
    known = [cell.values[key].estimate for cell in cells if key in cell.values]
    unit, factor = ("ms", 1e-6) if min(known, default=0.0) >= 1e6 else ("µs", 1e-3)
    wanted = _Wanted(
        "gpudirect_median" if statistic == "p50" else "gpudirect_latency",
        f"latency-{operation}-{statistic}", key,
        f"{operation} latency, {statistic}", unit, "lowest", factor, most=False, log=True,
    )  # fmt: skip
    return _figure(comparison, section, facet, wanted)


def _figure(comparison: Comparison, section: Section, facet: Any, wanted: _Wanted) -> Figure | None:
    column = comparison.column(wanted.key)
    if column is None:
        return None
    lines = Lines.of(comparison, section, facet, column, wanted.factor)
    if not lines.means:
        return None
    best = best_points(comparison, section, facet, wanted.key, most=wanted.most)
    ringed = {b.target: x_text(section, b.point) for b in best} if not wanted.log else {}
    rings = [mean for mean in lines.means if ringed.get(mean["target"]) == mean["x"]]
    lows = [m["low"] for m in lines.means if m["low"] > 0]
    high = 1.06 * max(lines.values)
    look = Look(
        kind=wanted.kind,
        name=wanted.name,
        words=f"{wanted.words} ({wanted.unit})",
        y_title=f"{wanted.words} ({wanted.unit})",
        unit=wanted.unit,
        bounds=log_bounds([*lows, *lines.values]) if wanted.log else (0, high),
        log=wanted.log,
        above=[ring_layer(lines.order)] if rings else [],
        data={"rings": rings},
    )
    return lines.figure(look, _title(wanted, column, comparison, section, facet))


def _title(
    wanted: _Wanted, column: Column, comparison: Comparison, section: Section, facet: Any
) -> str:
    """Return a title: ``highest throughput of 11 points: 3.1 GB/s on A with 256 workers``."""
    parts = []
    for best in best_points(comparison, section, facet, wanted.key, most=wanted.most):
        value = best.value.estimate
        shown = (
            latency_text(value)
            if column.unit == "ns"
            else f"{digits3(value * wanted.factor)}{NBSP}{wanted.unit}"
        )
        parts.append(f"{shown} on {best.target} with {best.at}")
    points = len(section.of_facet(facet))
    return f"{wanted.words}, {wanted.best} of {points} points: {', '.join(parts)}"
