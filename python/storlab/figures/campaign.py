"""Kinds of figures that belong to no family: drawn once for the campaign."""

from __future__ import annotations

from storlab.contracts.figure import FigureKind

COST_STACK = FigureKind(
    "cost_stack",
    "campaign",
    "Cost",
    "Servers, network and storage of each configuration, as the study declares them; hatched, "
    "because nothing of it is measured.",
    place="storlab.figures.cost_stack:draw",
)
PUBLISHED_BARS = FigureKind(
    "published_bars",
    "campaign",
    "Throughput at the published points",
    "Solid: measured here. Hatched: as published, not repeated here.",
    place="storlab.figures.published_bars:draw",
)
PUBLISHED_MIXES = FigureKind(
    "published_mixes",
    "campaign",
    "By mix, as published",
    "Plain: measured here. Hatched: as published, not repeated here. Logarithmic scale.",
    place="storlab.figures.published_mixes:draw",
)
