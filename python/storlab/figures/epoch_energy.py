"""Energy of training: of an epoch, and accelerators that a watt feeds."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures import Figure
from storlab.figures.bars import Wanted, bar_figure, far_places

EPOCH = Wanted(
    kind="epoch_energy",
    name="epoch-energy",
    what="energy",
    unit="J",
    keys={"of an epoch": "span_energy_j.epoch"},
    axis="energy of an epoch (J)",
    ratio="span_energy_j.epoch",
)
FED = Wanted(
    kind="epoch_energy",
    name="accelerators-per-watt",
    what="accelerators fed",
    unit="1/W",
    keys={"per watt": "accelerators_per_watt.all"},
    axis="accelerators per watt",
)


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Two figures at the far end of the axis; none without power."""
    found = (
        bar_figure(comparison, section, facet, point, wanted)
        for section, facet, point in far_places(comparison, sections)
        for wanted in (EPOCH, FED)
    )
    return [figure for figure in found if figure is not None]
