"""Kinds of figures that any workload family may use; ``storlab.figures`` draws them."""

from __future__ import annotations

from dataclasses import replace

from storlab.contracts.figure import Drawn, FigureKind, OverSweep

THROUGHPUT_VS_JOBS = FigureKind(
    "throughput_vs_jobs",
    "section",
    "Throughput",
    "{mean}; each dot is a run.",
    place="storlab.figures.throughput_vs_jobs:draw",
)
THROUGHPUT_VS_AXIS = FigureKind(
    "throughput_vs_axis",
    "section",
    "Throughput",
    "{mean}; each dot is a run.",
    place="storlab.figures.throughput_vs_jobs:draw_swept",
)
RATES_VS_JOBS = FigureKind(
    "rates_vs_jobs",
    "section",
    "Operations per second",
    "{mean}; each dot is a run.",
    place="storlab.figures.throughput_vs_jobs:draw_rates",
    main=False,
)
LATENCY_POINTS = FigureKind(
    "latency_points",
    "section",
    "Latency",
    "{mean}; tick: 99th percentile.",
    place="storlab.figures.latency_points:draw",
)
LATENCY_UNDER_LOAD = FigureKind(
    "latency_under_load",
    "section",
    "Latency under load",
    "All repeats together. Dashed: knee. Targets at equal load are above each other.",
    place="storlab.figures.latency_under_load:draw",
)
LATENCY_VS_AXIS = FigureKind(
    "latency_vs_axis",
    "section",
    "Latency",
    "{mean}; tick: 99th percentile.",
    place="storlab.figures.latency_points:draw_swept",
)
LATENCY_CDF = FigureKind(
    "latency_cdf",
    "section",
    "Latency distribution",
    "All repeats together; the vertical axis is the percentile: 90, 99, 99.9 %.",
    parts=(Drawn("storlab.figures.latency_cdf:draw"),),
    main=False,
)
ERRORS = FigureKind(
    "errors",
    "family",
    "Failed requests",
    "By kind. Latencies include only time-outs of an open loop, rates include none.",
    place="storlab.figures.errors:draw",
)
TIME_SERIES = FigureKind(
    "time_series",
    "section",
    "Over time",
    "Throughput and 99th percentile of each interval, one line per repeat.",
    parts=(Drawn("storlab.figures.time_series:draw"),),
    main=False,
)
POWER_OVER_TIME = FigureKind(
    "power_over_time",
    "section",
    "Power over time",
    "One line per repeat. Frame: the measure window. Dashed: declared, not measured.",
    parts=(Drawn("storlab.figures.power_over_time:draw"),),
    main=False,
)
EFFICIENCY_BARS = FigureKind(
    "efficiency_bars",
    "power",
    "Throughput per watt",
    "Bytes over joules of all repeats, on both axes. Hatched: declared, not measured.",
    place="storlab.figures.efficiency_bars:draw",
)
EFFICIENCY_VS_AXIS = FigureKind(
    "efficiency_vs_axis",
    "power",
    "Throughput per watt along the sweep",
    "Bytes over joules of all repeats; each dot is a run. Dashed: declared.",
    parts=(
        OverSweep(
            ("efficiency_mb_s_w.all",),
            name="efficiency-over",
            words="throughput per watt",
            noun="throughput per watt",
            axis="MB/s/W = MB/J",
            ratio="{larger} reaches {times} the throughput per watt of {smaller}",
        ),
    ),
    main=False,
)
RATIOS = FigureKind(
    "ratios",
    "workload",
    "Ratios at a glance",
    "Ratio to the baseline. No marker: the interval includes 1. ≠: at different concurrency.",
    place="storlab.figures.ratios:draw",
)
RATIOS_FURTHER = replace(
    RATIOS, name="ratios_further", place="storlab.figures.ratios:draw_further", main=False
)
RATIOS_OF_FIXED_WORK = FigureKind(
    "ratios_of_fixed_work",
    "workload",
    "Ratios at a glance",
    "Ratio to the baseline with its 95 % interval. No marker: the interval includes 1.",
    place="storlab.figures.ratios:draw_fixed",
    main=False,
)
