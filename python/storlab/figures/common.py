"""What several kinds of figure share: names, titles and numbers as text."""

from __future__ import annotations

import re
from typing import Any

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint, format_value, title_of
from storlab.analysis.stats import Interval

MISSING = "not measured"
NOT_MEASURED = ("modelled", "emulated", "declared", "published")  # provenance drawn hatched


def slug(*parts: str) -> str:
    """Parts of a name as a file name: ``70/30``, ``256 KiB`` give ``70-30-256-kib``."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def axis_title(section: Section) -> str:
    """The horizontal axis, with what is multiplied by it."""
    x = section.axes.x
    depth = section.points[0].params.get("queue_depth")
    if x == "jobs" and "queue_depth" not in section.axes.section and depth is not None:
        return f"jobs (threads), queue depth {format_value('queue_depth', depth)} each"
    return title_of(x)


def place_of(section: Section, facet: Any) -> str:
    """``70/30 read/write, 256 KiB``."""
    if section.axes.facet is None or facet is None:
        return section.title
    size = format_value(section.axes.facet, facet)
    return size if section.title == section.workload else f"{section.title}, {size}"


def figure_name(kind: str, section: Section, facet: Any) -> str:
    """A file name that no other figure of the brief has."""
    facet_text = "" if facet is None else format_value(section.axes.facet or "", facet)
    engine = section.points[0].engine
    engine_text = "" if engine == "native" else engine
    return slug(kind, section.workload, engine_text, section.title, facet_text)


def x_text(section: Section, point: WorkloadPoint) -> str:
    """A point's place on the horizontal axis."""
    return format_value(section.axes.x, point.params.get(section.axes.x))


def latency_kind(comparison: Comparison, section: Section) -> tuple[str, str]:
    """Prefix of the metrics, and words: from the intended start in open loop."""
    cells = [c for point in section.points for c in comparison.row(point).cells.values()]
    if any(key.startswith("intended_latency") for cell in cells for key in cell.values):
        return "intended_latency", "latency from the intended start"
    return "latency", "latency"


def last_point(comparison: Comparison, section: Section, facet: Any) -> WorkloadPoint | None:
    """The point furthest along the axis at which every target was measured (else any of them)."""
    points = section.of_facet(facet)
    for enough in (all, any):
        for point in reversed(points):
            if enough(cell.measured for cell in comparison.row(point).cells.values()):
                return point
    return None


def point_ids(comparison: Comparison, points: list[WorkloadPoint]) -> list[str]:
    """Of all targets at these points."""
    cells = [cell for point in points for cell in comparison.row(point).cells.values()]
    return [cell.point_id for cell in cells if cell.point_id and cell.measured]


def latency_text(value_ns: float) -> str:
    """``85.1 µs``: three digits, SI."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value_ns >= factor * 0.9995:
            return f"{digits3(value_ns / factor)}\u00a0{unit}"
    return f"{value_ns:.0f}\u00a0ns"


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
    return f"{value:#.3g}" if magnitude >= 1e-3 else f"{value:.6f}"


def interval_text(interval: Interval | None, show: Any = digits3) -> str:
    """``1,240 [1,200, 1,280]``; without bounds the estimate alone."""
    if interval is None:
        return MISSING
    if interval.low is None or interval.high is None:
        return f"{show(interval.estimate)} (one run)"
    return f"{show(interval.estimate)} [{show(interval.low)}, {show(interval.high)}]"


def times_text(ratio: float) -> str:
    """``0.42\u00d7``: two decimals between 0.095 and 10, two digits below."""
    return f"{ratio_digits(ratio)}\u00d7"


def ratio_digits(ratio: float) -> str:
    """A ratio without the sign."""
    if 1e-4 <= ratio < 0.095:
        return f"{ratio:.2g}"
    return f"{ratio:.2f}" if 0.095 <= ratio < 9.995 else digits3(ratio)
