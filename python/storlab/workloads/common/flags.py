"""Flags that all families share, and what every kind of flag means."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from storlab.contracts.page import FlagMeaning
from storlab.contracts.registry import FAMILIES

_CONDITIONS = (
    FlagMeaning(
        "concurrency-mismatch",
        "C",
        "Effective concurrency (Little’s law) differs from the configured one by more than 10 %: "
        "the latency was not taken at the configured number of outstanding operations.",
        latencies=True,
        caveat=True,
    ),
    FlagMeaning(
        "client-bound",
        "B",
        "The load generator was near the limit of its CPU: the target may be faster than this "
        "number shows.",
        severity="warning",
        why=(
            "The load generator was at its limit: the target may be faster than shown, and a "
            "ratio to it is too small or too large."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "busy-machine",
        "b",
        "The machine was busy with others than the load generator: the target may be faster than "
        "this number shows.",
        severity="warning",
        why=(
            "The machine was busy with others than the load generator: the target may be faster "
            "than shown, and a ratio to it is too small or too large."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "starved",
        "w",
        "The machine did not run the load generator for 2 % of the window or more, though it "
        "could have run: rates are too low by that, and latencies hold the waits.",
        severity="warning",
        why=(
            "The machine did not run the load generator all the time: rates are too low, and "
            "latencies hold its waits."
        ),
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "page-cache",
        "P",
        "The I/O went through the page cache: memory may have served it.",
        severity="warning",
        why=(
            "Memory may have served this I/O. A comparison with a target that was opened with "
            "O_DIRECT compares memory with storage."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "device-bytes",
        "Y",
        "The device counted less than half of the bytes that were read: a cache served the rest.",
        severity="warning",
        why=(
            "Less than half of the bytes that were read came from the device: this is the speed "
            "of a cache."
        ),
        caveat=True,
        claims=True,
    ),
)
_OUTCOMES = (
    FlagMeaning(
        "not-steady",
        "S",
        "Throughput was not steady over the measure window.",
        severity="warning",
        why="Throughput drifted over the window: another window would give another number.",
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "verify-failed",
        "V",
        "Verification found data that was not what had been written.",
        severity="warning",
        why=(
            "Blocks did not hold what was acknowledged: rates of a target that loses data mean "
            "little."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "embedded-server",
        "L",
        "storlab’s own small server, over loopback: it shares this machine’s cores with the load "
        "generator, and is no product.",
        severity="note",
        why=(
            "Server and load generator shared one machine: the numbers are of storlab's own "
            "server on these cores, and of no product."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "tls-unverified",
        "U",
        "The server’s certificate was not verified.",
        severity="note",
        why="Nobody checked that the server was the one that the study names.",
        caveat=True,
    ),
    FlagMeaning(
        "open-loop-behind",
        "O",
        "The offered rate was not reached.",
        severity="warning",
        why="The offered rate was not reached: latencies hold for the rate that was served.",
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "few-operations",
        "F",
        "A percentile rests on fewer than ten operations beyond it.",
        latencies=True,
    ),
    FlagMeaning(
        "power-not-measured",
        "W",
        "The target has a power meter, and its energy was not measured in some runs.",
    ),
    FlagMeaning(
        "engine-note",
        "N",
        "The engine said something a reader should know.",
    ),
)


def flag_meanings() -> Mapping[str, FlagMeaning]:
    """Every kind of flag that the families and the lab raise, in the order of legends.

    What bends the measurement comes first, then the families' own.
    """
    return _meanings(tuple(FAMILIES))


@cache
def _meanings(kinds: tuple[str, ...]) -> Mapping[str, FlagMeaning]:
    own = [meaning for kind in kinds for meaning in FAMILIES[kind].page.flags]
    return {meaning.kind: meaning for meaning in (*_CONDITIONS, *own, *_OUTCOMES)}
