"""Energy of training: of an epoch, and accelerators that a watt feeds."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures import Figure
from storlab.figures.bars import Wanted, bar_figure, far_places
from storlab.figures.common import is_swept
from storlab.figures.swept import Swept, swept_figure

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
FED_BY_NUMBER = Swept(
    kind="epoch_energy",
    name="accelerators-per-watt",
    keys=("accelerators_per_watt.all",),
    words="accelerators fed per watt, none where they are not kept busy",
    unit="1/W",
)


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Two figures at the far end of the axis; none without power."""
    found: list[Figure | None] = []
    for section, facet, point in far_places(comparison, sections):
        found.append(bar_figure(comparison, section, facet, point, EPOCH))
        if is_swept(section):  # none are fed where storage does not keep them busy
            found.append(swept_figure(comparison, section, facet, FED_BY_NUMBER))
        else:
            found.append(bar_figure(comparison, section, facet, point, FED))
    return [figure for figure in found if figure is not None]
