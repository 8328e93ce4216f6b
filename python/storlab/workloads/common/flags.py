"""Kinds of flags that runs of any workload family can have: label, explanation and effect."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from storlab.contracts.page import FlagMeaning
from storlab.contracts.registry import FAMILIES

_CONDITIONS = (
    FlagMeaning(
        "page-cache",
        "page cache",
        "Memory may have served the I/O instead of a drive.",
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
        "not all on device",
        "The kernel counted less than 90 % of the bytes read, or written, at the device: something "
        "else, such as a cache, served or took the rest.",
        severity="warning",
        why=(
            "Some of the bytes were not read from or written to the device: this is not the speed "
            "of the device."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "concurrency-mismatch",
        "other concurrency",
        "Effective concurrency (Little’s law) differs from the configured one by more than 10 %: "
        "the latency is that of another number of operations in flight.",
        latencies=True,
        caveat=True,
    ),
    FlagMeaning(
        "client-bound",
        "client-bound",
        "The load generator was near the limit of its CPU: the target may be faster than shown.",
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
        "busy machine",
        "The machine was busy with other work: the target may be faster than shown.",
        severity="warning",
        why=(
            "The machine was busy with other work: the target may be faster than shown, and a "
            "ratio to it is too small or too large."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "starved",
        "short of CPU",
        "The client was short of CPU for 2 % of the window or more, so throughput is understated "
        "and latencies include the waits.",
        severity="warning",
        why=(
            "The client was short of CPU for a part of the time, so throughput is understated and "
            "latencies include the waits."
        ),
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "cgroup-limit",
        "cgroup limit",
        "A limit of the client’s control group, on memory or device I/O, was reached: "
        "the target may be faster than shown.",
        severity="warning",
        why="The client’s control group limited the load, not only the target.",
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "never-written",
        "never written",
        "Some data that was read had never been written: holes, unwritten extents, or blocks of "
        "one repeated byte.",
        severity="warning",
        why=(
            "Reads of data that was never written need no medium: a target that is full of data is "
            "slower."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "medium-unproven",
        "medium unproven",
        "It is not known whether the medium served the I/O: no counter shows it.",
        severity="note",
        why="Without a counter it is not known whether the device or a cache served the I/O.",
        caveat=True,
        claims=True,
    ),
)
_OUTCOMES = (
    FlagMeaning(
        "not-steady",
        "not steady",
        "Throughput was not steady over the measure window.",
        severity="warning",
        why="Throughput drifted over the window: another window would give another number.",
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "not-preconditioned",
        "not preconditioned",
        "Preconditioning ended before the target was in a steady state.",
        severity="warning",
        why=(
            "The target had not reached its steady state when the runs began: later runs may be "
            "slower, and the ratio may change with them."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "rounds-not-steady",
        "rounds not steady",
        "The rounds ended before the tracked metric was steady over five of them.",
        severity="warning",
        why=(
            "The target was still changing in the last rounds: more rounds may give other numbers, "
            "and the ratio may change with them."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "drift-between-repeats",
        "drift",
        "The repeats changed with their order in time, by a step or a trend: their mean is not "
        "representative of any time.",
        severity="warning",
        why=(
            "The target changed between the repeats (burst credits, caches, heat): their mean "
            "describes neither its first state nor its last."
        ),
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "verify-failed",
        "wrong data",
        "Verification found data that differs from what had been written.",
        severity="warning",
        why=(
            "Blocks did not contain what had been acknowledged: rates of a target that loses data "
            "mean little."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "embedded-server",
        "embedded server",
        "The server was storlab’s own small S3 server, over loopback: it shares this machine’s "
        "cores with the load generator, and is not a product.",
        severity="note",
        why=(
            "Server and load generator shared one machine: these are numbers of storlab's own "
            "server on these cores, not of a product."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "tls-unverified",
        "TLS unverified",
        "The server’s certificate was not verified.",
        severity="note",
        why="It was not checked that the server is the one that the study names.",
        caveat=True,
    ),
    FlagMeaning(
        "open-loop-behind",
        "rate not reached",
        "Overload: the offered rate was not reached. Latency from the intended start then has no "
        "bound: it grows with the length of the run.",
        severity="warning",
        why=(
            "The offered rate was not reached. Latencies from submission are those of the rate "
            "that was reached, and those from the intended start depend on the length of the run."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "unfinished-operations",
        "unfinished I/O",
        "Operations in flight at the end of the window were slow, and so many that they could "
        "raise the 99.9th percentile.",
        severity="warning",
        why=(
            "Operations in flight at the end of the window are not part of percentiles: with a "
            "longer window, high percentiles may be higher."
        ),
        about=("latency_",),
        latencies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "few-operations",
        "few operations",
        "Fewer than ten operations lie above this percentile.",
        latencies=True,
    ),
    FlagMeaning(
        "percentile-per-repeat",
        "not merged",
        "The percentiles of the repeats cannot be merged, because runs have no histogram: the "
        "number is the median of the repeats’ own, with the smallest and largest below it.",
        latencies=True,
    ),
    FlagMeaning(
        "power-not-measured",
        "power missing",
        "The target has a power meter, but its energy was not measured in some runs.",
    ),
    FlagMeaning(
        "engine-note",
        "engine note",
        "The engine reports something that readers should know.",
    ),
)

_CLIENTS = (
    FlagMeaning(
        "late-start",
        "late start",
        "The first I/O of a client came more than 10 ms after the common start.",
        severity="warning",
        why="The clients did not load the target together from the start.",
        caveat=True,
    ),
    FlagMeaning(
        "window-cut",
        "shorter window",
        "The clients were measured together for less than 99.9 % of the window.",
        severity="warning",
        why="Sums are over the part of the window that all clients have in common.",
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "clock-unsure",
        "clock unsure",
        "The offset between the clocks of clients is uncertain by more than 1 ms.",
        severity="note",
        why="The times at which clients started are uncertain.",
    ),
    FlagMeaning(
        "straggler",
        "slow client",
        "A client did less than 0.8 of its fair share.",
        severity="warning",
        why="The sum hides that a client was slower than the others.",
        caveat=True,
    ),
    FlagMeaning(
        "client-limit",
        "client limit",
        "The CPU or the network of a client was more than 90 % busy.",
        severity="warning",
        why="Clients were at their limit: the target may be faster than shown.",
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "client-cache",
        "client cache",
        "Less than 95 % of what a client read came over its network: a cache served the rest.",
        severity="warning",
        why="Reads were served by the memory of clients, not by the target.",
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "network-unseen",
        "network unseen",
        "The counters of data_nics saw less than 1 % of the bytes that each client moved.",
        severity="note",
        why="It is not known whether caches or the network of clients affected the numbers.",
    ),
)
CLIENT_FLAGS = frozenset(meaning.kind for meaning in _CLIENTS)
"""Kinds of flags about clients of a cluster; their messages name the clients."""

_STATE = (
    FlagMeaning(
        "link-degraded",
        "slow PCIe link",
        "The PCIe link of a drive was slower or narrower than drive and slot allow.",
        severity="warning",
        why="The link of a drive was degraded: with its full link the target may be faster.",
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "path-degraded",
        "path down",
        "A path to a drive was down, or no path was optimized (ANA, ALUA).",
        severity="warning",
        why="Not all paths to a drive were in use: the target may be faster than shown.",
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "remote-node",
        "other NUMA node",
        "Workers ran on another NUMA node than the drive for 5 % of the time or more.",
        severity="warning",
        why=(
            "I/O crossed between NUMA nodes, which costs latency and throughput: numa_local = true "
            "in [study] keeps workers near the drive."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "sleeping-cores",
        "sleeping cores",
        "The workers’ cores took up to 5 % of the time or more to wake up from idle states.",
        severity="warning",
        why=(
            "Latencies include the time in which a core wakes up: with shallower idle states they "
            "may be shorter."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "slow-cores",
        "slow cores",
        "The workers’ cores ran at less than 80 % of their base frequency.",
        severity="warning",
        why=(
            "Slow cores lengthen latencies and may limit throughput: a governor, a power limit or "
            "heat held them back."
        ),
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "memory-pressure",
        "short of memory",
        "Programs on the client waited for memory in 10 % of the time or more.",
        severity="warning",
        why="The client was short of memory: the target may be faster than shown.",
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "machine-changed",
        "machine changed",
        "The CPU’s settings or the drive’s settings or link differed from those at the start of "
        "the campaign.",
        severity="warning",
        why=(
            "The machine changed during the campaign: runs before and after the change are not "
            "repeats of one another."
        ),
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "throttled",
        "throttled",
        "The drive slowed itself down because of heat.",
        severity="warning",
        why="The drive was too hot to work at full speed: cooled better, it would be faster.",
        energies=True,
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "media-errors",
        "media errors",
        "The drive reported media errors during the run.",
        severity="warning",
        why="The drive could not read or write some of its data: it may need replacement.",
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "worn",
        "worn",
        "The drive is at the end of its rated endurance, short of spare capacity, or reports that "
        "it is failing.",
        severity="warning",
        why="A worn drive may be slower than one of the same model that is new.",
        caveat=True,
        claims=True,
    ),
    FlagMeaning(
        "link-retrained",
        "link trouble",
        "The drive's link changed its speed or width, was retrained, or had errors corrected "
        "during the run.",
        severity="warning",
        why="Transfers wait while a link is retrained or repeats packets.",
        caveat=True,
        claims=True,
    ),
)
STATE_FLAGS = frozenset(meaning.kind for meaning in _STATE)
"""Kinds of flags about the state of drives and machine: possible causes of a change over time."""


def flag_meanings() -> Mapping[str, FlagMeaning]:
    """Return the meaning of every kind of flag, in the order in which legends list them.

    Flags about conditions that distort a measurement come first, followed by flags about clients,
    flags of single families, and flags about results.
    """
    return _meanings(tuple(FAMILIES))


@cache
def _meanings(kinds: tuple[str, ...]) -> Mapping[str, FlagMeaning]:
    own = [meaning for kind in kinds for meaning in FAMILIES[kind].page.flags]
    every = (*_CONDITIONS, *_STATE, *_CLIENTS, *own, *_OUTCOMES)
    return {meaning.kind: meaning for meaning in every}
