"""Figure of throughput against the number of accelerators, with the throughput they demand."""

from __future__ import annotations

from typing import Any

import altair as alt

from storlab.analysis.points import Section
from storlab.base.errors import StudyError
from storlab.figures.common import x_text
from storlab.figures.figure import Figure, Place
from storlab.figures.over_sweep import Lines, Look, sweep_title
from storlab.figures.theme import role
from storlab.words.figures import MOVES
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.rules import profile_of

MOVED = "throughput_mb_s.all"


def draw(far: Place) -> Figure | None:
    """Draw throughput against the number of accelerators; None if it was not measured."""
    comparison, section, facet = far.comparison, far.section, far.facet
    column = comparison.column(MOVED)
    if column is None:
        return None
    lines = Lines.of(comparison, section, facet, column)
    if not lines.means:
        return None
    wanted = _wanted(section, facet)
    high = max(lines.values)
    # The axis may end below the line of the demand, if that is far above the throughput.
    top = min(max([high, *(w["mean"] for w in wanted)]), 1.6 * high) * 1.1
    inside = [w for w in wanted if w["mean"] <= top]
    look = Look(
        kind="training_throughput",
        name="training-by-accelerators",
        words="throughput (MB/s)",
        y_title="throughput (MB/s)",
        unit="MB/s",
        bounds=(0, top),
        below=_demand(lines.place.order, inside[-1]["x"]) if inside else [],
        data={"wanted": inside},
    )
    return lines.figure(look, sweep_title(lines.place, column, "throughput", MOVES))


def _wanted(section: Section, facet: Any) -> list[dict[str, Any]]:
    """Return for each number of accelerators the MB/s that keep them busy; empty if unknown."""
    records = []
    for point in section.of_facet(facet):
        params = TrainingParams.of(point.params)
        try:
            profile = profile_of(params)
        except StudyError:  # the profile's file may have been deleted since the runs
            return []
        demand = profile.demand_bytes_s
        if demand is None or params.computation_time is not None or params.batch_size is not None:
            return []
        wanted = round(params.accelerators * demand / 1e6, 1)
        records.append({"x": x_text(section, point), "mean": wanted})
    return records


def _demand(order: list[str], end: str) -> list[alt.Chart]:
    base = alt.Chart(alt.NamedData("wanted")).encode(
        x=alt.X("x:O", sort=order), y=alt.Y("mean:Q"), color=alt.ColorValue(role("fig-muted"))
    )
    last = alt.Chart(alt.NamedData("wanted")).transform_filter(f"datum.x === '{end}'")
    words = last.mark_text(align="right", baseline="bottom", dx=-6, dy=-4)
    return [
        base.mark_line(strokeWidth=1.5, strokeDash=[2, 3]),
        words.encode(
            x=alt.X("x:O", sort=order),
            y=alt.Y("mean:Q"),
            text=alt.TextValue("wanted"),
            color=alt.ColorValue(role("fig-muted")),
        ),
    ]
