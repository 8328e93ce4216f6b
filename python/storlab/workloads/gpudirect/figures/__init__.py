"""List of the figures of GPUDirect workloads; the modules in this folder draw them."""

from __future__ import annotations

from dataclasses import replace

from storlab.contracts.figure import FigureKind
from storlab.workloads.common.figure_kinds import (
    EFFICIENCY_BARS,
    LATENCY_CDF,
    POWER_OVER_TIME,
    RATIOS_OF_FIXED_WORK,
    TIME_SERIES,
)

_HERE = "storlab.workloads.gpudirect.figures.against_workers"
_MEAN = "{mean}; each dot is a run"
_LATENCY = "Until the data is where the path ends."

THROUGHPUT = FigureKind(
    "gpudirect_throughput",
    "section",
    "Throughput",
    "{mean}; ring: the most of each target.",
    place=f"{_HERE}:draw_throughput",
)
EFFICIENCY = FigureKind(
    "gpudirect_efficiency",
    "section",
    "Efficiency: throughput per watt",
    "Ring: the most of each target. Dashed: declared.",
    place=f"{_HERE}:draw_efficiency",
)
LATENCY = FigureKind(
    "gpudirect_latency",
    "section",
    "Latency, 99th percentile",
    _LATENCY,
    place=f"{_HERE}:draw_tail",
)
MEDIAN = FigureKind(
    "gpudirect_median",
    "section",
    "Latency, median",
    _LATENCY,
    place=f"{_HERE}:draw_median",
    main=False,
)
CPU = FigureKind(
    "gpudirect_cpu",
    "section",
    "Client CPU per GB",
    f"CPU time of the load generator. {_MEAN}.",
    place=f"{_HERE}:draw_cpu",
    main=False,
)
PATHS = FigureKind(
    "gpudirect_paths",
    "own",
    "All paths of the same work",
    f"A line is a path. {_MEAN}.",
    place="storlab.workloads.gpudirect.figures.by_path:draw",
)
PATHS_FURTHER = FigureKind(
    "gpudirect_paths_further",
    "own",
    "Latency, CPU and energy of all paths",
    f"A line is a path. {_MEAN}. Logarithmic scale.",
    place="storlab.workloads.gpudirect.figures.by_path:draw_further",
    main=False,
)
GPUDIRECT_FIGURES = (
    THROUGHPUT,
    EFFICIENCY,
    LATENCY,
    MEDIAN,
    CPU,
    PATHS,
    PATHS_FURTHER,
    LATENCY_CDF,
    TIME_SERIES,
    POWER_OVER_TIME,
    # In the appendix: its values are those of the efficiency figure at the sweep's last point.
    replace(EFFICIENCY_BARS, name="gpudirect_efficiency_bars", main=False),
    RATIOS_OF_FIXED_WORK,
)
"""Kinds of figures in the order of the brief."""
