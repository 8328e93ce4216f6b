"""Workload points: keys that identify the same work on different targets, and their names.

A workload point is a combination of parameters without a target. On a page, one swept parameter is
the horizontal axis, one distinguishes the small multiples, and the others form sections. The
workload family's :class:`~storlab.contracts.page.Page` assigns these roles and the labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from storlab.base.units import (
    exact_duration,
    exact_number,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)
from storlab.contracts.page import Page
from storlab.contracts.registry import FAMILIES
from storlab.model.point import Point
from storlab.model.study import UseCase

NBSP = "\u00a0"
CLIENTS = "clients"
"""Parameter name for the number of cluster clients, which belongs to no workload family."""


def page_of(kind: str) -> Page:
    """Return the page layout of a workload family.

    Raises:
        KeyError: The family is not registered.
    """
    return FAMILIES[kind].page


@dataclass(frozen=True, slots=True)
class WorkloadPoint:
    """Work of a point, regardless of its target; runs with equal keys are comparable."""

    workload: str
    kind: str
    engine: str
    params: Mapping[str, Any]
    part_of: str = ""  # workload that it is a group of; empty for whole workloads
    _key: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, point: Point) -> WorkloadPoint:
        """Return the workload point of ``point``, with the number of clients as a parameter."""
        params = point.params
        if point.clients is not None:
            params = {**params, CLIENTS: point.clients}
        return cls(point.workload, point.kind, point.engine, params)

    @property
    def page(self) -> Page:
        """Page layout of the workload family."""
        return page_of(self.kind)

    @property
    def clients(self) -> int | None:
        """Number of cluster clients that generated the load; None for the local machine alone."""
        return self.params.get(CLIENTS)

    @property
    def key(self) -> str:
        """Canonical text that is equal for equal work; cached, because it is read very often."""
        if not self._key:
            parts = [self.workload, self.kind, self.engine, dict(self.params)]
            text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
            self._key.append(text)
        return self._key[0]


@dataclass(frozen=True, slots=True)
class Axes:
    """Roles of the swept parameters on a page."""

    x: str  # parameter on the horizontal axis
    facet: str | None  # parameter that distinguishes the small multiples
    section: tuple[str, ...]  # parameters that distinguish sections

    @property
    def varying(self) -> tuple[str, ...]:
        """All swept parameters: sections first, the axis last."""
        return (*self.section, *((self.facet,) if self.facet else ()), self.x)


def title_of(page: Page, name: str) -> str:
    """Return the display name of a parameter."""
    return page.parameters.titles.get(name, name.replace("_percent", " (%)").replace("_", " "))


def format_value(page: Page, name: str, value: Any) -> str:
    """Format a parameter's value for display, such as ``256 KiB`` or ``70/30``."""
    if value is None:
        return page.parameters.absent.get(name, "default")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == page.load.level and isinstance(value, int | float):
        return f"{exact_number(value)}{NBSP}%"
    if name == page.parameters.mix and isinstance(value, int | float):
        return f"{exact_number(value)}/{exact_number(100 - value)}"
    if name in page.parameters.sizes and isinstance(value, int):
        return spaced_size(value)
    if name in page.parameters.durations and isinstance(value, int):
        return format_duration(value)
    if isinstance(value, float):
        return exact_number(value)
    if isinstance(value, Mapping):
        return _table_text(page, name, value)
    if isinstance(value, list | tuple):
        return ", ".join(format_value(page, name, member) for member in value)
    return str(value)


def _table_text(page: Page, name: str, table: Mapping[str, Any]) -> str:
    if name in page.parameters.sizes:
        try:
            return ", ".join(
                f"{spaced_size(parse_size(k))} x {exact_number(v)}" for k, v in table.items()
            )
        except (ValueError, TypeError):
            pass  # not weights by size, but a named distribution
    return ", ".join(f"{title_of(page, k)} {format_value(page, k, v)}" for k, v in table.items())


def spaced_size(size_bytes: int) -> str:
    """Format a size with a non-breaking space: ``262144`` gives ``256 KiB``."""
    text = format_size(size_bytes)
    digits = text.rstrip("BKMGTPi")
    return f"{digits}{NBSP}{text[len(digits) :]}"


def describe(page: Page, params: Mapping[str, Any], names: Collection[str]) -> str:
    """Describe some parameters as a phrase, such as ``70/30 read/write, 256 KiB, 4 jobs``."""
    phrases = (
        _phrase(page, name, params) if name in params else page.parameters.absent.get(name, "")
        for name in names
    )
    return ", ".join(text for text in phrases if text)


