"""Definitions of terms about preprocessing, for a brief's section on method."""

from __future__ import annotations

from storlab.contracts.page import Definition

PREPROCESS_DEFINITIONS = (
    Definition(
        "Completion time",
        "From the start of the first stage to the end of the last. A stage ends when its output "
        "is flushed, so that writes of the device belong to the stage that made them; before it "
        "begins, its input is dropped from the page cache.",
    ),
    Definition(
        "Workers on CPU",
        "CPU time of a run or stage over its time and its workers (or the cores, where these are "
        "fewer). The rest of their time workers wait: for the device, or for one another.",
    ),
    Definition(
        "Where the device saturates",
        "At the smallest number of workers from which on no larger one is faster by 5 % or more, "
        "while workers at the largest are on CPU for less than 70 % of the time that their parts "
        "allow, and a device moves the data. No faster is what the interval of the ratio says: it "
        "must exclude a gain of 10 %. Busy workers are CPU-bound.",
    ),
    Definition(
        "Output of preprocessing",
        "Every run’s binary data is read back after its window. The rows digest does not depend "
        "on the order of rows, those of columns do; the dictionary digest covers vocabularies and "
        "their counts. Runs of the same input and semantics must agree, whatever the engine.",
    ),
)
