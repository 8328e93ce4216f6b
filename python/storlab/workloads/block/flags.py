"""Kinds of flags that only runs of block I/O can have."""

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
    FlagMeaning(
        "flush-apart",
        "g",
        "Writes are flushed, and a write’s latency ends before its flush: the flush has a latency "
        "of its own.",
        severity="note",
        why="A program that waits until a write is durable waits for the write and for its flush.",
        about=("latency_", "intended_latency_"),
        latencies=True,
        caveat=True,
        claims=True,
    ),
)