def fill_in(page: Page, template: str, params: Mapping[str, Any], swept: Collection[str]) -> str:
    """Fill parameters into a template of the page.

    Args:
        page: Page layout of the workload family.
        template: Text with parameter names in braces.
        params: Parameter values.
        swept: Parameters that vary in the place where the text appears.

    Returns:
        The text; empty if one of its parameters is swept or has no value.
    """
    names = [name for _, name, _, _ in Formatter().parse(template) if name]
    if any(name in swept or params.get(name) is None for name in names):
        return ""
    return template.format(**{name: format_value(page, name, params[name]) for name in names})


def short_mix(page: Page, text: str) -> str:
    """Remove the family's usual words for a mix: ``70/30 GET/PUT, 4 MiB`` gives ``70/30, 4 MiB``.

    Mixes with other words keep them, because ``70/20/10`` without ``GET/PUT/HEAD`` is ambiguous.
    """
    words = re.escape(page.parameters.mix_words)
    return re.sub(rf" {words}(?![\w/])", "", text) if words else text


def value_text(page: Page, name: str, params: Mapping[str, Any]) -> str:
    """Format a parameter's value, such as ``70/30``, for use next to the parameter's name.

    A parameter that is a table is described by a phrase of the workload family.
    """
    value = params.get(name)
    own = (
        page.parameters.phrase(name, params)
        if name == page.parameters.mix or isinstance(value, Mapping)
        else None
    )
    if not own:
        return format_value(page, name, value)
    return short_mix(page, own) if name == page.parameters.mix else own


def _phrase(page: Page, name: str, params: Mapping[str, Any]) -> str:
    if name == CLIENTS:
        return f"{params[name]}{NBSP}client{'' if params[name] == 1 else 's'}"
    own = page.parameters.phrase(name, params)
    if own is not None:
        return own
    text = format_value(page, name, params[name])
    return text if name == page.parameters.facet else f"{title_of(page, name)} {text}"


def choose_axes(points: Sequence[WorkloadPoint]) -> Axes:
    """Assign a role on the page to every swept parameter of the points of one workload."""
    page = points[0].page
    names = list(dict.fromkeys(name for point in points for name in point.params))
    swept = [name for name in names if _varies([point.params.get(name) for point in points])]
    wanted = (page.load.level, *page.parameters.axes, CLIENTS)
    x = next((name for name in wanted if name in swept), None)
    x = x or next((name for name in page.parameters.axes if name in names), page.parameters.axes[0])
    given = {name for point in points for name, value in point.params.items() if value is not None}
    facet = (
        page.parameters.facet
        if page.parameters.facet in given and x != page.parameters.facet
        else None
    )
    named = [name for name in names if name in swept or name == page.parameters.mix]
    return Axes(x, facet, tuple(name for name in named if name not in (x, facet)))


def _varies(values: Sequence[Any]) -> bool:
    """Return whether values of a parameter differ; 1 and true count as different."""
    first = values[0]
    if isinstance(first, int | float | str | None):
        return any(type(value) is not type(first) or value != first for value in values)
    return len({_frozen(value) for value in values}) > 1


def constants(points: Sequence[WorkloadPoint], axes: Axes) -> dict[str, Any]:
    """Return the parameters that are equal for all points, by name."""
    return {k: v for k, v in points[0].params.items() if k not in axes.varying} if points else {}


def section_key(point: WorkloadPoint, axes: Axes) -> tuple[str, ...]:
    """Return a key that is equal for the points of one section."""
    return (point.workload, *(_frozen(point.params.get(name)) for name in axes.section))


def sort_value(value: Any) -> tuple[int, float, str]:
    """Return a sort key that orders numbers by size, before all other values by their text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (0, float(value), "")
    return (1, 0.0, _frozen(value))


def section_rank(page: Page, name: str, value: Any) -> tuple[int, float, str]:
    """Return a sort key for sections: the page's order of that parameter, else ``sort_value``."""
    known = page.parameters.order.get(name, ())
    return (0, float(known.index(value)), "") if value in known else sort_value(value)


def use_cases_of(page: Page, params: Mapping[str, Any], use_cases: Iterable[UseCase]) -> list[str]:
    """Return the names of the study's use cases that match these parameter values."""
    return [case.name for case in use_cases if matches(page, params, case.match)]


