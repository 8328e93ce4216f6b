"""Kinds of flags that only runs of checkpoint workloads can have."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

CHECKPOINT_FLAGS = (
    FlagMeaning(
        "scaled",
        "K",
        "Checkpoints were shrunk: their times and energies are not those of full-size ones.",
        severity="note",
        why="Files were shrunk: rates may hold for whole checkpoints, times and energies do not.",
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "not-durable",
        "J",
        "Nothing proves that what was written had reached the device: it was not flushed, or the "
        "device counted less than was written.",
        severity="warning",
        why="A time to written that nothing flushed is the time of a cache, and not of storage.",
        about=("write_", "durable_", "slowest_rank"),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "restore-not-cold",
        "Q",
        "Memory may have served the restore: files lay in it, or the device counted less than was "
        "read.",
        severity="warning",
        why="Memory may have served the restore: after a failure it would not.",
        about=("restore_",),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "slowest",
        "z",
        "The slowest of its kind: a checkpoint is done when its last rank is.",
    ),
)
