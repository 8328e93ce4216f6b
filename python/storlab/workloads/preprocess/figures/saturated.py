"""Where the device saturates, for the figures against workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, format_value
from storlab.workloads.preprocess.saturation import saturations, verdict_words


def verdicts(comparison: Comparison, section: Section, facet: Any) -> str:
    """In words, of every target; empty where workers are not the axis."""
    return verdict_words(saturations(comparison, section, facet))


def places(comparison: Comparison, section: Section, facet: Any) -> Mapping[str, str]:
    """By target the place on the axis where its device saturates."""
    return {
        saturation.target: format_value(section.page, section.axes.x, saturation.workers)
        for saturation in saturations(comparison, section, facet)
        if saturation.verdict == "device"
    }
