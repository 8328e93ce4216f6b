"""Section of a brief on the rounds of targets that end when they are steady."""

from __future__ import annotations

from storlab.analysis.compare import Comparison
from storlab.brief.model import ExtraSection, FigureGroup

LEAD = (
    "All points are run in rounds until the tracked metric is steady over five of them, as in the "
    "SNIA Solid State Storage Performance Test Specification. Results are those of these five "
    "rounds, the measurement window; earlier rounds are kept as raw data."
)


def rounds_section(comparison: Comparison, group: FigureGroup | None) -> ExtraSection | None:
    """Build the section on rounds; None if the study does not ask for steady rounds."""
    rounds = comparison.dataset.rounds
    if not rounds:
        return None
    notes = [f"{label}: {own.text}." for label, own in rounds.items()]
    groups = [] if group is None else [group]
    return ExtraSection("rounds", "Steady state", "Steady state", [LEAD], groups, notes=notes)
