"""Workload points: which runs of different targets did the same work, and how to name it.

A workload point is a point without its target. Its parameters take three parts on a page: one is
the horizontal axis (jobs, or queue depth), one the small multiple (block size), the others make
sections.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from storlab.base.units import format_duration, format_size, parse_size
from storlab.model.point import Point
from storlab.model.study import UseCase

NBSP = "\u00a0"
AXES = ("jobs", "queue_depth", "rate_iops")  # the first that is swept is the horizontal axis
FACET = "block_size"
MIX = "read_percent"  # names a section even where it is not swept
TRIMS = "trim_percent"  # where there are any, they are part of the mix
SIZES = ("block_size", "region_start", "region_size", "total_bytes")
DURATIONS = ("drain_timeout",)
TITLES = {
    "read_percent": "mix (read/write)",
    "block_size": "block size",
    "queue_depth": "queue depth",
    "jobs": "jobs",
    "rate_iops": "rate (1/s)",
    "access": "access",
}


@dataclass(frozen=True, slots=True)
class WorkloadPoint:
    """What was done, whoever it was done to. Equal keys mean comparable runs."""

    workload: str
    kind: str
    engine: str
    params: Mapping[str, Any]

    @classmethod
    def of(cls, point: Point) -> WorkloadPoint:
        """The point without its target."""
        return cls(point.workload, point.kind, point.engine, point.params)

    @property
    def key(self) -> str:
        """Canonical text: the same for the same work."""
        said = [self.workload, self.kind, self.engine, dict(self.params)]
        return json.dumps(said, sort_keys=True, separators=(",", ":"), default=str)


@dataclass(frozen=True, slots=True)
class Axes:
    """The part that each swept parameter takes on a page."""

    x: str  # the horizontal axis
    facet: str | None  # the small multiples
    section: tuple[str, ...]  # what tells sections apart

    @property
    def varying(self) -> tuple[str, ...]:
        """All swept parameters, sections first, the axis last."""
        return (*self.section, *((self.facet,) if self.facet else ()), self.x)


def title_of(name: str) -> str:
    """A parameter's name for people."""
    return TITLES.get(name, name.replace("_percent", " (%)").replace("_", " "))


