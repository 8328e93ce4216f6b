"""Energy of a checkpoint and of a restore."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures import Figure
from storlab.figures.bars import Wanted, bar_figure, far_places

WRITE = "span_energy_wh.write"
BARS = Wanted(
    kind="checkpoint_energy",
    name="checkpoint-energy",
    what="energy",
    unit="Wh",
    keys={"of a checkpoint": WRITE, "of a restore": "span_energy_wh.restore"},
    axis="energy (Wh)",
    ratio=WRITE,
)


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """One figure at the far end of the axis; none without power."""
    found = (
        bar_figure(comparison, section, facet, point, BARS)
        for section, facet, point in far_places(comparison, sections)
    )
    return [figure for figure in found if figure is not None]
