"""Kinds of flags that only runs of object workloads can have."""

from __future__ import annotations

from storlab.contracts.page import FlagMeaning

OBJECT_FLAGS = (
    FlagMeaning(
        "errors",
        "!",
        "Some requests failed. They are in no rate, no byte count and no latency, but for those "
        "of an open loop that timed out: they count in the latency from the intended start. How "
        "many, and of which kind, stands with the runs.",
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
        "¶",
        "One endpoint of the store answers more slowly than the fastest one; which, stands with "
        "the runs and in the table of endpoints.",
        severity="warning",
        why=(
            "One endpoint of the store is slower than another: rates and percentiles of all "
            "endpoints together hide it, and the store may be faster with even endpoints."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "mix-off",
        "X",
        "The counted requests differ from the mix that was asked for by more than chance explains.",
        severity="warning",
        why=(
            "The requests that were counted are not the mix that was asked for: results of this "
            "mix belong to another one."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "payload-mode",
        "G",
        "Bodies were signed or had checksums, which costs CPU on both sides: compare only with "
        "runs that did the same.",
        severity="note",
        why=(
            "Signing bodies costs CPU on both sides: a comparison holds with runs that did the "
            "same."
        ),
        caveat=True,
    ),
)