def matches(page: Page, params: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a point has all the wanted values; sizes may be given as text."""
    return all(
        name in params and _normal(page, name, params[name]) == _normal(page, name, value)
        for name, value in wanted.items()
    )


def as_read(page: Page, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameter values with durations, given as text or in seconds, converted to ns."""
    return {name: _duration(page, name, value) for name, value in wanted.items()}


def _duration(page: Page, name: str, value: Any) -> Any:
    if name not in page.parameters.durations or not isinstance(value, str | int | float):
        return value
    try:
        return parse_duration(value)
    except ValueError:
        return value


def as_written(page: Page, name: str, value: Any) -> Any:
    """Return a point's value in the notation of a study, such as ``"4KiB"`` or ``"30s"``."""
    if type(value) is int and name in page.parameters.sizes:
        return format_size(value)
    return (
        exact_duration(value) if type(value) is int and name in page.parameters.durations else value
    )


def _normal(page: Page, name: str, value: Any) -> str:
    if name in page.parameters.sizes and isinstance(value, str):
        try:
            value = parse_size(value)
        except ValueError:
            return str(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return exact_number(value) if abs(value) < 1e6 else str(int(value))
    return _frozen(value)


def _frozen(value: Any) -> str:
    if type(value) is int:  # the most frequent type; its JSON equals its text
        return str(value)
    return json.dumps(value, sort_keys=True, default=str)


@dataclass(slots=True)
class Section:
    """Section of a page: points that differ only in the axis and the small multiple."""

    workload: str
    kind: str
    axes: Axes
    prefix: str = ""  # workload or engine, if the page has several
    points: list[WorkloadPoint] = field(default_factory=list)

    @property
    def page(self) -> Page:
        """Page layout of the workload family."""
        return page_of(self.kind)

    @property
    def engine(self) -> str:
        """Engine that executed the runs."""
        return self.points[0].engine

    @property
    def family(self) -> tuple[str, str, str]:
        """Key of kind, workload and engine, equal for sections that belong together on a page."""
        return (self.kind, self.workload, self.engine)

    @property
    def title(self) -> str:
        """Heading that distinguishes this section from all others."""
        text = self.own
        if self.prefix and text:
            return f"{self.prefix}: {text}"
        return text or self.prefix or self.workload

    @property
    def own(self) -> str:
        """Parameters that distinguish the section from others of its workload, as a phrase."""
        return describe(self.page, self.points[0].params, self.axes.section)

    def where(self, point: WorkloadPoint) -> str:
        """Describe one of the section's points, such as ``70/30 read/write, 256 KiB, 4 jobs``."""
        where = describe(self.page, point.params, self.axes.varying) or point.workload
        return f"{self.prefix}: {where}" if self.prefix else where

    @property
    def mix(self) -> str:
        """Short label of the section for an axis of a single workload, such as ``70/30``."""
        return short_mix(self.page, self.own or self.workload)

    def at(self, point: WorkloadPoint) -> str:
        """Describe the position of a point on the axis, such as ``4 jobs``."""
        return describe(self.page, point.params, (self.axes.x,))

    def facet_text(self, value: Any) -> str:
        """Return the display text of a small multiple's value; empty without small multiples."""
        facet = self.axes.facet
        if facet is None or value is None:
            return ""
        params = next(
            (p.params for p in self.points if _frozen(p.params.get(facet)) == _frozen(value)), {}
        )
        text = describe(self.page, params, (facet,))
        return text or format_value(self.page, facet, value)

    def facets(self) -> list[Any]:
        """Return the values of the small multiples in order; ``[None]`` if there are none."""
        if self.axes.facet is None:
            return [None]
        values = {
            _frozen(p.params.get(self.axes.facet)): p.params.get(self.axes.facet)
            for p in self.points
        }
        return sorted(values.values(), key=sort_value)

    def of_facet(self, value: Any) -> list[WorkloadPoint]:
        """Return the points of one small multiple in the order of the axis."""
        facet = self.axes.facet
        points = [
            p
            for p in self.points
            if facet is None or _frozen(p.params.get(facet)) == _frozen(value)
        ]
        return sorted(points, key=lambda p: sort_value(p.params.get(self.axes.x)))


def sections_of(points: Sequence[WorkloadPoint]) -> list[Section]:
    """Group points into the sections of a page: by workload, then by the other swept parameters."""
    families: dict[tuple[str, str, str], list[WorkloadPoint]] = {}
    for point in points:
        families.setdefault((point.kind, point.workload, point.engine), []).append(point)
    workloads, engines = ({family[i] for family in families} for i in (1, 2))
    sections: list[Section] = []
    for (_, workload, engine), members in families.items():
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
            key=lambda s: [
                section_rank(s.page, name, s.points[0].params.get(name)) for name in axes.section
            ],
        )
        sections.extend(order)
    return sections
