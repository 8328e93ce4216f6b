"""What several kinds of figure share: names, titles and numbers as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from storlab.analysis import digits
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
from storlab.analysis.stats import Interval
from storlab.base.units import NS_PER_S, significant
from storlab.contracts.offers import divides
from storlab.contracts.page import Page, Quantity
from storlab.contracts.registry import FAMILIES

MISSING = "not measured"
NOT_MEASURED = ("modelled", "emulated", "declared", "published")  # provenance drawn hatched


def slug(*parts: str) -> str:
    """Parts of a name as a file name: ``70/30``, ``256 KiB`` give ``70-30-256-kib``."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def axis_title(section: Section) -> str:
    """The horizontal axis, with what is multiplied by it."""
    x, page = section.axes.x, section.page
    template = page.axis_titles.get(x, "")
    title = fill_in(page, template, section.points[0].params, section.axes.section)
    return (title or title_of(page, x)) + _each_client(section)


def _each_client(section: Section) -> str:
    """What a workload says is done by each client of a cluster: ``, on each of 12 clients``."""
    page, first = section.page, section.points[0]
    if first.clients is None or divides(section.kind) is not None:
        return ""
    if section.axes.x == CLIENTS:
        load = describe(page, first.params, (page.per_client,))
        same = len({point.params.get(page.per_client) for point in section.points}) == 1
        return f", {load} each" if load and same else ""
    counts = {point.clients for point in section.points}
    return f", on each of {first.clients} clients" if counts == {first.clients} != {1} else ""


def place_of(section: Section, facet: Any) -> str:
    """``70/30 read/write, 256 KiB``."""
    if section.axes.facet is None or facet is None:
        return section.title
    size = section.facet_text(facet)
    return size if section.title == section.workload else f"{section.title}, {size}"


def figure_name(kind: str, section: Section, facet: Any) -> str:
    """A file name that no other figure of the brief has."""
    return family_name(kind, section, section.own, section.facet_text(facet))


def family_name(kind: str, section: Section, *more: str) -> str:
    """The same of a figure over a whole family: its workload and engine, each once.

    Native goes without saying where it is the only engine.
    """
    alone = section.engine == "native" and not section.prefix.endswith("native")
    return slug(kind, section.workload, "" if alone else section.engine, *more)


def x_text(section: Section, point: WorkloadPoint) -> str:
    """A point's place on the horizontal axis."""
    return format_value(section.page, section.axes.x, point.params.get(section.axes.x))


def is_swept(section: Section) -> bool:
    """Whether the horizontal axis has more than one place."""
    return len({x_text(section, point) for point in section.points}) > 1


def place_at(section: Section, facet: Any, point: WorkloadPoint) -> str:
    """``70/30 read/write, 256 KiB, 4 jobs``."""
    return ", ".join(part for part in (place_of(section, facet), section.at(point)) if part)


def operations_of(section: Section) -> tuple[tuple[str, str], ...]:
    """The operations that transfer bytes, each with its name for people."""
    return tuple((operation, section.page.name_of(operation)) for operation in section.page.moved)


def timed_operations(section: Section) -> tuple[str, ...]:
    """Return the operations whose latencies figures show if they were measured: flushes too."""
    return (*section.page.moved, *section.page.beside)


def plural_of(section: Section, operation: str) -> str:
    """Name several operations of one kind: ``reads``, ``flushes``."""
    name = section.page.name_of(operation)
    return f"{name}es" if name.endswith("sh") else f"{name}s"


def sentence(text: str) -> str:
    """The text with a capital first letter, and all others as they are."""
    return text[:1].upper() + text[1:]


def quantity_named(page: Page, key: str) -> Quantity | None:
    """The family's own quantity of that column; None where it has none."""
    return next((quantity for quantity in page.quantities if quantity.key == key), None)


def is_small(section: Section, facet: Any) -> bool:
    """Whether operations say more of this small multiple than bytes: of small blocks."""
    page = section.page
    sized = section.axes.facet in page.sizes
    if section.axes.facet is None and page.facet in page.sizes:
        facet, sized = section.points[0].params.get(page.facet or ""), True
    return sized and isinstance(facet, int) and facet <= page.small


def clients_of(section: Section) -> int:
    """The most clients of a cluster that its points ask for; 0 without a cluster."""
    return max((point.clients or 0 for point in section.points), default=0)


def window_words(section: Section) -> str:
    """What is measured: a window of time, or the whole of fixed work."""
    return "run" if FAMILIES[section.kind].fixed_work else "measure window"


