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
        "The device saturates at the smallest number of workers beyond which more workers gain "
        "less than 5 %, with an interval that excludes a gain of 10 %. In addition, the workers at "
        "the largest number must be on CPU for less than 70 % of the time that their parts allow, "
        "and the device must have moved the data. Workers that are busier are CPU-bound.",
    ),
    Definition(
        "Output of preprocessing",
        "Every run’s binary data is read back after its window. The rows digest does not depend "
        "on the order of rows, those of columns do; the dictionary digest covers vocabularies and "
        "their counts. Runs of the same input and semantics must agree, whatever the engine.",
    ),
)
