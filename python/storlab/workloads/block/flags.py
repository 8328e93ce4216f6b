"""Kinds of flags that only runs of block I/O can have."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

BLOCK_FLAGS = (
    FlagMeaning(
        "posix-fallback",
        "no io_uring",
        "io_uring could not be used; threads did the I/O.",
        severity="note",
        why="Threads did the I/O instead of io_uring: the client costs more CPU per operation.",
    ),
    FlagMeaning(
        "flush-apart",
        "flush apart",
        "Writes are followed by flushes, which their latency does not include: flushes are timed "
        "separately.",
        severity="note",
        why="A program that needs a write to be durable waits for the write and its flush.",
        about=("latency_", "intended_latency_"),
        latencies=True,
        caveat=True,
        claims=True,
    ),
)
