"""Numbers of workers at which devices saturate, to mark them in charts over workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, format_value
from storlab.workloads.preprocess.saturation import saturations, verdict_words


def verdicts(comparison: Comparison, section: Section, facet: Any) -> str:
    """Say for each target at how many workers it saturates; empty if workers are not swept."""
    return verdict_words(saturations(comparison, section, facet))


def places(comparison: Comparison, section: Section, facet: Any) -> Mapping[str, str]:
    """Return for each target the number of workers, as text, at which its device saturates."""
    return {
        saturation.target: format_value(section.page, section.axes.x, saturation.workers)
        for saturation in saturations(comparison, section, facet)
        if saturation.verdict == "device"
    }
