"""List of the figures of training workloads; modules in this folder draw some of them."""

from __future__ import annotations

from storlab.contracts.figure import Bars, Drawn, FigureKind, OverSweep, WorkerBars
from storlab.workloads.common.figure_kinds import (
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    POWER_OVER_TIME,
    RATIOS_OF_FIXED_WORK,
    TIME_SERIES,
)

_HERE = "storlab.workloads.training.figures"
_MOVED = {"moved": "throughput_mb_s.all", "nominal|as DLIO prints": "nominal_mb_s.all"}

AU_VS_ACCELERATORS = FigureKind(
    "au_vs_accelerators",
    "section",
    "Accelerator utilisation",
    "DLIO-equivalent, accelerators emulated. Ring: the most that are kept busy.",
    parts=(
        Drawn(f"{_HERE}.utilisation:draw_swept", when="swept"),
        Drawn(f"{_HERE}.utilisation:draw_definitions"),
    ),
)
THROUGHPUT = FigureKind(
    "training_throughput",
    "section",
    "Throughput of training",
    "Bytes read of files, and samples.",
    parts=(
        Drawn(f"{_HERE}.moved:draw", when="swept"),
        OverSweep(
            ("samples_s.all",),
            name="samples-by-accelerators",
            words="samples",
            ratio="{larger} serves {times} as many samples as {smaller}",
        ),
        Bars("throughput", _MOVED, when="single"),
        Bars(
            "samples",
            {"per second": "samples_s.all"},
            name="samples",
            axis="samples per second",
            when="single",
        ),
    ),
)
NOMINAL = FigureKind(
    "training_nominal",
    "section",
    "Throughput as DLIO prints it",
    "Bytes read of files. Nominal: samples times the profile’s size.",
    parts=(Bars("throughput", _MOVED, when="swept"),),
    main=False,
)
STEP_WAIT = FigureKind(
    "step_wait",
    "section",
    "Waits and stalls",
    "Waits of all repeats, and how long each accelerator stood still; ring: the longest.",
    parts=(
        Drawn(f"{_HERE}.step_wait:draw"),
        WorkerBars(
            pieces="epoch",
            worker="accelerator",
            title="stall over the run (s)",
            what="longest stall",
            name="stalls",
            summed=True,
        ),
    ),
)
EPOCH_BYTES = FigureKind(
    "epoch_bytes",
    "section",
    "Bytes of the device",
    "Read from the device over read from files. Below 100 %, a cache served the rest.",
    parts=(Drawn(f"{_HERE}.epoch_bytes:draw"),),
)
EPOCH_ENERGY = FigureKind(
    "epoch_energy",
    "power",
    "Energy of training",
    "{mean}. Hatched or dashed: declared power or emulated accelerators.",
    parts=(
        Bars(
            "energy",
            {"of an epoch": "span_energy_j.epoch"},
            axis="energy of an epoch (J)",
        ),
        # The value is 0 where storage is too slow to keep the accelerators busy.
        OverSweep(
            ("accelerators_per_watt.all",),
            name="accelerators-per-watt",
            words="accelerators fed per watt, none where they are not kept busy",
        ),
        Bars(
            "accelerators fed",
            {"per watt": "accelerators_per_watt.all"},
            name="accelerators-per-watt",
            axis="accelerators per watt",
            when="single",
        ),
    ),
)
TRAINING_FIGURES = (
    AU_VS_ACCELERATORS,
    THROUGHPUT,
    STEP_WAIT,
    NOMINAL,
    EPOCH_BYTES,
    TIME_SERIES,
    POWER_OVER_TIME,
    EPOCH_ENERGY,
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    RATIOS_OF_FIXED_WORK,
)
"""Kinds of figures in the order of the brief."""
