"""Definitions that workload families add to the section on method."""

from __future__ import annotations

from storlab.analysis.compare import Comparison
from storlab.analysis.points import page_of
from storlab.contracts.registry import FAMILIES

_ENERGY = (
    (
        "Energy of a piece",
        "Power integrated over one epoch, checkpoint, restore or stage; mean of a run’s pieces. "
        "None where a piece is too short for the meter’s readings.",
    ),
)


def fixed_method(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the definitions of the workload families in the comparison."""
    own = (page_of(kind).text.definitions for kind in comparison.kinds)
    terms = [
        (definition.term, definition.text) for definitions in own for definition in definitions
    ]
    metered = any(c.name.startswith("span_energy") for c in comparison.columns)
    return [*terms, *(_ENERGY if metered else ())]


def has_window(comparison: Comparison) -> bool:
    """Return whether any workload runs for a fixed time instead of a fixed amount of work."""
    kinds = comparison.kinds
    return not kinds or any(not FAMILIES[kind].fixed_work for kind in kinds)
