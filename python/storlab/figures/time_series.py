"""Figure of throughput and p99 latency over time, one line per run.

The p99 latency of flushes has a chart of its own.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from storlab.analysis.dataset import RunData
from storlab.base.units import NS_PER_S, format_number
from storlab.figures.common import plotted, plural_of, window_words
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import logarithmic
from storlab.figures.theme import WIDTH, colour, configured, log_bounds
from storlab.words.text import latency_text, named

PANEL_HEIGHT = 104
MOST_POINTS = 300  # per line; if a run has more intervals, they are grouped


def draw(far: Place) -> Figure | None:
    """Draw the runs of all targets at one point over time; None if no run has intervals."""
    section = far.section
    runs = [run for cell in far.comparison.row(far.points[0]).cells.values() for run in cell.runs]
    data = [datum for run in runs for datum in thinned(run)]
    if not data:
        return None
    colours = colour(far.comparison.targets, far.targets)
    window = window_words(section)
    flushes = " and ".join(
        plural_of(section, operation) for operation in section.page.operations.auxiliary
    )
    flushes = flushes if any(datum.get("flush") for datum in data) else ""
    charts = _charts(data, colours, f"time in the {window} (s)", flushes)
    return far.figure(
        kind="time_series",
        name="time",
        text=_title(runs) if window != "run" else _whole(runs),
        shows=f"Line charts over the {window}: throughput in MB/s, 99th percentile latency"
        f"{f' and that of {flushes}' if flushes else ''}, one line per run",
        spec=configured(charts, {"intervals": data}),
        columns=[
            "target",
            "repeat",
            "intervals",
            "throughput lowest to highest (MB/s)",
            "p99 lowest to highest",
            *([f"p99 of {flushes} lowest to highest"] if flushes else []),
        ],
        rows=[_row(run, with_flushes=bool(flushes)) for run in runs],
        latencies=True,
    )


def thinned(run: RunData) -> list[dict[str, Any]]:
    """Return a run's intervals as chart data, reduced to at most ``MOST_POINTS`` groups.

    A group has the mean throughput and the highest p99 latency of its intervals.
    """
    size = -(-len(run.series) // MOST_POINTS)
    groups = [run.series[i : i + size] for i in range(0, len(run.series), max(size, 1))]
    data = []
    for group in groups:
        tails = [i.latency_p99_ns for i in group if i.latency_p99_ns is not None]
        flushes = [i.flush_p99_ns for i in group if i.flush_p99_ns is not None]
        data.append(
            {
                "target": run.target,
                "run": run.record.run_id,
                "repeat": run.record.repeat,
                "time": round(group[-1].time_s, 3),
                "throughput": plotted(sum(i.throughput_mb_s for i in group) / len(group)),
                "p99": max(tails) if tails else None,
                **({"flush": max(flushes)} if flushes else {}),
            }
        )
    return data


def _charts(
    data: list[dict[str, Any]], colours: alt.Color, words: str, flushes: str
) -> alt.VConcatChart:
    last = max(d["time"] for d in data)
    base = (
        alt.Chart(alt.NamedData("intervals"))
        .mark_line(strokeWidth=1.4, opacity=0.85)
        .encode(color=colours, detail="run:N")
    )
    scale = alt.Scale(domain=[0, last], nice=False)
    top = max(d["throughput"] for d in data) * 1.05
    tooltip = [alt.Tooltip("target:N"), alt.Tooltip("repeat:N"), alt.Tooltip("time:Q")]
    throughput = base.encode(
        x=alt.X("time:Q", title=None, scale=scale, axis=alt.Axis(labels=False, tickCount=6)),
        y=alt.Y(
            "throughput:Q",
            title="MB/s",
            scale=alt.Scale(domain=[0, top], nice=True),
            axis=alt.Axis(format=",d", tickCount=4),
        ),
        tooltip=[*tooltip, alt.Tooltip("throughput:Q", title="MB/s")],
    )
    fields = {"p99": "p99", **({"flush": f"p99 of {flushes}"} if flushes else {})}
    tails = []
    for field, name in fields.items():
        bounds = log_bounds([d[field] for d in data if d.get(field)])
        is_last = field == list(fields)[-1]
        tail = base.encode(
            x=alt.X(
                "time:Q",
                title=words if is_last else None,
                scale=scale,
                axis=alt.Axis(labels=is_last, tickCount=6),
            ),
            y=logarithmic(field, f"{name} (log)", bounds, room=1.0, most=5),
            tooltip=[*tooltip, alt.Tooltip(f"{field}:Q", title=f"{name} (ns)", format=",d")],
        )
        tails.append(tail if field == "p99" else tail.transform_filter(f"isValid(datum.{field})"))
    size = {"width": WIDTH, "height": PANEL_HEIGHT}
    return alt.vconcat(*(chart.properties(**size) for chart in (throughput, *tails)), spacing=10)


def _row(run: RunData, *, with_flushes: bool) -> list[str]:
    rates = [i.throughput_mb_s for i in run.series]
    tails = [i.latency_p99_ns for i in run.series if i.latency_p99_ns is not None]
    flushes = [i.flush_p99_ns for i in run.series if i.flush_p99_ns is not None]
    return [
        run.target,
        str(run.record.repeat),
        str(len(rates)),
        f"{format_number(min(rates))} to {format_number(max(rates))}" if rates else "none",
        _range(tails),
        *([_range(flushes)] if with_flushes else []),
    ]


def _range(latencies: list[float]) -> str:
    if not latencies:
        return "none"
    return f"{latency_text(min(latencies))} to {latency_text(max(latencies))}"


def _whole(runs: list[RunData]) -> str:
    """Return a clause with each target's mean duration of a run of fixed work."""
    parts = []
    for target in dict.fromkeys(run.target for run in runs):
        records = [run.record for run in runs if run.target == target]
        took = [(r.window_end_ns - r.window_start_ns) / NS_PER_S for r in records]
        parts.append(f"{format_number(sum(took) / len(took))}\u00a0s on {named(target)}")
    return f"the whole run took {', '.join(parts)}"


def _title(runs: list[RunData]) -> str:
    """Return a clause with each target's spread of throughput: (highest - lowest) / mean."""
    parts = []
    for target in dict.fromkeys(run.target for run in runs):
        rates = [i.throughput_mb_s for run in runs if run.target == target for i in run.series]
        mean = sum(rates) / len(rates) if rates else 0.0
        if mean > 0:
            parts.append(
                f"{100 * (max(rates) - min(rates)) / mean:.0f} % of its mean on {named(target)}"
            )
    return f"range of the throughput of single intervals: {', '.join(parts)}"
