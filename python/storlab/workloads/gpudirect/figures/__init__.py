"""List of the figures of GPUDirect workloads; the modules in this folder draw them."""

from __future__ import annotations

from dataclasses import replace

from storlab.contracts.figure import Bars, Drawn, FigureKind
from storlab.workloads.common.figure_kinds import (
    EFFICIENCY_BARS,
    LATENCY_CDF,
    POWER_OVER_TIME,
    RATIOS_OF_FIXED_WORK,
    TIME_SERIES,
)

_HERE = "storlab.workloads.gpudirect.figures.against_workers"
_MEAN = "Mean of the repeats with its 95 % interval; every dot is one run."
_LATENCY = (
    "repeats’ merged histograms, until the data is in GPU memory (path host: in host memory). "
    "Logarithmic scale."
)

THROUGHPUT = FigureKind(
    "gpudirect_throughput",
    "section",
    "Throughput",
    f"{_MEAN} Against workers, a ring marks the most of each target.",
    parts=(
        Drawn(f"{_HERE}:draw", "swept", ("throughput",)),
        Bars("throughput", {"moved": "throughput_mb_s.all"}, name="throughput", when="single"),
    ),
)
EFFICIENCY = FigureKind(
    "gpudirect_efficiency",
    "section",
    "Efficiency: throughput per watt",
    "Bytes of all repeats over joules of all repeats, with the 95 % interval of repeats and meter. "
    "Ring: the most of each target, which may be at another number of workers than the most "
    "throughput. Dashed: power is declared, not measured.",
    parts=(Drawn(f"{_HERE}:draw", "swept", ("efficiency",)),),
)
LATENCY = FigureKind(
    "gpudirect_latency",
    "section",
    "Latency, 99th percentile",
    f"Of the {_LATENCY}",
    parts=(
        Drawn(f"{_HERE}:latency", "swept", ("read", "p99")),
        Drawn(f"{_HERE}:latency", "swept", ("write", "p99")),
    ),
)
MEDIAN = FigureKind(
    "gpudirect_median",
    "section",
    "Latency, median",
    f"Of the {_LATENCY}",
    parts=(
        Drawn(f"{_HERE}:latency", "swept", ("read", "p50")),
        Drawn(f"{_HERE}:latency", "swept", ("write", "p50")),
    ),
    main=False,
)
CPU = FigureKind(
    "gpudirect_cpu",
    "section",
    "Client CPU per GB",
    f"CPU time of the load generator over gigabytes moved. {_MEAN} Against workers, the scale is "
    "logarithmic.",
    parts=(
        Drawn(f"{_HERE}:draw", "swept", ("cpu",)),
        Bars("client CPU", {"per GB": "cpu_s_per_gb.all"}, name="cpu", when="single"),
    ),
    main=False,
)
PATHS = FigureKind(
    "gpudirect_paths",
    "own",
    "All paths of the same work",
    f"One drawing for each target and transfer size: a line is a path. {_MEAN} Latency, CPU and "
    "energy are on logarithmic scales; energy per GB is what the target’s meters include.",
    place="storlab.workloads.gpudirect.figures.by_path:draw",
)
GPUDIRECT_FIGURES = (
    THROUGHPUT,
    EFFICIENCY,
    LATENCY,
    MEDIAN,
    CPU,
    PATHS,
    LATENCY_CDF,
    TIME_SERIES,
    POWER_OVER_TIME,
    # In the appendix: its values are those of the efficiency figure at the sweep's last point.
    replace(EFFICIENCY_BARS, name="gpudirect_efficiency_bars", main=False),
    RATIOS_OF_FIXED_WORK,
)
"""Kinds of figures in the order of the brief."""
