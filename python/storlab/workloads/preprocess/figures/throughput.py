"""Throughput of preprocessing: raw data that went in, and what the device moved."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures import Figure
from storlab.figures.bars import Wanted, bar_figure, far_places
from storlab.figures.common import is_swept
from storlab.figures.swept import Swept, swept_figure
from storlab.workloads.preprocess.figures.time import saturated

INPUT, DEVICE = "input_mb_s.all", "device_mb_s.all"
BARS = Wanted(
    kind="preprocess_throughput",
    name="preprocess-throughput",
    what="throughput",
    unit="MB/s",
    keys={"raw data in": INPUT, "binary data out": "output_mb_s.all", "of the device": DEVICE},
    axis="throughput (MB/s)",
    ratio=INPUT,
)
SWEPT = (
    Swept(
        kind="preprocess_throughput",
        name="raw-data",
        keys=(INPUT,),
        words="raw data",
        unit="MB/s",
        ratio="{target} takes in {times} as much as {baseline}",
    ),
    Swept(
        kind="preprocess_throughput",
        name="device-throughput",
        keys=(DEVICE,),
        words="what the device read and wrote",
        unit="MB/s",
        ratio="{target}’s device moves {times} as much as {baseline}’s",
    ),
)


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Lines against the swept axis, with a ring where the device saturates; else bars."""
    found: list[Figure | None] = []
    for section, facet, point in far_places(comparison, sections):
        if is_swept(section):
            rings = saturated(comparison, section, facet)
            found += [
                swept_figure(comparison, section, facet, each, ringed=rings) for each in SWEPT
            ]
        else:
            found.append(bar_figure(comparison, section, facet, point, BARS))
    return [figure for figure in found if figure is not None]
