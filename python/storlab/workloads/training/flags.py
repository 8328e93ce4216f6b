"""Kinds of flags that only runs of training workloads can have."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

TRAINING_FLAGS = (
    FlagMeaning(
        "au-below-threshold",
        "A",
        "Accelerators were busy for a smaller share of the time than their profile asks for.",
        severity="note",
        why="Storage did not keep the accelerators as busy as their profile asks for.",
        about=("au_percent", "au_with_first"),
        caveat=True,
    ),
    FlagMeaning(
        "cadence-late",
        "c",
        "The machine ran the emulated accelerators late, by more than 1 % of their compute time: "
        "utilisation stands as measured and corrected.",
        severity="warning",
        why=(
            "The machine was too busy to keep the accelerators' cadence: utilisation as measured "
            "is too low, and stands beside the corrected one."
        ),
        about=("au_", "accelerators_", "cadence_", "wake_delay_"),
        caveat=True,
    ),
    FlagMeaning(
        "few-steps",
        "f",
        "An epoch has so few steps that utilisation, which leaves out the first, says little.",
        severity="warning",
        why="Utilisation leaves out the first step of an epoch: of few steps that is a large part.",
        about=("au_percent", "au_configured", "au_corrected"),
        caveat=True,
        claims=True,
        advice="utilisation leaves out the first step of each epoch, and these epochs have few; "
        "a larger data set tells more",
    ),
    FlagMeaning(
        "data-set-small",
        "Z",
        "The data set is smaller than the rule of MLPerf Storage asks for.",
        severity="note",
        why="A small data set may lie in a cache of the device or of the host, and has few steps.",
        about=("au_percent", "au_with", "samples_", "throughput_", "nominal_"),
        caveat=True,
    ),
    FlagMeaning(
        "emulated-accelerators",
        "H",
        "Accelerators are emulated: a step takes the profile’s time, and nothing is computed.",
        severity="note",
        why=(
            "Utilisation is that of accelerators which only wait: it is DLIO-equivalent, and no "
            "result of MLPerf."
        ),
        about=("au_percent", "au_with", "au_co", "accelerators_"),
        energies=True,
        caveat=True,
        implied_provenance="emulated",
    ),
)
