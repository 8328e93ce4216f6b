"""How long every rank took for its part of a checkpoint and of a restore."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures import Figure
from storlab.figures.bars import far_places
from storlab.figures.workers import Crew, crew_figure

CREWS = (
    Crew(
        kind="rank_times",
        name="rank-times-write",
        pieces="write",
        worker="rank",
        title="time of its part of a checkpoint (s)",
        what="checkpoints, the slowest",
    ),
    Crew(
        kind="rank_times",
        name="rank-times-restore",
        pieces="restore",
        worker="rank",
        title="time of its part of a restore (s)",
        what="restores, the slowest",
    ),
)


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """One figure of writes and one of restores at the far end of the axis."""
    found = (
        crew_figure(comparison, section, facet, point, crew)
        for section, facet, point in far_places(comparison, sections)
        for crew in CREWS
    )
    return [figure for figure in found if figure is not None]
