"""Line charts with a line per data path, to show what the direct path gains for equal work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.density import scaled
from storlab.analysis.points import NBSP, Section, WorkloadPoint, describe
from storlab.base.units import format_number
from storlab.figures.common import axis_title, family_name, x_text
from storlab.figures.figure import WHOLE, Figure, Size
from storlab.figures.over_sweep import Look, line_plot, mean_of, rounded
from storlab.figures.panels import beside, chunks, panel_size
from storlab.figures.theme import log_bounds
from storlab.model.decision import Interval
from storlab.words.text import MISSING, interval_text, latency_text
from storlab.workloads.gpudirect.figures.best import EFFICIENCY, THROUGHPUT

KIND = "gpudirect_paths"
# Parameters that describe a data path. Points that differ only in them do equal work.
OF_PATH = ("path", "api", "queue_depth", "register_buffers")
CPU = "cpu_s_per_gb.all"
J_GB = 1_000.0  # divided by a value in MB/J, it gives J/GB
GB = 1e-3  # converts MB/s to GB/s


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Quantity to draw, with a line per path."""

    name: str
    key: str
    words: str
    unit: str
    factor: float = 1.0
    inverse: bool = False  # whether to draw J_GB divided by the metric
    more: bool = False  # whether larger is better
    log: bool = True

    def shown(self, value: float) -> float:
        """Convert a metric's value to the unit of the chart."""
        return J_GB / value if self.inverse else value * self.factor

    def interval(self, value: Interval | None) -> Interval | None:
        """Convert a mean with its interval to the unit of the chart."""
        if value is None or (self.inverse and value.estimate <= 0):
            return None
        if not self.inverse:
            return scaled(value, self.factor)
        low, high = (J_GB / end if end else None for end in (value.high, value.low))
        return Interval(J_GB / value.estimate, low, high, value.n)

    def text(self, value: Interval) -> str:
        """Format a value in the unit of the chart, for a title."""
        if self.unit in ("µs", "ms"):
            return latency_text(value.estimate / self.factor)
        return f"{format_number(value.estimate)}{NBSP}{self.unit}"


_RATE = _Wanted("throughput", THROUGHPUT, "throughput", "GB/s", GB, more=True, log=False)


@dataclass(frozen=True, slots=True)
class _Same:
    """Points of one target with equal work; ``ways`` has the points of each path by its name."""

    target: str
    where: str
    ways: dict[str, tuple[Section, list[WorkloadPoint]]]

    @property
    def section(self) -> Section:
        """Section of the first path, used for properties that all paths share."""
        return next(iter(self.ways.values()))[0]


def way_name(section: Section, point: WorkloadPoint) -> str:
    """Name a path with those of its parameters that vary: ``direct, batch, batches of 16``."""
    names = ["path", *(name for name in OF_PATH[1:] if name in section.axes.varying)]
    return describe(point.page, point.params, names)


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the throughput of all paths in a figure per target, with a panel per transfer size."""
    by_target: dict[str, list[_Same]] = {}
    for same in _same_work(comparison, sections):
        by_target.setdefault(same.target, []).append(same)
    figures = []
    for target, works in by_target.items():
        for some in chunks(works):
            drawn = _panels(comparison, some, _RATE, panel_size(len(some)))
            if len(drawn) > 1:
                title = f"Throughput by path on {target}"
                whole = beside(drawn, "work", title, 2)
                name = family_name("paths-throughput", works[0].section, some[0].where, target)
                figures.append(replace(whole, name=name))
            elif drawn:
                figures += [figure for _, figure in _panels(comparison, some, _RATE, WHOLE)]
    return figures


def _panels(
    comparison: Comparison, works: Sequence[_Same], wanted: _Wanted, size: Size
) -> list[tuple[str, Figure]]:
    drawn = ((same.where, _figure(comparison, same, wanted, size)) for same in works)
    return [(where, figure) for where, figure in drawn if figure is not None]


def draw_further(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw latency, CPU and energy of all paths in a figure per target and transfer size."""
    quantities = _quantities(comparison)
    figures = (
        _figure(comparison, same, wanted)
        for same in _same_work(comparison, sections)
        for wanted in quantities
    )
    return [replace(f, kind="gpudirect_paths_further") for f in figures if f is not None]


def _quantities(comparison: Comparison) -> list[_Wanted]:
    tails = (f"latency_p99_ns.{operation}" for operation in ("read", "write"))
    tail = next((key for key in tails if comparison.column(key) is not None), "")
    values = [
        cell.values[tail].estimate
        for row in comparison.rows.values()
        for cell in row.cells.values()
        if tail in cell.values
    ]
    unit, factor = ("ms", 1e-6) if min(values, default=0.0) >= 1e6 else ("µs", 1e-3)
    latency = f"{tail.rpartition('.')[2]} latency, p99"
    return [
        _Wanted("latency", tail, latency, unit, factor),
        _Wanted("cpu", CPU, "client CPU per GB", "s/GB"),
        _Wanted("energy", EFFICIENCY, "energy per GB", "J/GB", inverse=True),
    ]