def latency_kind(
    comparison: Comparison, section: Section, operation: str | None = None
) -> tuple[str, str]:
    """Return the prefix of the metrics, and words: from the intended start in open loop.

    Flushes are due at no time: their latency is counted from submission in open loop, too.
    """
    if operation in section.page.beside:
        return "latency", "latency"
    cells = [c for point in section.points for c in comparison.row(point).cells.values()]
    if any(key.startswith("intended_latency") for cell in cells for key in cell.values):
        return "intended_latency", "latency from the intended start"
    return "latency", "latency"


def far_points(
    comparison: Comparison, sections: Sequence[Section]
) -> dict[str, tuple[Any, list[tuple[Section, WorkloadPoint]]]]:
    """By the text of a small multiple: its value, and every section's far point in it."""
    by_facet: dict[str, tuple[Any, list[tuple[Section, WorkloadPoint]]]] = {}
    for section in sections:
        for facet in section.facets():
            point = last_point(comparison, section, facet)
            if point is not None:
                by_facet.setdefault(str(facet), (facet, []))[1].append((section, point))
    return by_facet


def family_place(places: Sequence[tuple[Section, WorkloadPoint]], facet: Any) -> str:
    """What the far points of several sections share: ``4 MiB, concurrency 16``."""
    size = places[0][0].facet_text(facet)
    at = " or ".join(sorted({place for section, point in places if (place := section.at(point))}))
    return ", ".join(part for part in (size, at) if part)


def last_point(comparison: Comparison, section: Section, facet: Any) -> WorkloadPoint | None:
    """The point furthest along the axis at which every target was measured (else any of them)."""
    return comparison.last_point(section, facet)


def far_places(
    comparison: Comparison, sections: Sequence[Section]
) -> Iterator[tuple[Section, Any, WorkloadPoint]]:
    """Every section and small multiple with the far point of its axis."""
    for section in sections:
        for facet in section.facets():
            point = last_point(comparison, section, facet)
            if point is not None:
                yield section, facet, point


def point_ids(comparison: Comparison, points: list[WorkloadPoint]) -> list[str]:
    """Of all targets at these points."""
    cells = [cell for point in points for cell in comparison.row(point).cells.values()]
    return [cell.point_id for cell in cells if cell.point_id and cell.measured]


def latency_text(value_ns: float) -> str:
    """``85.1 µs``: three digits, SI."""
    for unit, factor in (("s", NS_PER_S), ("ms", 1e6), ("µs", 1e3)):
        if value_ns >= factor * 0.9995:
            return f"{digits3(value_ns / factor)}\u00a0{unit}"
    return f"{value_ns:.0f}\u00a0ns"


def plotted(value: float) -> float:
    """Round a value for a chart's data to seven significant digits, as good for 3e-5 as for 3e5."""
    return float(f"{value:.7g}")


def digits3(value: float) -> str:
    """Three significant digits, never an exponent: ``1,240``, ``85.1``, ``0.412``."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:,.0f}"
    if magnitude >= 9.995:
        return f"{value:.1f}"
    if magnitude >= 0.9995:
        return f"{value:.2f}"
    decimals = 2 - math.floor(math.log10(magnitude * 1.0005))
    return f"{value:.{decimals}f}"


def interval_text(interval: Interval | None, show: Any = digits3) -> str:
    """``1,240 [1,200, 1,280]``; without bounds the estimate alone."""
    if interval is None:
        return MISSING
    if interval.low is None or interval.high is None:
        return f"{show(interval.estimate)} (one run)"
    return f"{show(interval.estimate)} [{show(interval.low)}, {show(interval.high)}]"


def ratio_text(ratio: Interval) -> str:
    """The same of a ratio; ``at most 0.11\u00d7`` where it is decided and known no better."""
    plain = interval_text(ratio, ratio_digits)
    if not digits.is_loose(ratio):
        return plain
    return f"{digits.times(ratio)} {plain[plain.index('[') :]}"


def times_text(ratio: float) -> str:
    """``0.42\u00d7``: two decimals between 0.095 and 10, two digits below."""
    return f"{ratio_digits(ratio)}\u00d7"


def ratio_digits(ratio: float) -> str:
    """A ratio without the sign."""
    if 0 < ratio < 0.095:
        return significant(ratio, 2)
    return f"{ratio:.2f}" if 0.095 <= ratio < 9.995 else digits3(ratio)
