"""Completion time of preprocessing against workers, and where the device saturates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, format_value
from storlab.analysis.saturation import said, saturations
from storlab.figures import Figure
from storlab.figures.bars import Wanted, bar_figure, far_places
from storlab.figures.common import is_swept
from storlab.figures.swept import Swept, swept_figure
from storlab.workloads.preprocess.job import STAGES

TIME = "completion_time_s.all"
BARS = Wanted(
    kind="preprocess_time",
    name="completion-time",
    what="time",
    unit="s",
    keys={"of all stages": TIME, **{stage: f"completion_time_s.{stage}" for stage in STAGES}},
    axis="time (s)",
    ratio=TIME,
)
AXIS = Swept(
    kind="preprocess_time",
    name="completion-time",
    keys=(TIME,),
    words="completion time",
    unit="s",
    log=True,  # the last workers gain little beside the first
)


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """A line for each target against the swept axis; else bars by stage."""
    found: list[Figure | None] = []
    for section, facet, point in far_places(comparison, sections):
        if not is_swept(section):
            found.append(bar_figure(comparison, section, facet, point, BARS))
            continue
        verdicts = said(saturations(comparison, section, facet))
        ringed = saturated(comparison, section, facet)
        found.append(swept_figure(comparison, section, facet, AXIS, said=verdicts, ringed=ringed))
    return [figure for figure in found if figure is not None]


def saturated(comparison: Comparison, section: Section, facet: Any) -> Mapping[str, str]:
    """By target the place on the axis where its device saturates."""
    return {
        one.target: format_value(section.page, section.axes.x, one.workers)
        for one in saturations(comparison, section, facet)
        if one.verdict == "device"
    }