def _same_work(comparison: Comparison, sections: Sequence[Section]) -> Iterator[_Same]:
    works: dict[tuple[str, str], _Same] = {}
    for section in sections:
        x = section.axes.x
        for point in section.points:
            rest = {k: v for k, v in point.params.items() if k not in (*OF_PATH, x)}
            key = json.dumps(rest, sort_keys=True, default=str)
            names = [n for n in section.axes.varying if n not in (*OF_PATH, x)]
            where = describe(section.page, point.params, names) or point.workload
            for target in comparison.planned([point]):
                if comparison.row(point).cells[target].measured:
                    same = works.setdefault((target, key), _Same(target, where, {}))
                    way = same.ways.setdefault(way_name(section, point), (section, []))
                    way[1].append(point)
    for same in works.values():
        paths = {p.params["path"] for _, points in same.ways.values() for p in points}
        most = max(len(points) for _, points in same.ways.values())
        if len(paths) > 1 and most > 1:
            yield _shortly(same)


def _shortly(same: _Same) -> _Same:
    """Remove parameters from the names of paths, unless a path occurs several times."""
    paths = [str(points[0].params["path"]) for _, points in same.ways.values()]
    if len(set(paths)) < len(paths):
        return same
    return replace(same, ways=dict(zip(paths, same.ways.values(), strict=True)))


def _figure(
    comparison: Comparison, same: _Same, wanted: _Wanted, size: Size = WHOLE
) -> Figure | None:
    column = comparison.column(wanted.key)
    if column is None:
        return None
    cells = _cells(comparison, same)
    order = list(dict.fromkeys(x for _, x, _ in sorted(cells, key=_place(same))))
    means = [m for way, x, cell in cells if (m := _mean(way, x, cell, column, wanted))]
    if len({mean["x"] for mean in means}) < 2:
        return None
    dots = [
        {"target": way, "x": x, "value": rounded(wanted.shown(value))}
        for way, x, cell in cells
        for value in cell.repeats(column)
        if value > 0
    ]
    values = [*(m["high"] for m in means), *(d["value"] for d in dots)]
    lows = [m["low"] for m in means if m["low"] > 0]
    unit = f"{wanted.words} ({wanted.unit})"
    look = Look(
        kind=KIND,
        name=wanted.name,
        words=f"{unit} by each path",
        y_title=unit,
        unit=wanted.unit,
        bounds=log_bounds([*lows, *values]) if wanted.log else (0, 1.06 * max(values)),
        log=wanted.log,
    )
    several = len(comparison.planned(same.section.points)) > 1
    place = ", ".join([same.where, same.target] if several else [same.where])
    ways = list(same.ways)
    every = [*comparison.targets, *ways]
    look = look.in_panel(size) if size.panel else look
    plot = line_plot(
        look, same.section, order, (means, dots), ways, every, "path", panel=size.panel
    )
    by_place = {(way, x): cell for way, x, cell in cells}
    return Figure.of(
        comparison,
        [point for _, points in same.ways.values() for point in points],
        name=family_name(f"paths-{wanted.name}", same.section, same.where, same.target),
        kind=KIND,
        title=f"{place}: {_title(same, cells, column, wanted)}",
        shows=f"Line chart of {look.words} against {axis_title(same.section)}",
        spec=plot.spec(size.width, size.height),
        columns=[same.section.axes.x, *(f"{way} ({wanted.unit})" for way in ways)],
        rows=[[x, *(_text(by_place.get((way, x)), column, wanted) for way in ways)] for x in order],
        note=place,
        latencies=column.unit == "ns",
    )


def _cells(comparison: Comparison, same: _Same) -> list[tuple[str, str, Cell]]:
    """Return each result with the name of its path and its value of the swept parameter."""
    return [
        (way, x_text(section, point), comparison.row(point).cells[same.target])
        for way, (section, points) in same.ways.items()
        for point in points
    ]


def _place(same: _Same) -> Callable[[tuple[str, str, Cell]], int]:
    """Return a sort key by the swept parameter, whose values may differ between paths."""
    places = {
        x_text(section, point): point.params[section.axes.x] or 0
        for section, points in same.ways.values()
        for point in points
    }
    return lambda entry: int(places[entry[1]])


def _mean(way: str, x: str, cell: Cell, column: Column, wanted: _Wanted) -> dict[str, Any] | None:
    value = wanted.interval(cell.values.get(column.key))
    if value is None:
        return None
    return mean_of(way, x, cell, column, value)


def _text(cell: Cell | None, column: Column, wanted: _Wanted) -> str:
    value = None if cell is None else wanted.interval(cell.values.get(column.key))
    return MISSING if value is None else interval_text(value)


def _title(
    same: _Same, cells: Sequence[tuple[str, str, Cell]], column: Column, wanted: _Wanted
) -> str:
    """Return a title: ``throughput, highest of 4 points: 3.1 GB/s direct; 2.6 GB/s bounce``."""
    parts = []
    for way in same.ways:
        own = (c.values.get(column.key) for name, _, c in cells if name == way)
        values = [v for cell in own if (v := wanted.interval(cell)) is not None]
        if values:
            chosen = (max if wanted.more else min)(values, key=lambda v: v.estimate)
            parts.append(f"{wanted.text(chosen)} {way}")
    points = len({x for _, x, _ in cells})
    best = "highest" if wanted.more else "lowest"
    return f"{best} {wanted.words} of {points} points: {', '.join(parts)}"
