"""Throughput while checkpoints are written and restored."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures import Figure
from storlab.figures.bars import Wanted, bar_figure, far_places
from storlab.figures.common import is_swept
from storlab.figures.swept import Swept, swept_figure

DURABLE, WRITTEN = "durable_mb_s.all", "write_mb_s.all"
BARS = Wanted(
    kind="checkpoint_throughput",
    name="checkpoint-throughput",
    what="throughput",
    unit="MB/s",
    keys={"to written": WRITTEN, "to durable": DURABLE, "of a restore": "restore_mb_s.all"},
    axis="throughput (MB/s)",
    ratio=DURABLE,
)
AXIS = Swept(
    kind="checkpoint_throughput",
    name="checkpoint-throughput-by-axis",
    keys=(DURABLE, WRITTEN),
    words="throughput of a checkpoint",
    unit="MB/s",
)


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Bars at the far point, and a figure against a swept axis."""
    found: list[Figure | None] = []
    for section, facet, point in far_places(comparison, sections):
        found.append(bar_figure(comparison, section, facet, point, BARS))
        if is_swept(section):
            found.append(swept_figure(comparison, section, facet, AXIS))
    return [figure for figure in found if figure is not None]
