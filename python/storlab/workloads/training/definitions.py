"""Definitions of terms about training, for a brief's section on method."""

from __future__ import annotations

from storlab.contracts.page import Definition

TRAINING_DEFINITIONS = (
    Definition(
        "Accelerator utilisation (AU)",
        "Compute time over total time of an epoch, mean over accelerators and epochs, the first "
        "step of each epoch left out (the public definition). With the first step, and with the "
        "compute time as configured (version 1 of the benchmark), stand beside it. Accelerators "
        "are emulated: a step takes the profile’s time, and nothing is computed. Results are "
        "DLIO-equivalent, and no results of MLPerf.",
    ),
    Definition(
        "Throughput of training",
        "Moved: bytes that were read, over the run. Nominal: samples times the profile’s size of "
        "one, as DLIO prints; it is no count of bytes.",
    ),
    Definition(
        "Waits and stalls",
        "The wait of a step ends when its batch is there. The stall of an accelerator is the sum "
        "of these waits over the run, mean of the accelerators.",
    ),
    Definition(
        "Bytes of the device",
        "What the block device (or the store) counted as read, over what was read of the files. "
        "Much below 1, a cache served the rest.",
    ),
)
