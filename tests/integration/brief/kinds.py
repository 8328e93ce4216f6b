"""Figure kinds by name, and drawing of one kind."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.contracts.figure import FigureKind
from storlab.contracts.registry import FAMILIES
from storlab.figures import drawing
from storlab.figures.campaign import EVERY
from storlab.figures.figure import Figure

FIGURES: dict[str, FigureKind] = {
    kind.name: kind
    for kinds in (
        *(workload.figures for workload in FAMILIES.values()),
        EVERY,
    )
    for kind in kinds
}


def names_of(kind: str) -> list[str]:
    """Return the names of a family's figures, in the order of the brief."""
    return [figure.name for figure in FAMILIES[kind].figures]


def draw(name: str, comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Return the figures of the named kind."""
    return drawing.draw(FIGURES[name], comparison, sections)
