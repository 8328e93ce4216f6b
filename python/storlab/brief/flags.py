"""Marks: the letters that stand beside numbers, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from storlab.analysis.compare import CellFlag


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark beside a number: its letter, the kind's meaning, and the message of this cell."""

    kind: str
    letter: str
    meaning: str
    message: str


MEANINGS: dict[str, tuple[str, str]] = {
    "concurrency-mismatch": (
        "C",
        "Effective concurrency (Little’s law) differs from the "
        "configured one by more than 10 %: the latency was not taken at the "
        "configured number of outstanding operations.",
    ),
    "client-bound": (
        "B",
        "The load generator was near the limit of its CPU: the target may be "
        "faster than this number shows.",
    ),
    "busy-machine": (
        "b",
        "The machine was busy with others than the load generator: the target may be faster than "
        "this number shows.",
    ),
    "starved": (
        "w",
        "The machine did not run the load generator for 2 % of the window or more, though it could "
        "have run: rates are too low by that, and latencies hold the waits.",
    ),
    "page-cache": ("P", "The I/O went through the page cache: memory may have served it."),
    "device-bytes": (
        "Y",
        "The device counted less than half of the bytes that were read: a cache served the rest.",
    ),
    "au-below-threshold": (
        "A",
        "Accelerators were busy for a smaller share of the time than their profile asks for.",
    ),
    "cadence-late": (
        "c",
        "The machine ran the emulated accelerators late, by more than 1 % of their compute time: "
        "utilisation stands as measured and corrected.",
    ),
    "few-steps": (
        "1",
        "An epoch has so few steps that utilisation, which leaves out the first, says little.",
    ),
    "data-set-small": (
        "Z",
        "The data set is smaller than the rule of MLPerf Storage asks for.",
    ),
    "emulated-accelerators": (
        "H",
        "Accelerators are emulated: a step takes the profile’s time, and nothing is computed.",
    ),
    "scaled": (
        "K",
        "Checkpoints were shrunk: their times and energies are not those of whole ones.",
    ),
    "not-durable": (
        "J",
        "Nothing proves that what was written had reached the device: it was not flushed, or the "
        "device counted less than was written.",
    ),
    "restore-not-cold": (
        "Q",
        "Memory may have served the restore: files lay in it, or the device counted less than was "
        "read.",
    ),
    "malformed-lines": (
        "I",
        "Some raw lines were malformed and left out; which, and why, stands with the runs.",
    ),
    "resumed": (
        "r",
        "The run went on where an earlier process had ended: it has no time of all its stages.",
    ),
    "workers-idle": ("i", "The raw data had fewer parts than workers: some had nothing to do."),
    "several-passes": (
        "2",
        "Memory was so short that data were read more than once: more memory is faster.",
    ),
    "memory-exceeded": ("m", "The stages took more memory than the study allows."),
    "slowest": ("▲", "The slowest of its kind: a checkpoint is done when its last rank is."),
    "not-steady": ("S", "Throughput was not steady over the measure window."),
    "posix-fallback": ("T", "io_uring could not be used; threads did the I/O."),
    "verify-failed": ("V", "Verification found data that was not what had been written."),
    "errors": (
        "!",
        "Some requests failed. They are in no rate, no byte count and no latency; how many, and "
        "of which kind, stands with the runs.",
    ),
    "mix-off": (
        "X",
        "The requests that were counted are not the mix that was asked for, by more than chance.",
    ),
    "embedded-server": (
        "L",
        "storlab’s own small server, over loopback: it shares this machine’s cores with the "
        "load generator, and is no product.",
    ),
    "tls-unverified": ("U", "The server’s certificate was not verified."),
    "payload-mode": (
        "G",
        "Bodies were signed or had checksums, which costs CPU on both sides: compare only with "
        "runs that did the same.",
    ),
    "open-loop-behind": ("O", "The offered rate was not reached."),
    "few-operations": ("F", "A percentile rests on fewer than ten operations beyond it."),
    "power-not-measured": (
        "W",
        "The target has a power meter, and its energy was not measured in some runs.",
    ),
    "engine-note": ("N", "The engine said something a reader should know."),
    "one-run": ("°", "Only one run finished: there is no interval."),
    "incomplete": ("*", "Fewer runs finished than were planned."),
    "modelled": ("M", "Modelled or emulated, not measured."),
    "declared": ("D", "Rests on power that the study declares, not on a measurement."),
    "published": ("R", "As published, not repeated here."),
    "not-stated": ("?", "The publication does not name the operating point of this number."),
    "energy-lost": ("E", "Some runs gave no energy; bytes and joules are those of the others."),
    "share": ("%", "The target is charged a share of what its meter reads."),
    "unequal-boundaries": (
        "⊘",
        "The two sides’ power was taken at different boundaries, which the study accepts.",
    ),
    "different-concurrency": (
        "≠",
        "The two latencies of this ratio were taken at effective "
        "concurrencies that differ by more than 10 %.",
    ),
}
WITH_POWER = ("scaled", "emulated-accelerators", "starved")  # flags that stand beside energies, too
ABOUT: dict[str, tuple[str, ...]] = {
    "emulated-accelerators": ("au_percent", "au_with", "au_co", "accelerators_"),
    "au-below-threshold": ("au_percent", "au_with_first"),
    "data-set-small": ("au_percent", "au_with", "samples_", "throughput_", "nominal_"),
    "cadence-late": ("au_", "accelerators_", "cadence_", "wake_delay_"),
    "few-steps": ("au_percent", "au_configured", "au_corrected"),
    "not-durable": ("write_", "durable_", "slowest_rank"),
    "restore-not-cold": ("restore_",),
}
"""Flags that stand beside some metrics only, by the beginnings of their names."""
LATENCY_ONLY = ("concurrency-mismatch", "few-operations", "different-concurrency")


def mark(kind: str, message: str) -> Mark:
    """The mark of a kind of flag; an unknown kind shows as a dagger."""
    letter, meaning = MEANINGS.get(kind, ("†", message))
    return Mark(kind, letter, meaning, message)


def cell_marks(
    flags: Iterable[CellFlag], runs: int, *, latency: bool, name: str = ""
) -> tuple[Mark, ...]:
    """The marks of a cell's number; those about latency stand beside latencies only.

    ``name`` is the metric's, for those that are about some metrics.
    """
    return tuple(
        mark(flag.kind, f"{flag.message} ({flag.runs} of {runs} runs)")
        for flag in flags
        if (latency or flag.kind not in LATENCY_ONLY) and name.startswith(ABOUT.get(flag.kind, ""))
    )


def legend(marks: Iterable[Mark]) -> list[Mark]:
    """Each kind once, in the order of the table above."""
    found = {m.kind: m for m in marks}
    order = list(MEANINGS)
    return sorted(found.values(), key=lambda m: order.index(m.kind) if m.kind in order else 99)
