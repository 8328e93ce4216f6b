"""Helpers shared by all figures: file names, titles, and texts of points and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from storlab.analysis.compare import Comparison
from storlab.analysis.points import (
    CLIENTS,
    Section,
    WorkloadPoint,
    describe,
    fill_in,
    format_value,
    title_of,
)
from storlab.contracts.page import Page, Quantity
from storlab.contracts.registry import FAMILIES
from storlab.contracts.services import dividing_family

NOT_MEASURED = ("modelled", "emulated", "declared", "published")  # provenances drawn hatched


def slug(*parts: str) -> str:
    """Join texts to a file name: ``70/30`` and ``256 KiB`` give ``70-30-256-kib``."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def axis_title(section: Section) -> str:
    """Return the title of the axis of a sweep, which also states the load per cluster client."""
    x, page = section.axes.x, section.page
    template = page.parameters.axis_titles.get(x, "")
    title = fill_in(page, template, section.points[0].params, section.axes.section)
    return (title or title_of(page, x)) + _each_client(section)


def _each_client(section: Section) -> str:
    """Return a suffix for an axis title on a cluster, such as ``, on each of 12 clients``."""
    page, first = section.page, section.points[0]
    if first.clients is None or dividing_family(section.kind) is not None:
        return ""
    if section.axes.x == CLIENTS:
        load = describe(page, first.params, (page.load.per_client,))
        same = len({point.params.get(page.load.per_client) for point in section.points}) == 1
        return f", {load} each" if load and same else ""
    counts = {point.clients for point in section.points}
    return f", on each of {first.clients} clients" if counts == {first.clients} != {1} else ""


def place_of(section: Section, facet: Any) -> str:
    """Return mix and block size as text, for example ``70/30 read/write, 256 KiB``."""
    if section.axes.facet is None or facet is None:
        return section.title
    size = section.facet_text(facet)
    return size if section.title == section.workload else f"{section.title}, {size}"


def figure_name(kind: str, section: Section, facet: Any) -> str:
    """Return a file name that is unique in a brief, for a figure of one mix and block size."""
    return family_name(kind, section, section.own, section.facet_text(facet))


def family_name(kind: str, section: Section, *more: str) -> str:
    """Return a file name for a figure of all mixes, made of kind, workload and engine.

    The engine is omitted if only the native engine was used.
    """
    alone = section.engine == "native" and not section.prefix.endswith("native")
    return slug(kind, section.workload, "" if alone else section.engine, *more)


def x_text(section: Section, point: WorkloadPoint) -> str:
    """Return a point's value of the swept parameter as text."""
    return format_value(section.page, section.axes.x, point.params.get(section.axes.x))


def is_swept(section: Section) -> bool:
    """Return whether the points of a section have more than one value of the swept parameter."""
    return len({x_text(section, point) for point in section.points}) > 1


def place_at(section: Section, facet: Any, point: WorkloadPoint) -> str:
    """Describe a point in a text such as ``70/30 read/write, 256 KiB, 4 jobs``."""
    return ", ".join(part for part in (place_of(section, facet), section.at(point)) if part)


def operations_of(section: Section) -> tuple[tuple[str, str], ...]:
    """Return the operations that transfer data, each with its name for readers."""
    return tuple(
        (operation, section.page.operations.name_of(operation))
        for operation in section.page.operations.moved
    )


def timed_operations(section: Section) -> tuple[str, ...]:
    """Return the operations whose latencies figures show: those that transfer data, and flushes."""
    return (*section.page.operations.moved, *section.page.operations.auxiliary)


def plural_of(section: Section, operation: str) -> str:
    """Return the plural of an operation's name, such as ``reads`` or ``flushes``."""
    name = section.page.operations.name_of(operation)
    return f"{name}es" if name.endswith("sh") else f"{name}s"


def quantity_named(page: Page, key: str) -> Quantity | None:
    """Return the quantity that a workload family defines for a column key; None if none."""
    return next((quantity for quantity in page.metrics.quantities if quantity.key == key), None)


