"""Figure of latency percentiles, and of the achieved rate, against offered load in open loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from storlab.analysis.columns import STATISTICS
from storlab.analysis.compare import FEW_BEYOND, Comparison
from storlab.analysis.load_curve import Knee, LoadPoint, is_load_curve, knee_of, measured_curve
from storlab.analysis.points import Section
from storlab.figures.axis_extent import edge_words, ends_within, log_reach
from storlab.figures.common import operations_of, plotted
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import INK, linear, logarithmic, tooltip
from storlab.figures.theme import WIDTH, colour, configured, log_bounds, role, shape
from storlab.model.decision import Interval
from storlab.words.figures import OVERLOAD, knee_title, offered_text
from storlab.words.text import interval_text, latency_text

PERCENTILES = ("p50", "p99", "p999")
PANEL_HEIGHT = 80
GAP = 25  # px between panels, with room for their names
APART = 4.0  # ratio of the targets' highest loads from which the horizontal axis is logarithmic


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the curves of each operation, mix and block size of sections that vary the load."""
    return [
        figure
        for section in sections
        if is_load_curve(section)
        for facet in section.facets()
        for operation, name in operations_of(section)
        if (figure := _figure(Place.along(comparison, section, facet), operation, name)) is not None
    ]


def _figure(place: Place, operation: str, name: str) -> Figure | None:
    spot = (place.comparison, place.section, place.facet)
    curves = {
        target: curve
        for target in place.targets
        if len(curve := measured_curve(*spot, target, operation)) > 1
    }
    if not curves:
        return None
    knees = {t: knee for t, curve in curves.items() if (knee := knee_of(curve, operation))}
    known = [
        value
        for curve in curves.values()
        for load in curve
        for statistic in PERCENTILES
        if (value := _shown(load, statistic, operation)) is not None
    ]
    bounds = log_reach([value.estimate for value in known], known)
    data = {
        **{s: _records(curves, s, operation, bounds) for s in PERCENTILES},
        "rates": _rates(curves),
        "knees": _knees(knees),
    }
    unit = place.section.page.operations.rate_short
    rows = [_row(load, operation) for curve in curves.values() for load in curve]
    return place.figure(
        kind="latency_under_load",
        name=f"latency-under-load-{operation}",
        text=knee_title(knees, name),
        shows=f"Line charts of p50, p99 and p99.9 {name} latency from the intended start, on a "
        "logarithmic scale, and of the achieved rate, against the offered rate",
        spec=configured(_charts(place, data, bounds, unit), data),
        columns=["target", "load", f"offered ({unit})", f"achieved ({unit})",
                 *(STATISTICS[s] for s in PERCENTILES), "overloaded"],
        rows=rows,
        remark=". ".join(filter(None, (OVERLOAD if any(row[-1] for row in rows) else "",
                                       edge_words(known, bounds)))),
        latencies=True,
    )  # fmt: skip


def _records(
    curves: Mapping[str, Sequence[LoadPoint]],
    statistic: str,
    operation: str,
    bounds: tuple[float, float],
) -> list[dict[str, Any]]:
    return [
        {
            **_shared(target, load),
            "value": round(value.estimate),
            **ends_within(value, bounds),
            "text": interval_text(value, latency_text),
        }
        for target, load in _loads(curves)
        if (value := _shown(load, statistic, operation)) is not None
    ]


def _rates(curves: Mapping[str, Sequence[LoadPoint]]) -> list[dict[str, Any]]:
    return [
        {**_shared(target, load), "value": plotted(value.estimate), "text": interval_text(value)}
        for target, load in _loads(curves)
        if (value := load.achieved) is not None
    ]


def _shown(load: LoadPoint, statistic: str, operation: str) -> Interval | None:
    """Return a percentile to draw; None for p99.9 with fewer than ten operations beyond it."""
    return load.latency(statistic, operation, fewest=FEW_BEYOND if statistic == "p999" else 0)


def _loads(curves: Mapping[str, Sequence[LoadPoint]]) -> Iterator[tuple[str, LoadPoint]]:
    for target, curve in curves.items():
        yield from ((target, load) for load in curve)


