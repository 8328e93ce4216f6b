"""Definitions of terms about GPUDirect, for a brief's section on method."""

from __future__ import annotations

from storlab.contracts.page import Definition

GPUDIRECT_DEFINITIONS = (
    Definition(
        "Paths",
        "Direct: cuFile moves data between storage and GPU memory. Bounce: each worker reads into "
        "pinned host memory and then copies to the GPU, one after the other. Bounce-overlapped: "
        "the next reads go on while a copy runs. Host: data stays in host memory.",
    ),
    Definition(
        "Latency of a transfer",
        "From its submission until the data is where the path ends: in GPU memory, or for path "
        "host in host memory. Of a batch, every entry counts from the submission of the batch.",
    ),
    Definition(
        "Proof of path",
        "cuFile counts for each GPU the bytes that went by P2PDMA, by nvidia-fs and by POSIX. The "
        "counters are read before and after the load and held against the bytes that it moved. "
        "Below 99 % direct, a run is marked as not direct; without counters, as unproven.",
    ),
    Definition(
        "Energy per GB",
        "Joules of the measure window over gigabytes that were moved in it: 1,000 over MB/s per "
        "watt. It includes what the meters of the target include.",
    ),
)
