"""Kinds of flags that only runs of preprocessing can have."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

PREPROCESS_FLAGS = (
    FlagMeaning(
        "malformed-lines",
        "malformed lines",
        "Some raw lines were malformed and left out; the list of runs has examples with reasons.",
        severity="note",
        why="The output has fewer rows than the raw files have lines: check those left out.",
        caveat=True,
    ),
    FlagMeaning(
        "resumed",
        "resumed",
        "The run continued work of an earlier process: there is no time for all stages.",
        severity="note",
        why="An earlier process did a part of the work: energy and CPU time are for the rest only.",
        caveat=True,
    ),
    FlagMeaning(
        "workers-idle",
        "idle workers",
        "The raw data had fewer parts than workers: some workers had nothing to do.",
        severity="warning",
        why="More workers than parts cannot be faster, which says nothing about the target.",
        caveat=True,
    ),
    FlagMeaning(
        "several-passes",
        "several passes",
        "Memory was so small that data was read more than once: more memory would be faster.",
        severity="note",
        why=(
            "Data was read again because memory was small: bytes of the device and times are "
            "larger."
        ),
        caveat=True,
    ),
    FlagMeaning(
        "memory-exceeded",
        "over memory",
        "The stages used more memory than the study allows.",
        severity="warning",
        why="A machine with only as much memory as the study allows could not have done this.",
        caveat=True,
    ),
    FlagMeaning(
        "remote-workers",
        "remote workers",
        "Workers on other machines did a part of the work; they measured their CPU and memory.",
        severity="note",
        why="Meters and counters of this machine do not include what other machines used.",
        caveat=True,
    ),
    FlagMeaning(
        "workers-lost",
        "lost workers",
        "Workers of the cluster were lost, and others did their work again.",
        severity="warning",
        why="The time of the run includes work that was done twice.",
        caveat=True,
    ),
)
