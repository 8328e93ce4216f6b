"""Kinds of figures that any workload family may use; ``storlab.figures`` draws them."""

from __future__ import annotations

from storlab.contracts.figure import Drawn, FigureKind, OverSweep

THROUGHPUT_VS_JOBS = FigureKind(
    "throughput_vs_jobs",
    "section",
    "Throughput",
    "Mean of the repeats with its 95 % interval; every dot is one run.",
    place="storlab.figures.throughput_vs_jobs:draw",
)
THROUGHPUT_VS_AXIS = FigureKind(
    "throughput_vs_axis",
    "section",
    "Throughput",
    "Mean of the repeats with its 95 % interval; every dot is one run.",
    place="storlab.figures.throughput_vs_jobs:draw_swept",
)
RATES_VS_JOBS = FigureKind(
    "rates_vs_jobs",
    "section",
    "Operations per second",
    "Mean of the repeats with its 95 % interval; every dot is one run.",
    place="storlab.figures.throughput_vs_jobs:draw_rates",
    main=False,
)
LATENCY_POINTS = FigureKind(
    "latency_points",
    "section",
    "Latency",
    "Marker: mean, with its 95 % interval. Tick: 99th percentile. Logarithmic scale.",
    place="storlab.figures.latency_points:draw",
)
LATENCY_VS_AXIS = FigureKind(
    "latency_vs_axis",
    "section",
    "Latency",
    "Marker: mean, with its 95 % interval. Tick: 99th percentile. Logarithmic scale.",
    place="storlab.figures.latency_points:draw_swept",
)
LATENCY_CDF = FigureKind(
    "latency_cdf",
    "section",
    "Latency distribution",
    "Histograms merged over the repeats. The vertical axis counts nines.",
    parts=(Drawn("storlab.figures.latency_cdf:draw"),),
    main=False,
)
ERRORS = FigureKind(
    "errors",
    "family",
    "Failed requests",
    "By kind; they are part of no rate, no byte count and no latency, but for time-outs of an open "
    "loop, which count in the latency from the intended start.",
    place="storlab.figures.errors:draw",
)
TIME_SERIES = FigureKind(
    "time_series",
    "section",
    "Over time",
    "One line per repeat: throughput, and the 99th percentile of each interval.",
    parts=(Drawn("storlab.figures.time_series:draw"),),
    main=False,
)
POWER_OVER_TIME = FigureKind(
    "power_over_time",
    "section",
    "Power over time",
    "Throughput and power on one clock, one line per repeat. Framed: what was measured, over "
    "which energy is integrated. Dashed: declared, not measured.",
    parts=(Drawn("storlab.figures.power_over_time:draw"),),
    main=False,
)
EFFICIENCY_BARS = FigureKind(
    "efficiency_bars",
    "power",
    "Data per joule",
    "Bytes of all repeats over joules of all repeats, with the 95 % interval of repeats and "
    "meter. Both axes measure the same bar. Hatched: declared, not measured.",
    place="storlab.figures.efficiency_bars:draw",
)
EFFICIENCY_VS_AXIS = FigureKind(
    "efficiency_vs_axis",
    "power",
    "Data per joule along the sweep",
    "Bytes of all repeats over joules of all repeats, with its 95 % interval; every dot is one "
    "run. Dashed: declared, not measured.",
    parts=(
        OverSweep(
            ("efficiency_mb_s_w.all",),
            name="efficiency-over",
            words="throughput per watt",
            noun="data per joule",
            axis="MB/s/W = MB/J",
            ratio="{larger} moves {times} as much data per joule as {smaller}",
        ),
    ),
    main=False,
)
RATIOS = FigureKind(
    "ratios",
    "workload",
    "Ratios at a glance",
    "Ratio to the baseline with its 95 % interval. A line without a marker: the interval includes "
    "1. ≠: the two latencies were taken at different effective concurrency.",
    place="storlab.figures.ratios:draw",
)
RATIOS_OF_FIXED_WORK = FigureKind(
    "ratios_of_fixed_work",
    "workload",
    "Ratios at a glance",
    "Ratio to the baseline with its 95 % interval. A line without a marker: the interval includes "
    "1.",
    place="storlab.figures.ratios:draw_fixed",
    main=False,
)
