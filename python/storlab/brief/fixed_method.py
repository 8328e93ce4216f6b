"""Definitions of fixed work for the section about method, and whether there is any."""

from __future__ import annotations

from storlab.analysis.compare import Comparison
from storlab.contracts.registry import FAMILIES

_TRAINING = (
    (
        "Accelerator utilisation (AU)",
        "Compute time over total time of an epoch, mean over accelerators and epochs, the first "
        "step of each epoch left out (the public definition). With the first step, and with the "
        "compute time as configured (version 1 of the benchmark), stand beside it. Accelerators "
        "are emulated: a step takes the profile’s time, and nothing is computed. Results are "
        "DLIO-equivalent, and no results of MLPerf.",
    ),
    (
        "Throughput of training",
        "Moved: bytes that were read, over the run. Nominal: samples times the profile’s size of "
        "one, as DLIO prints; it is no count of bytes.",
    ),
    (
        "Waits and stalls",
        "The wait of a step ends when its batch is there. The stall of an accelerator is the sum "
        "of these waits over the run, mean of the accelerators.",
    ),
    (
        "Bytes of the device",
        "What the block device (or the store) counted as read, over what was read of the files. "
        "Much below 1, a cache served the rest.",
    ),
)
_CHECKPOINT = (
    (
        "Time of a checkpoint",
        "To written: from the start until the last rank has handed over its last byte. To "
        "durable: until files and directories are flushed and the checkpoint has its name. Means "
        "over the checkpoints of a run; the slowest rank decides each.",
    ),
    (
        "Throughput of a checkpoint",
        "Bytes of all checkpoints of a run over the sum of their times; pauses and deletions are "
        "no part of it.",
    ),
    (
        "Cold restores",
        "Before a restore, what of the files lies in memory is counted, and after it what the "
        "device read. A restore that memory may have served is marked Q.",
    ),
    (
        "What checkpoints cost the training",
        "Share of time lost is C / (T + C), with C the time to durable and T the training between "
        "two checkpoints. The optimal interval is Young’s √(2CM) (Communications of the ACM 17, "
        "1974) and Daly’s higher-order form (Future Generation Computer Systems 22, 2006), with M "
        "the mean time between failures. Modelled: storlab trains nothing.",
    ),
)
_PREPROCESS = (
    (
        "Completion time",
        "From the start of the first stage to the end of the last. A stage ends when its output "
        "is flushed, so that writes of the device belong to the stage that made them; before it "
        "begins, its input is dropped from the page cache.",
    ),
    (
        "Workers on CPU",
        "CPU time of a run or stage over its time and its workers (or the cores, where these are "
        "fewer). The rest of their time workers wait: for the device, or for one another.",
    ),
    (
        "Where the device saturates",
        "At the smallest number of workers from which on no larger one is faster by 5 % or more, "
        "while workers at the largest are on CPU for less than 70 % of the time that their parts "
        "allow, and a device moves the data. No faster is what the interval of the ratio says: "
        "it must exclude a gain of 10 %. Busy workers are CPU-bound.",
    ),
    (
        "Output of preprocessing",
        "Every run’s binary data is read back after its window. The rows digest does not depend "
        "on the order of rows, those of columns do; the dictionary digest covers vocabularies and "
        "their counts. Runs of the same input and semantics must agree, whatever the engine.",
    ),
)
_BY_KIND = {"training": _TRAINING, "checkpoint": _CHECKPOINT, "preprocess": _PREPROCESS}
_ENERGY = (
    (
        "Energy of a piece",
        "Power integrated over one epoch, checkpoint, restore or stage; mean of a run’s pieces. "
        "None where a piece is too short for the meter’s readings.",
    ),
)


def fixed_method(comparison: Comparison) -> list[tuple[str, str]]:
    """Definitions of the families of fixed work that the comparison has."""
    found = [entry for kind in comparison.kinds for entry in _BY_KIND.get(kind, ())]
    metered = any(c.name.startswith("span_energy") for c in comparison.columns)
    return [*found, *(_ENERGY if metered else ())]


def has_window(comparison: Comparison) -> bool:
    """Whether any family is measured for a set time, rather than until its work is done."""
    kinds = comparison.kinds or {"block": []}
    return any(not FAMILIES[kind].fixed_work for kind in kinds)
