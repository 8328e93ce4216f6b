"""Figure of the tracked metric by round, with the measurement window, as the SNIA PTS draws it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from storlab.analysis.columns import COLUMNS
from storlab.analysis.compare import PLACES, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.base.steady import WINDOW
from storlab.base.units import format_quantity
from storlab.figures.common import plotted, slug
from storlab.figures.figure import Figure
from storlab.figures.theme import HEIGHT, LATENCY_LABELS, WIDTH, colour, configured, role
from storlab.results.rounds import Rounds
from storlab.words.figures import rounds_title
from storlab.words.text import MISSING


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the rounds of each target that ends when it is steady."""
    return [
        _figure(comparison, section, point, label, comparison.dataset.rounds[label])
        for label, section, point in _tracked(comparison, sections)
        if any(value is not None for value in comparison.dataset.rounds[label].values)
    ]


def _tracked(
    comparison: Comparison, sections: Sequence[Section]
) -> Iterator[tuple[str, Section, WorkloadPoint]]:
    """Yield each target with its tracked point."""
    for column in comparison.dataset.targets:
        rounds = comparison.dataset.rounds.get(column.label)
        tracked = "" if rounds is None else rounds.rule.tracked.get(column.target.name, "")
        for section in sections if tracked else ():
            for point in section.points:
                own = comparison.row(point).cells[column.label].point_id or ""
                if own.partition("-")[0] == tracked:  # a suffix numbers the result directories
                    yield column.label, section, point


def _figure(
    comparison: Comparison, section: Section, point: WorkloadPoint, label: str, rounds: Rounds
) -> Figure:
    metric = COLUMNS[PLACES[rounds.rule.metric]]
    values = [
        {
            "round": number,
            "value": plotted(value),
            "target": label,
            "text": format_quantity(value, metric.unit),
        }
        for number, value in enumerate(rounds.values, 1)
        if value is not None
    ]
    fit, band = _fit(rounds), _band(rounds)
    name = f"{metric.label} at {section.where(point)}"
    return Figure.of(
        comparison,
        [point],
        kind="rounds",
        name=slug("rounds", label),
        title=rounds_title(label, name, rounds),
        shows=f"Line chart of {name} in each round, with the measurement window, its mean and its "
        "best-fit line",
        spec=configured(
            _chart(comparison, label, rounds, metric.unit, f"{metric.label}"),
            {"rounds": values, "fit": fit, "band": band, "window": [_window(rounds)]},
        ),
        columns=["round", metric.label, "in the measurement window"],
        rows=[
            [
                str(number),
                MISSING if value is None else format_quantity(value, metric.unit),
                "yes" if number in rounds else "no",
            ]
            for number, value in enumerate(rounds.values, 1)
        ],
    )


def _window(rounds: Rounds) -> dict[str, float]:
    return {"start": rounds.first - 0.5, "end": min(rounds.last, len(rounds.values)) + 0.5}


def _fit(rounds: Rounds) -> list[dict[str, Any]]:
    """Return the ends of the window's best-fit line; empty if the window has too few values."""
    mean, slope = rounds.verdict.mean, rounds.verdict.slope_percent
    if mean is None or slope is None:
        return []
    change = mean * slope / 100
    return [
        {"round": rounds.first, "fit": plotted(mean - change / 2)},
        {"round": rounds.last, "fit": plotted(mean + change / 2)},
    ]


def _band(rounds: Rounds) -> list[dict[str, Any]]:
    """Return the bounds that the PTS draws: half of the allowed excursion around the mean."""
    mean = rounds.verdict.mean
    if mean is None:
        return []
    half = mean * rounds.rule.excursion_percent / 200
    return [{**_window(rounds), "bound": plotted(mean + sign * half)} for sign in (1, -1)]


def _chart(
    comparison: Comparison, label: str, rounds: Rounds, unit: str, title: str
) -> alt.LayerChart | alt.FacetChart:
    last = max(len(rounds.values), WINDOW)
    known = [value for value in rounds.values if value is not None]
    top = 1.1 * max(*known, *(d["bound"] for d in _band(rounds)), 0.0)
    scale = alt.Scale(domain=[0.5, last + 0.5], nice=False, zero=False)
    axis = alt.Axis(format="d", tickMinStep=1, tickCount=min(last, 13), grid=False)
    x = alt.X("round:Q", title="round", scale=scale, axis=axis)
    labels: dict[str, Any] = {"labelExpr": LATENCY_LABELS} if unit == "ns" else {"format": ",~r"}
    shown = title if unit in ("ns", "1/s") else f"{title} ({unit})"
    y = alt.Y(
        "value:Q",
        title=f"{shown} (1/s)" if unit == "1/s" else shown,
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(tickCount=6, **labels),
    )
    start = alt.X("start:Q", title="round", scale=scale, axis=axis)
    window = (
        alt.Chart(alt.NamedData("window"))
        .mark_rect(fill=role("fig-grid"), opacity=0.6)
        .encode(x=start, x2="end:Q")
    )
    bounds = (
        alt.Chart(alt.NamedData("band"))
        .mark_rule(strokeDash=[5, 4], color=role("fig-ink"))
        .encode(x=start, x2="end:Q", y=alt.Y("bound:Q"))
    )
    fit = (
        alt.Chart(alt.NamedData("fit"))
        .mark_line(strokeWidth=2, color=role("fig-ink"))
        .encode(x=x, y=alt.Y("fit:Q"))
    )
    values = (
        alt.Chart(alt.NamedData("rounds"))
        .mark_line(strokeWidth=1.6, point=alt.OverlayMarkDef(size=46, filled=True))
        .encode(
            x=x,
            y=y,
            color=colour(comparison.targets, [label]),
            tooltip=[
                alt.Tooltip("target:N"),
                alt.Tooltip("round:Q"),
                alt.Tooltip("text:N", title=title),
            ],
        )
    )
    return alt.layer(window, values, bounds, fit).properties(width=WIDTH, height=HEIGHT)
