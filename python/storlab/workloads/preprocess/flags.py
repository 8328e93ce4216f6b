"""Kinds of flags that only runs of preprocessing can have."""

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
        "The run continued where an earlier process had stopped: there is no time of all stages.",
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
        "p",
        "Memory was so short that data was read more than once: more memory would be faster.",
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
    FlagMeaning(
        "remote-workers",
        "e",
        "Workers on other machines did a part of the work, and measured CPU and memory themselves.",
        severity="note",
        why="Meters and counters of this machine say nothing of what other machines used.",
        caveat=True,
    ),
    FlagMeaning(
        "workers-lost",
        "x",
        "Workers of the cluster were lost, and others did their work again.",
        severity="warning",
        why="The time of the run includes work that was done twice.",
        caveat=True,
    ),
)
