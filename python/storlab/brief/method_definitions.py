"""Definitions of terms that workload families add to a brief's section on method."""

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
    """Return the terms that the compared workload families define, with their definitions."""
    own = (page_of(kind).text.definitions for kind in comparison.kinds)
    terms = [
        (definition.term, definition.text) for definitions in own for definition in definitions
    ]
    metered = any(c.name.startswith("span_energy") for c in comparison.columns)
    return [*terms, *(_ENERGY if metered else ())]


def has_window(comparison: Comparison) -> bool:
    """Return whether any workload runs for a fixed time rather than for a fixed amount of work."""
    kinds = comparison.kinds
    return not kinds or any(not FAMILIES[kind].fixed_work for kind in kinds)