def _shared(target: str, load: LoadPoint) -> dict[str, Any]:
    return {
        "target": target,
        "rate": plotted(load.rate_s),
        "load": offered_text(load),
        "over": load.overloaded,
        "runs": ", ".join(load.cell.run_ids),
    }


def _knees(knees: Mapping[str, Knee]) -> list[dict[str, Any]]:
    return [
        {"target": target, "rate": plotted(knee.last.rate_s)}
        for target, knee in knees.items()
        if knee.last is not None and knee.beyond is not None
    ]


def _charts(
    place: Place,
    data: Mapping[str, Sequence[Mapping[str, Any]]],
    bounds: tuple[float, float],
    unit: str,
) -> alt.VConcatChart:
    highest = {record["target"]: record["rate"] for record in data["rates"]}
    rates = [record["rate"] for record in data["rates"]]
    shown = [*rates, *(record["value"] for record in data["rates"])]
    is_log = max(highest.values()) > APART * min(highest.values())
    ends = log_bounds(shown) if is_log else (0.0, 1.04 * max(shown))

    def axis(field: str, to: Any, title: str | None, **more: Any) -> Any:
        if is_log:
            return logarithmic(field, title, ends, expr="", to=to, format="~s", **more)
        ticks = 4 if to is alt.Y else 6
        return linear(field, title, ends[1], form="~s", ticks=ticks, to=to, **more)

    x = axis("rate", alt.X, None, labels=False)
    panels = [
        _panel(place, name, x, logarithmic("value", "", bounds, room=1.0, most=5), STATISTICS[name])
        for name in PERCENTILES
    ]
    x, y = axis("rate", alt.X, f"offered ({unit})"), axis("value", alt.Y, "")
    panels.append(_panel(place, "rates", x, y, f"achieved ({unit})", diagonal=True))
    return alt.vconcat(*panels, spacing=GAP)


def _panel(
    place: Place, name: str, x: Any, y: Any, heading: str, *, diagonal: bool = False
) -> alt.LayerChart | alt.FacetChart:
    every, shown = place.comparison.targets, place.targets
    colours = colour(every, shown)
    base = alt.Chart(alt.NamedData(name)).encode(x=x.copy(), color=colours)
    tips = tooltip({"target": "target", "load": "offered", "text": heading, "runs": "runs"})
    dots = base.encode(y=y, shape=shape(every, shown), tooltip=tips)
    knees = alt.Chart(alt.NamedData("knees")).mark_rule(strokeDash=[4, 3], strokeWidth=1.6)
    layers = [
        base.mark_line(strokeWidth=1.8).encode(y=y),
        *([] if diagonal else [base.mark_rule(strokeWidth=1.6).encode(y="low:Q", y2="high:Q")]),
        knees.encode(x=alt.X("rate:Q"), color=colours),
        dots.mark_point(size=46, opacity=1, filled=True).transform_filter("!datum.over"),
        dots.mark_point(size=46, opacity=1, strokeWidth=1.8, fill=role("fig-paper"))
        .transform_filter("datum.over"),
    ]  # fmt: skip
    if diagonal:
        offered = alt.Chart(alt.NamedData(name)).mark_line(strokeWidth=1, strokeDash=[2, 3])
        layers.append(offered.encode(x=alt.X("rate:Q"), y=alt.Y("rate:Q"), color=INK))
    title = alt.Chart(alt.Data(values=[{}])).mark_text(
        align="left", baseline="bottom", fontWeight="bold"
    )
    layers.append(title.encode(x=alt.value(0), y=alt.value(-6), text=alt.value(heading)))
    return alt.layer(*layers).properties(width=WIDTH, height=PANEL_HEIGHT)


def _percentile_text(load: LoadPoint, statistic: str, operation: str) -> str:
    value = _shown(load, statistic, operation)
    return "few operations" if value is None else interval_text(value, latency_text)


def _row(load: LoadPoint, operation: str) -> list[str]:
    return [
        load.cell.target,
        "" if load.level is None else f"{load.level:g} %",
        f"{load.rate_s:,.0f}",
        interval_text(load.achieved),
        *(_percentile_text(load, s, operation) for s in PERCENTILES),
        "yes" if load.overloaded else "",
    ]
