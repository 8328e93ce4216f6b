"""Kinds of flags that only runs of training workloads can have."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

TRAINING_FLAGS = (
    FlagMeaning(
        "au-below-threshold",
        "below threshold",
        "Accelerators were busy for less of the time than their profile requires.",
        severity="note",
        why="Storage did not keep the accelerators as busy as their profile requires.",
        about=("au_percent", "au_with_first"),
        caveat=True,
    ),
    FlagMeaning(
        "cadence-late",
        "late steps",
        "Threads of emulated accelerators woke up late, by more than 1 % of their compute time: "
        "utilisation is given as measured and corrected.",
        severity="warning",
        why=(
            "The machine was too busy to run emulated accelerators in time: utilisation as "
            "measured is too low, so a corrected one is given, too."
        ),
        about=("au_", "accelerators_", "cadence_", "wake_delay_"),
        caveat=True,
    ),
    FlagMeaning(
        "few-steps",
        "few steps",
        "An epoch has so few steps that utilisation, which leaves out the first, is unreliable.",
        severity="warning",
        why="Utilisation leaves out the first step of an epoch, a large part of few steps.",
        about=("au_percent", "au_configured", "au_corrected"),
        caveat=True,
        claims=True,
        advice="utilisation leaves out the first step of each epoch, and these epochs have few; "
        "use a larger data set",
    ),
    FlagMeaning(
        "data-set-small",
        "small data set",
        "The data set is smaller than a rule of MLPerf Storage requires.",
        severity="note",
        why="A small data set may fit in a cache of the device or host, and has few steps.",
        about=("au_percent", "au_with", "samples_", "throughput_", "nominal_"),
        caveat=True,
    ),
    FlagMeaning(
        "emulated-accelerators",
        "emulated",
        "Accelerators are emulated: a step takes the profile’s time, and nothing is computed.",
        severity="note",
        why=(
            "Utilisation is that of accelerators which only wait: it is DLIO-equivalent, not a "
            "result of MLPerf."
        ),
        about=("au_percent", "au_with", "au_co", "accelerators_"),
        energies=True,
        caveat=True,
        implied_provenance="emulated",
    ),
)
