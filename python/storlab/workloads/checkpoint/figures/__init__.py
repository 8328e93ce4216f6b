"""List of the figures of checkpoint workloads; modules in this folder draw some of them."""

from __future__ import annotations

from storlab.contracts.figure import Bars, Drawn, FigureKind, OverSweep, WorkerBars
from storlab.workloads.common.figure_kinds import (
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    POWER_OVER_TIME,
    RATIOS_OF_FIXED_WORK,
    TIME_SERIES,
)

_HERE = "storlab.workloads.checkpoint.figures"

TIME = FigureKind(
    "checkpoint_time",
    "section",
    "Time",
    "{mean}; each dot is a run, the mean of its checkpoints.",
    parts=(
        Bars(
            "time",
            {
                "to written": "write_time_s.all",
                "to durable": "durable_time_s.all",
                "of a restore": "restore_time_s.all",
            },
            ratio="durable_time_s.all",
        ),
        OverSweep(
            ("durable_time_s.all", "write_time_s.all"),
            name="checkpoint-time-by-axis",
            words="time of a checkpoint",
        ),
        Drawn(f"{_HERE}.one_by_one:draw"),
    ),
)
THROUGHPUT = FigureKind(
    "checkpoint_throughput",
    "section",
    "Throughput",
    "{mean}, while checkpoints move; pauses do not count.",
    parts=(
        Bars(
            "throughput",
            {
                "to written": "write_mb_s.all",
                "to durable": "durable_mb_s.all",
                "of a restore": "restore_mb_s.all",
            },
            ratio="durable_mb_s.all",
        ),
        OverSweep(
            ("durable_mb_s.all", "write_mb_s.all"),
            name="checkpoint-throughput-by-axis",
            words="throughput of a checkpoint",
        ),
    ),
)
ENERGY = FigureKind(
    "checkpoint_energy",
    "section",
    "Energy",
    "Of one checkpoint and one restore. Hatched: declared, not measured.",
    parts=(
        Bars(
            "energy",
            {"of a checkpoint": "span_energy_wh.write", "of a restore": "span_energy_wh.restore"},
        ),
    ),
)
RANK_TIMES = FigureKind(
    "rank_times",
    "section",
    "Ranks",
    "Mean over checkpoints, and range of the repeats; ring: the slowest rank. Each "
    "checkpoint waits for its own slowest rank.",
    parts=(
        WorkerBars(
            pieces="write",
            worker="rank",
            title="time of its part of a checkpoint (s)",
            what="slowest rank of a checkpoint, on average",
            name="rank-times-write",
        ),
        WorkerBars(
            pieces="restore",
            worker="rank",
            title="time of its part of a restore (s)",
            what="slowest rank of a restore, on average",
            name="rank-times-restore",
        ),
    ),
)
TRAINING_LOST = FigureKind(
    "training_lost",
    "section",
    "What checkpoints cost the training",
    "Modelled: time lost to checkpoints, restarts and repeated work.",
    parts=(Drawn(f"{_HERE}.training_lost:draw"),),
)
CHECKPOINT_FIGURES = (
    TIME,
    RANK_TIMES,
    THROUGHPUT,
    TRAINING_LOST,
    ENERGY,
    TIME_SERIES,
    POWER_OVER_TIME,
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    RATIOS_OF_FIXED_WORK,
)
"""Kinds of figures in the order of the brief."""
