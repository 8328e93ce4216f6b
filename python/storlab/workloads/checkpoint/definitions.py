"""Definitions of terms about checkpoints, for a brief's section on method."""

from __future__ import annotations

from storlab.contracts.page import Definition

CHECKPOINT_DEFINITIONS = (
    Definition(
        "Time of a checkpoint",
        "To written: from the start until the last rank has handed over its last byte. To "
        "durable: until files and directories are flushed and the checkpoint has its name. Means "
        "over the checkpoints of a run; the slowest rank decides each.",
    ),
    Definition(
        "Throughput of a checkpoint",
        "Bytes of all checkpoints of a run over the sum of their times; pauses and deletions are "
        "no part of it.",
    ),
    Definition(
        "Cold restores",
        "Before a restore, what of the files lies in memory is counted, and after it what the "
        "device read. A restore that memory may have served is marked “not cold”.",
    ),
    Definition(
        "What checkpoints cost the training",
        "Share of time lost is C / (T + C), with C the time to durable at full size (a "
        "scaled one is extrapolated at equal throughput) and T the training between two "
        "checkpoints. The optimal interval is Young’s √(2CM) (Communications of the ACM 17, "
        "1974) and Daly’s higher-order form (Future Generation Computer Systems 22, 2006), with M "
        "the mean time between failures. Modelled: storlab trains nothing.",
    ),
)
