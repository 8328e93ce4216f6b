"""Kinds of flags that only runs of object workloads can have."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

OBJECT_FLAGS = (
    FlagMeaning(
        "errors",
        "errors",
        "Some requests failed. They are not part of rates, bytes and latencies, except that "
        "time-outs of an open loop count in the latency from the intended start. The list of runs "
        "has their number by kind.",
        severity="warning",
        why=(
            "Requests failed. Rates and latencies are those of the requests that succeeded (in "
            "open loop, time-outs count in the latency from the intended start): a store that "
            "refuses work can look fast."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "uneven-endpoints",
        "uneven endpoints",
        "One endpoint of the store answers more slowly than the fastest one. The list of runs and "
        "the table of endpoints name it.",
        severity="warning",
        why=(
            "One endpoint of the store is slower than another, which rates and percentiles of all "
            "endpoints together hide. With equal endpoints, the store may be faster."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "mix-off",
        "mix off",
        "The requests differ from the mix in the study by more than chance explains.",
        severity="warning",
        why=(
            "The requests were not of the mix in the study, so these results are those of another "
            "mix."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "payload-mode",
        "checksums",
        "Bodies were signed or had checksums, which costs CPU on both sides: compare only with "
        "runs that did the same.",
        severity="note",
        why=(
            "Signing bodies costs CPU on both sides: a comparison is valid only with runs that did "
            "the same."
        ),
        caveat=True,
    ),
)
