"""Line charts over a sweep, such as of workers, with a ring at the best point of each target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.base.units import format_number
from storlab.contracts.figure import Bars
from storlab.figures.bars import bar_figure
from storlab.figures.common import far_places, is_swept, x_text
from storlab.figures.figure import Figure, Place
from storlab.figures.over_sweep import Lines, Look
from storlab.figures.panels import over_facets, sweep_words
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


def draw_throughput(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw throughput over the sweep, or as bars if only one number of workers was measured."""
    single = [section for section in sections if not is_swept(section)]
    bars = Bars("throughput", {"moved": "throughput_mb_s.all"}, name="throughput")
    return [
        *_swept(comparison, sections, "throughput"),
        *_bars(comparison, single, "gpudirect_throughput", bars),
    ]


def draw_efficiency(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw throughput per watt over the sweep."""
    return _swept(comparison, sections, "efficiency")


def draw_cpu(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw client CPU per GB over the sweep, or as bars if nothing was swept."""
    single = [section for section in sections if not is_swept(section)]
    bars = Bars("client CPU", {"per GB": CPU}, name="cpu")
    return [
        *_swept(comparison, sections, "cpu"),
        *_bars(comparison, single, "gpudirect_cpu", bars),
    ]


def draw_tail(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the 99th percentile of read and write latency over the sweep."""
    return _latencies(comparison, sections, "p99")


def draw_median(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the median of read and write latency over the sweep."""
    return _latencies(comparison, sections, "p50")


def _bars(
    comparison: Comparison, sections: Sequence[Section], kind: str, bars: Bars
) -> list[Figure]:
    places = (Place.at(comparison, *place) for place in far_places(comparison, sections))
    figures = (bar_figure(kind, bars, place) for place in places)
    return [figure for figure in figures if figure is not None]


def _swept(comparison: Comparison, sections: Sequence[Section], name: str) -> list[Figure]:
    return _over_sizes(comparison, sections, partial(_figure, wanted=_WANTED[name]), _WANTED[name])


def _latencies(comparison: Comparison, sections: Sequence[Section], statistic: str) -> list[Figure]:
    figures = []
    for operation in ("read", "write"):
        key = f"latency_{statistic}_ns.{operation}"
        wanted = _Wanted("", "", key, f"{operation} latency {statistic}", "", "lowest")
        draw = partial(_latency, operation=operation, statistic=statistic)
        figures += _over_sizes(comparison, sections, draw, wanted)
    return figures


def _over_sizes(
    comparison: Comparison,
    sections: Sequence[Section],
    draw: Callable[[Place], Figure | None],
    wanted: _Wanted,
) -> list[Figure]:
    """Draw a figure per section that is swept, with a panel per transfer size."""

    def title(places: Sequence[Place]) -> str:
        return sweep_words(places, wanted.key, wanted.words)

    return [
        figure
        for section in sections
        if is_swept(section)
        for figure in over_facets(comparison, section, draw, title)
    ]


def _latency(far: Place, operation: str, statistic: str) -> Figure | None:
    """Draw latency over a sweep, in µs or ms depending on the smallest value."""
    cells = [c for p in far.points for c in far.comparison.row(p).cells.values()]
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
    lines = Lines.of(comparison, section, facet, column, wanted.factor, far.size)
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