def is_small(section: Section, facet: Any) -> bool:
    """Return whether blocks are so small that figures show operations, not bytes, per second."""
    page = section.page
    sized = section.axes.facet in page.parameters.sizes
    if section.axes.facet is None and page.parameters.facet in page.parameters.sizes:
        facet, sized = section.points[0].params.get(page.parameters.facet or ""), True
    return sized and isinstance(facet, int) and facet <= page.parameters.by_rate


def clients_of(section: Section) -> int:
    """Return the largest number of cluster clients of any point; 0 without a cluster."""
    return max((point.clients or 0 for point in section.points), default=0)


def window_words(section: Section) -> str:
    """Return ``measure window``, or ``run`` for workloads that do a fixed amount of work."""
    return "run" if FAMILIES[section.kind].fixed_work else "measure window"


def latency_kind(
    comparison: Comparison, section: Section, operation: str | None = None
) -> tuple[str, str]:
    """Return the prefix of the latency metrics to show, and their name for readers.

    In open loop, latency counts from the intended start. Flushes have no intended start, so their
    latency always counts from submission. So does that of all operations if some of them were sent
    in a closed loop by a group, because one axis cannot show both kinds.
    """
    if operation in section.page.operations.auxiliary:
        return "latency", "latency"
    cells = [c for point in section.points for c in comparison.row(point).cells.values()]
    main = section.page.operations.main
    intended, submitted = (
        [{op for op in main if f"{time}_mean_ns.{op}" in cell.values} for cell in cells]
        for time in ("intended_latency", "latency")
    )
    both = any(own and other - own for own, other in zip(intended, submitted, strict=True))
    if any(intended) and not both:
        return "intended_latency", "latency from the intended start"
    return "latency", "latency"


def far_points(
    comparison: Comparison, sections: Sequence[Section]
) -> dict[str, tuple[Any, list[tuple[Section, WorkloadPoint]]]]:
    """Return the last point of the sweep of every section, grouped by block size or other facet.

    The keys are facet values as text. Each group has the facet value, and its points with sections.
    """
    by_facet: dict[str, tuple[Any, list[tuple[Section, WorkloadPoint]]]] = {}
    for section in sections:
        for facet in section.facets():
            point = last_point(comparison, section, facet)
            if point is not None:
                by_facet.setdefault(str(facet), (facet, []))[1].append((section, point))
    return by_facet


def family_place(places: Sequence[tuple[Section, WorkloadPoint]], facet: Any) -> str:
    """Describe what the last points of several mixes share, as ``4 MiB, concurrency 16``."""
    size = places[0][0].facet_text(facet)
    at = " or ".join(sorted({place for section, point in places if (place := section.at(point))}))
    return ", ".join(part for part in (size, at) if part)


def last_point(comparison: Comparison, section: Section, facet: Any) -> WorkloadPoint | None:
    """Return the last point of the sweep among those with the most measured targets, or None."""
    return comparison.last_point(section, facet)


def last_point_text(section: Section) -> str:
    """Return words for the last point of a sweep, such as ``the largest number of clients``."""
    own = section.page.text.last_point
    if section.axes.x == section.page.load.level:
        own = "the maximum in closed loop"
    return "the largest number of clients" if section.axes.x == CLIENTS else own


def far_places(
    comparison: Comparison, sections: Sequence[Section]
) -> Iterator[tuple[Section, Any, WorkloadPoint]]:
    """Yield every section and block size (or other facet) with the last point of its sweep."""
    for section in sections:
        for facet in section.facets():
            point = last_point(comparison, section, facet)
            if point is not None:
                yield section, facet, point


def point_ids(comparison: Comparison, points: list[WorkloadPoint]) -> list[str]:
    """Return the point ids of all targets that were measured at these points."""
    cells = [cell for point in points for cell in comparison.row(point).cells.values()]
    return [cell.point_id for cell in cells if cell.point_id and cell.measured]


def plotted(value: float) -> float:
    """Round a value to seven significant digits, for the data of a chart."""
    return float(f"{value:.7g}")
