"""What the flags of preprocessing mean, in the legend and for the audit."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

PREPROCESS_FLAGS = (
    FlagMeaning(
        "malformed-lines",
        "I",
        "Some raw lines were malformed and left out; which, and why, stands with the runs.",
        severity="note",
        why="The output has fewer rows than the raw files have lines: look at the ones left out.",
        caveat=True,
    ),
    FlagMeaning(
        "resumed",
        "r",
        "The run went on where an earlier process had ended: it has no time of all its stages.",
        severity="note",
        why="A part of the work was done by an earlier process: energy and CPU are of the rest.",
        caveat=True,
    ),
    FlagMeaning(
        "workers-idle",
        "i",
        "The raw data had fewer parts than workers: some had nothing to do.",
        severity="warning",
        why="More workers than parts cannot help: the end of the sweep says nothing of the target.",
        caveat=True,
    ),
    FlagMeaning(
        "several-passes",
        "2",
        "Memory was so short that data were read more than once: more memory is faster.",
        severity="note",
        why=(
            "Data was read again because memory was short: bytes of the device and times are "
            "larger."
        ),
        caveat=True,
    ),
    FlagMeaning(
        "memory-exceeded",
        "m",
        "The stages took more memory than the study allows.",
        severity="warning",
        why="A machine with as little memory as the study allows could not have done this.",
        caveat=True,
    ),
)
