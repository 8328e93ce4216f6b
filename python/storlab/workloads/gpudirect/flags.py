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
        "not direct",
        "The run was to use the direct path, but less than 99 % of its bytes did: the rest went "
        "through host memory.",
        severity="warning",
        why=(
            "Bytes went through host memory although the run was to use the direct path: this is "
            "not a number of GPUDirect Storage."
        ),
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        UNPROVEN,
        "path unproven",
        "The run was to use the direct path, but no counter proves which path its bytes took, or "
        "facts about the machine contradict the counters.",
        severity="warning",
        why="It is not known whether this is a number of GPUDirect Storage.",
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        UNCOMPARED,
        "data unverified",
        "Data in GPU memory was not compared with data in storage (verify = false).",
        severity="note",
        why="A library may report success for data that never arrived.",
    ),
)
