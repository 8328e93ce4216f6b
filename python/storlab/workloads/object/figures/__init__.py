"""List of the figures of object workloads; modules in this folder draw some of them."""

from __future__ import annotations

from storlab.contracts.figure import FigureKind
from storlab.workloads.common.figure_kinds import (
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    ERRORS,
    LATENCY_CDF,
    LATENCY_UNDER_LOAD,
    LATENCY_VS_AXIS,
    POWER_OVER_TIME,
    RATIOS,
    RATIOS_FURTHER,
    THROUGHPUT_VS_AXIS,
    TIME_SERIES,
)

_HERE = "storlab.workloads.object.figures"

THROUGHPUT = FigureKind(
    "object_throughput",
    "family",
    "Throughput by mix",
    "{mean}; each dot is a run.",
    place=f"{_HERE}.throughput:draw",
)
PARTS = FigureKind(
    "object_parts",
    "family",
    "GET and PUT throughput",
    "{mean}; each dot is a run.",
    place=f"{_HERE}.throughput:draw_parts",
)
PERCENTILES = FigureKind(
    "object_percentiles",
    "family",
    "Latency percentiles",
    "Whole requests, all repeats together.",
    place=f"{_HERE}.percentiles:draw",
)
FIRST_BYTE = FigureKind(
    "first_byte_percentiles",
    "family",
    "Time to first byte",
    "All repeats together.",
    place=f"{_HERE}.percentiles:draw_first_byte",
)
STACKED = FigureKind(
    "object_stacked",
    "family",
    "What each target moved",
    "Throughput of all requests as the sum of its parts. {mean}; each dot is a run.",
    place=f"{_HERE}.stacked:draw",
    main=False,
)
LATENCY = FigureKind(
    "object_latency",
    "family",
    "Mean latency",
    "{mean}; ticks: percentiles.",
    place=f"{_HERE}.latency:draw",
)
TTFB_BARS = FigureKind(
    "ttfb_bars",
    "family",
    "Time to first byte, beside whole requests",
    "{mean}; ticks: percentiles; cross: the mean of whole requests.",
    place=f"{_HERE}.first_byte:draw",
    main=False,
)
OBJECT_FIGURES = (
    LATENCY_UNDER_LOAD,
    THROUGHPUT,
    PARTS,
    LATENCY,
    PERCENTILES,
    FIRST_BYTE,
    ERRORS,
    STACKED,
    TTFB_BARS,
    LATENCY_CDF,
    THROUGHPUT_VS_AXIS,
    LATENCY_VS_AXIS,
    TIME_SERIES,
    POWER_OVER_TIME,
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    RATIOS,
    RATIOS_FURTHER,
)
"""Kinds of figures in the order of the brief."""
