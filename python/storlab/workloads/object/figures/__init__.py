"""List of the figures of object workloads; modules in this folder draw some of them."""

from __future__ import annotations

from storlab.contracts.figure import FigureKind
from storlab.workloads.common.figure_kinds import (
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    ERRORS,
    LATENCY_CDF,
    LATENCY_VS_AXIS,
    POWER_OVER_TIME,
    RATIOS,
    THROUGHPUT_VS_AXIS,
    TIME_SERIES,
)

THROUGHPUT = FigureKind(
    "object_throughput",
    "family",
    "Throughput by mix",
    "Mean of the repeats with its 95 % interval; every dot is one run. All three have the "
    "same scale, so that the parts can be seen to make the whole.",
    place="storlab.workloads.object.figures.throughput:draw",
    main=False,
)
STACKED = FigureKind(
    "object_stacked",
    "family",
    "What each target moved",
    "Throughput of all requests as the sum of its parts, with its 95 % interval; every dot is one "
    "run.",
    place="storlab.workloads.object.figures.stacked:draw",
)
LATENCY = FigureKind(
    "object_latency",
    "family",
    "Latency by mix",
    "From the start of a request to the last byte of its answer. Marker: mean, with its "
    "95 % interval. Ticks: percentiles of the repeats’ merged histograms, the wider the further "
    "out. Logarithmic scale.",
    place="storlab.workloads.object.figures.latency:draw",
)
TTFB_BARS = FigureKind(
    "ttfb_bars",
    "family",
    "Time to first byte by mix",
    "From the start of a request to the first byte of the answer’s body, and beside it how "
    "long the whole request takes (cross). Marker: mean, with its 95 % interval. Ticks: "
    "percentiles. Logarithmic scale.",
    place="storlab.workloads.object.figures.first_byte:draw",
)
OBJECT_FIGURES = (
    STACKED,
    THROUGHPUT,
    LATENCY,
    LATENCY_CDF,
    TTFB_BARS,
    ERRORS,
    THROUGHPUT_VS_AXIS,
    LATENCY_VS_AXIS,
    TIME_SERIES,
    POWER_OVER_TIME,
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    RATIOS,
)
"""Kinds of figures in the order of the brief."""