def format_value(name: str, value: Any) -> str:
    """A parameter's value for people: ``256 KiB``, ``70/30``."""
    if value is None:
        return "default"
    if name == MIX and isinstance(value, int | float):
        return f"{value:g}/{100 - value:g}"
    if name in SIZES and isinstance(value, int):
        return spaced_size(value)
    if name in DURATIONS and isinstance(value, int):
        return format_duration(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping) and name in SIZES:
        return ", ".join(f"{spaced_size(parse_size(k))} x {v:g}" for k, v in value.items())
    if isinstance(value, Mapping):
        return ", ".join(f"{title_of(k)} {format_value(k, v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(format_value(name, member) for member in value)
    return str(value)


def spaced_size(size_bytes: int) -> str:
    """``262144`` gives ``256 KiB`` with a space that does not break."""
    text = format_size(size_bytes)
    digits = text.rstrip("BKMGTPi")
    return f"{digits}{NBSP}{text[len(digits) :]}"


def describe(params: Mapping[str, Any], names: Collection[str]) -> str:
    """Some parameters as a phrase: ``70/30, 256 KiB, 4 jobs``."""
    trims = params.get(TRIMS) or 0
    return ", ".join(
        _mix_with_trims(params[MIX], trims)
        if name == MIX and trims
        else _phrase(name, params[name])
        for name in names
        if name in params and not (name == TRIMS and trims and MIX in names)
    )


def _mix_with_trims(reads: float, trims: float) -> str:
    """What is neither read nor trimmed is written: ``20/50/30 read/write/trim``."""
    if trims == 100:
        return "trims only"
    return f"{reads:g}/{100 - reads - trims:g}/{trims:g} read/write/trim"


def _phrase(name: str, value: Any) -> str:
    text = format_value(name, value)
    if name == "jobs":
        return f"{text}{NBSP}job" if value == 1 else f"{text}{NBSP}jobs"
    if name == MIX and isinstance(value, int | float):
        return {100.0: "reads only", 0.0: "writes only"}.get(value, f"{text} read/write")
    if name in (FACET, "access"):
        return text
    if name == "rate_iops" and value is not None:
        return f"{text} operations/s"
    return f"{title_of(name)} {text}"


def choose_axes(points: Sequence[WorkloadPoint]) -> Axes:
    """Give every swept parameter of these points its part. The points are of one workload."""
    names = list(dict.fromkeys(name for point in points for name in point.params))
    swept = [name for name in names if len({_frozen(p.params.get(name)) for p in points}) > 1]
    x = next((name for name in AXES if name in swept), None)
    x = x or next((name for name in AXES if name in names), names[0] if names else "jobs")
    facet = FACET if FACET in names and x != FACET else None
    said = [name for name in names if name in swept or name == MIX]
    return Axes(x, facet, tuple(name for name in said if name not in (x, facet)))


def constants(points: Sequence[WorkloadPoint], axes: Axes) -> dict[str, Any]:
    """The parameters that all points share."""
    return {k: v for k, v in points[0].params.items() if k not in axes.varying} if points else {}


def section_key(point: WorkloadPoint, axes: Axes) -> tuple[str, ...]:
    """Equal for the points of one section."""
    return (point.workload, *(_frozen(point.params.get(name)) for name in axes.section))


def sort_value(value: Any) -> tuple[int, float, str]:
    """Orders numbers by size, and everything else by its text after them."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (0, float(value), "")
    return (1, 0.0, _frozen(value))


def use_cases_of(params: Mapping[str, Any], use_cases: Iterable[UseCase]) -> list[str]:
    """The names that readers know for these parameter values."""
    return [case.name for case in use_cases if _matches(params, case.match)]


def _matches(params: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(
        name in params and _normal(name, params[name]) == _normal(name, value)
        for name, value in wanted.items()
    )


def _normal(name: str, value: Any) -> str:
    if name in SIZES and isinstance(value, str):
        try:
            value = parse_size(value)
        except ValueError:
            return str(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}" if abs(value) < 1e6 else str(int(value))
    return _frozen(value)


def _frozen(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


@dataclass(slots=True)
class Section:
    """The points of one mix, in the order of a page."""

    workload: str
    kind: str
    axes: Axes
    prefix: str = ""  # workload or engine, where there are several
    points: list[WorkloadPoint] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What tells this section from the others."""
        said = describe(self.points[0].params, self.axes.section)
        if self.prefix and said:
            return f"{self.prefix}: {said}"
        return said or self.prefix or self.workload

    def where(self, point: WorkloadPoint) -> str:
        """One of its points in words: ``70/30 read/write, 256 KiB, 4 jobs``."""
        said = describe(point.params, self.axes.varying) or point.workload
        return f"{self.prefix}: {said}" if self.prefix else said

    def facets(self) -> list[Any]:
        """The values of the small multiples, in order; ``[None]`` where there are none."""
        if self.axes.facet is None:
            return [None]
        values = {
            _frozen(p.params.get(self.axes.facet)): p.params.get(self.axes.facet)
            for p in self.points
        }
        return sorted(values.values(), key=sort_value)

    def of_facet(self, value: Any) -> list[WorkloadPoint]:
        """The points of one small multiple, along the axis."""
        facet = self.axes.facet
        found = [
            p
            for p in self.points
            if facet is None or _frozen(p.params.get(facet)) == _frozen(value)
        ]
        return sorted(found, key=lambda p: sort_value(p.params.get(self.axes.x)))


def sections_of(points: Sequence[WorkloadPoint]) -> list[Section]:
    """Group points into the sections of a page: by workload, then by what else is swept."""
    families: dict[tuple[str, str], list[WorkloadPoint]] = {}
    for point in points:
        families.setdefault((point.workload, point.engine), []).append(point)
    workloads, engines = ({family[i] for family in families} for i in (0, 1))
    sections: list[Section] = []
    for (workload, engine), members in families.items():
        axes = choose_axes(members)
        names = [workload] * (len(workloads) > 1) + [engine] * (len(engines) > 1)
        grouped: dict[tuple[str, ...], Section] = {}
        for point in members:
            key = section_key(point, axes)
            if key not in grouped:
                grouped[key] = Section(workload, point.kind, axes, ", ".join(names))
            grouped[key].points.append(point)
        for section in grouped.values():
            section.points.sort(
                key=lambda p, a=axes: [  # type: ignore[misc]
                    sort_value(p.params.get(name)) for name in a.varying
                ]
            )
        order = sorted(
            grouped.values(),
            key=lambda s: [sort_value(s.points[0].params.get(name)) for name in axes.section],
        )
        sections.extend(order)
    return sections
