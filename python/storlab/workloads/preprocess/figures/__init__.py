"""List of the figures of preprocessing; modules in this folder draw some of them."""

from __future__ import annotations

from storlab.contracts.figure import Bars, Drawn, FigureKind, OverSweep, StackOverSweep
from storlab.workloads.common.figure_kinds import (
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    POWER_OVER_TIME,
    RATIOS_OF_FIXED_WORK,
    TIME_SERIES,
)
from storlab.workloads.preprocess.job import STAGES

_HERE = "storlab.workloads.preprocess.figures"
_RINGS = f"{_HERE}.saturated:places"

TIME = FigureKind(
    "preprocess_time",
    "section",
    "Time against workers",
    "{mean}; each dot is a run. Ring: the device saturates.",
    parts=(
        OverSweep(
            ("completion_time_s.all",),
            name="completion-time",
            words="completion time",
            log=True,  # a linear scale would hide the gain of the last workers
            rings=_RINGS,
            title=f"{_HERE}.saturated:verdicts",
        ),
        Bars(
            "time",
            {
                "of all stages": "completion_time_s.all",
                **{stage: f"completion_time_s.{stage}" for stage in STAGES},
            },
            name="completion-time",
            when="single",
        ),
    ),
)
WAITING = FigureKind(
    "preprocess_stages",
    "section",
    "Which stage waits",
    "Solid: workers on CPU. Pale: waiting for the device, a core or each other.",
    parts=(Drawn(f"{_HERE}.stages:draw"),),
)
ENERGY = FigureKind(
    "preprocess_energy",
    "section",
    "Energy against workers",
    "Of the run, stages from solid to pale. Hatched: declared, not measured.",
    parts=(
        StackOverSweep(
            whole="energy_wh.all",
            keys={stage: f"span_energy_wh.{stage}" for stage in STAGES},
            undivided="the whole run",  # if stages are too short for the meter
            name="energy",
            what="energy",
            axis="energy of the run",
            words="energy of a run in Wh by stage",
        ),
    ),
)
THROUGHPUT = FigureKind(
    "preprocess_throughput",
    "section",
    "Throughput against workers",
    "Raw data in, and what the device read and wrote, over all stages.",
    parts=(
        OverSweep(
            ("input_mb_s.all",),
            name="raw-data",
            words="raw data",
            ratio="{larger} takes in {times} as much as {smaller}",
        ),
        OverSweep(
            ("device_mb_s.all",),
            name="device-throughput",
            words="what the device read and wrote",
            ratio="{larger}’s device moves {times} as much as {smaller}’s",
        ),
        Bars(
            "throughput",
            {
                "raw data in": "input_mb_s.all",
                "binary data out": "output_mb_s.all",
                "of the device": "device_mb_s.all",
            },
            when="single",
        ),
    ),
)
PREPROCESS_FIGURES = (
    TIME,
    WAITING,
    ENERGY,
    THROUGHPUT,
    TIME_SERIES,
    POWER_OVER_TIME,
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    RATIOS_OF_FIXED_WORK,
)
"""Kinds of figures in the order of the brief."""
