"""What the flags of this family alone mean, in the legend and for the audit."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

BLOCK_FLAGS = (
    FlagMeaning(
        "posix-fallback",
        "T",
        "io_uring could not be used; threads did the I/O.",
        severity="note",
        why="Threads did the I/O instead of io_uring: the client costs more CPU per operation.",
    ),
)
