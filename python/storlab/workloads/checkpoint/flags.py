"""Kinds of flags that only runs of checkpoint workloads can have."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

CHECKPOINT_FLAGS = (
    FlagMeaning(
        "scaled",
        "scaled",
        "Checkpoints were scaled down: times and energies are those of a part.",
        severity="note",
        why="Files were scaled down: only rates may be valid for whole checkpoints.",
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "not-durable",
        "not durable",
        "It is not proven that checkpoints had reached the device: they were not flushed, or the "
        "device counted fewer bytes than were written.",
        severity="warning",
        why="Without a flush, the time of a checkpoint may be that of a cache, not of storage.",
        about=("write_", "durable_", "slowest_rank"),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "restore-not-cold",
        "not cold",
        "Memory may have served the restore: files were in the page cache, or the device counted "
        "fewer bytes than were read.",
        severity="warning",
        why="Memory may have served the restore, which is not possible after a real failure.",
        about=("restore_",),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "slowest",
        "slowest rank",
        "The slowest rank: a checkpoint is complete only when its last rank is.",
    ),
)
