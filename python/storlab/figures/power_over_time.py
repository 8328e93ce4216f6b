"""Figure of throughput and power over time, one line per run, with idle time before and after."""

from __future__ import annotations

import statistics
from typing import Any

import altair as alt

from storlab.analysis.dataset import RunData
from storlab.analysis.efficiency import Account
from storlab.analysis.power_trace import power_trace
from storlab.base.units import NS_PER_S, format_number
from storlab.figures.common import plotted, window_words
from storlab.figures.figure import Figure, Place
from storlab.figures.theme import WIDTH, colour, configured, dash_of, role
from storlab.figures.time_series import thinned
from storlab.words.text import MISSING, interval_text, named

PANEL_HEIGHT = 104
TIME = "time from the {words}’s start (s)"
MOST_MARGIN = 0.6  # longest time drawn before and after the window, as a fraction of the window


def draw(far: Place) -> Figure | None:
    """Draw the power of all targets at one point over time; None without power readings."""
    cells = far.cells
    pairs = [(run, cell.power) for cell in cells.values() for run in cell.runs if cell.power]
    power = [datum for run, account in pairs for datum in _power(run, account)]
    if not power:
        return None
    # Include targets without power readings: the upper panel shows their throughput.
    runs = [run for cell in cells.values() for run in cell.runs]
    rates = [datum for run in runs for datum in thinned(run)]
    window = max(_window_s(run) for run in runs)
    words = window_words(far.section)
    colours = colour(far.comparison.targets, far.targets)
    data = {"power": power, "rates": rates, "window": [{"start": 0.0, "end": round(window, 3)}]}
    return far.figure(
        kind="power_over_time",
        name="power",
        text=_title(far),
        shows=f"Two line charts on one time axis: throughput in MB/s over the {words}, and power "
        "in watts before, in and after it, one line per run",
        spec=configured(_charts(power, rates, window, colours, words), data),
        columns=["target", "mean (W)", "p95 (W)", "idle (W)", "boundary", "provenance"],
        rows=[_row(target, cells[target].power, cells[target].values) for target in cells],
    )


def _window_s(run: RunData) -> float:
    return (run.record.window_end_ns - run.record.window_start_ns) / NS_PER_S


def _power(run: RunData, account: Account) -> list[dict[str, Any]]:
    window = _window_s(run)
    margin = MOST_MARGIN * window
    return [
        {
            "target": run.target,
            "run": run.record.run_id,
            "repeat": run.record.repeat,
            "time": round(moment.time_s, 3),
            "power": plotted(moment.power_w),
            "dash": dash_of(account.provenance),
            "where": "measured" if 0 <= moment.time_s <= window else "outside it",
        }
        for moment in power_trace(run, account.boundary)
        if -margin <= moment.time_s <= window + margin
    ]


def _charts(
    power: list[dict[str, Any]],
    rates: list[dict[str, Any]],
    window: float,
    colours: alt.Color,
    words: str,
) -> alt.VConcatChart:
    time = TIME.format(words=words)
    first = min(0.0, *(d["time"] for d in power))
    last = max(window, *(d["time"] for d in power))
    x = alt.Scale(domain=[first, last], nice=False)
    quiet = alt.Axis(labels=False, tickCount=6)
    plain = alt.Axis(tickCount=6)
    tooltip = [alt.Tooltip("target:N"), alt.Tooltip("repeat:N"), alt.Tooltip("time:Q")]
    above = (
        alt.Chart(alt.NamedData("rates"))
        .mark_line(strokeWidth=1.4, opacity=0.85)
        .encode(
            x=alt.X("time:Q", title=None, scale=x, axis=quiet),
            y=_y("throughput", "MB/s", [d["throughput"] for d in rates], 1.25),
            color=colours,
            detail="run:N",
            tooltip=[*tooltip, alt.Tooltip("throughput:Q", title="MB/s")],
        )
    )
    below = (
        alt.Chart(alt.NamedData("power"))
        .mark_line(strokeWidth=1.4, opacity=0.85)
        .encode(
            x=alt.X("time:Q", title=time, scale=x, axis=plain),
            y=_y("power", "W", [d["power"] for d in power], 1.08),
            color=colours,
            detail="run:N",
            strokeDash=alt.StrokeDash("dash:N", scale=None, legend=None),
            tooltip=[*tooltip, alt.Tooltip("power:Q", title="W"), alt.Tooltip("where:N")],
        )
    )
    size = {"width": WIDTH, "height": PANEL_HEIGHT}
    panels = [
        alt.layer(
            _frame(x, quiet, None), *_words(f"the {words}" if words == "run" else words, x), above
        ),
        alt.layer(_frame(x, plain, time), below),
    ]
    return alt.vconcat(*(panel.properties(**size) for panel in panels), spacing=10)


def _y(name: str, title: str, values: list[float], room: float) -> alt.Y:
    return alt.Y(
        f"{name}:Q",
        title=title,
        scale=alt.Scale(domain=[0, max(values, default=1.0) * room], nice=True),
        axis=alt.Axis(format=",~r", tickCount=4),
    )


def _frame(scale: alt.Scale, axis: alt.Axis, title: str | None) -> alt.Chart:
    area = alt.Chart(alt.NamedData("window")).mark_rect(fillOpacity=0, stroke=role("fig-rule"))
    x = alt.X("start:Q", scale=scale, axis=axis, title=title)
    frame: alt.Chart = area.encode(x=x, x2="end:Q")
    return frame


def _words(label: str, scale: alt.Scale) -> list[alt.Chart]:
    if not label:
        return []
    text = alt.Chart(alt.NamedData("window")).mark_text(
        align="left", baseline="top", dx=4, color=role("fig-muted"), y=3, text=label
    )
    return [text.encode(x=alt.X("start:Q", scale=scale))]


def _title(far: Place) -> str:
    parts = []
    for target, cell in far.cells.items():
        value = cell.values.get("power_w.all")
        if value is None or cell.power is None:
            parts.append(f"power of {named(target)} {MISSING}")
            continue
        idle = cell.values.get("idle_power_w.all")
        rest = "" if idle is None else f", {format_number(idle.estimate)} W when idle"
        word = "draws" if cell.power.provenance == "measured" else f"is {cell.power.provenance} at"
        parts.append(
            f"{target} {word} {format_number(value.estimate)} W at the {cell.power.label}{rest}"
        )
    return "; ".join(parts)


def _row(target: str, account: Account | None, values: dict[str, Any]) -> list[str]:
    keys = ("power_w.all", "power_p95_w.all", "idle_power_w.all")
    texts = [interval_text(values.get(key)) for key in keys]
    if account is None:
        return [target, *texts, "–", "–"]
    repeats = account.repeats("power_w")
    texts[0] = texts[0] if len(repeats) > 1 else format_number(statistics.fmean(repeats))
    return [target, *texts, account.label, account.provenance]
