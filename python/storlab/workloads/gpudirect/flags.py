"""Kinds of flags that only runs of GPUDirect workloads can have."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

NOT_DIRECT = "not-direct"
UNPROVEN = "path-unproven"
UNCOMPARED = "not-compared"
SWITCH_ON_COUNTING = "as root, echo 1 > /sys/module/nvidia_fs/parameters/rw_stats_enabled"

GPUDIRECT_FLAGS = (
    FlagMeaning(
        NOT_DIRECT,
        "n",
        "The run asked for the direct path, and less than 99 % of its bytes took it: the rest went "
        "through host memory.",
        severity="warning",
        why=(
            "Bytes went through host memory although the direct path was asked for: this is no "
            "number of GPUDirect Storage."
        ),
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        UNPROVEN,
        "u",
        "The run asked for the direct path, and no counter proves which path its bytes took, or "
        "the machine contradicts the counters.",
        severity="warning",
        why="Nobody knows whether this is a number of GPUDirect Storage.",
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        UNCOMPARED,
        "v",
        "What arrived in GPU memory was not compared with what storage holds (verify = false).",
        severity="note",
        why="A library may report success for data that never arrived.",
    ),
)
