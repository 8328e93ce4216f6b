"""Judge whether the medium, rather than a cache, served the I/O of a run.

docs/method defines the states: proven, unproven and contradicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from storlab.base.units import NS_PER_MS, format_bytes_si, format_duration
from storlab.contracts.details import BytesCounted, Details, DeviceMoved, MediumFindings
from storlab.model.result import Flag, Proof, RunOutcome
from storlab.model.target import Target
from storlab.workloads.common.metrics import bytes_moved, window_ns

LEAST_SHARE = 0.9
"""Smallest share of a run's bytes that a device's or process's counter must confirm."""
HALF = 0.5
"""If a counter has less than this fraction of a run's bytes, it contradicts the run.

The count is scaled to the window first, and must span at most twice the length of the window.
"""
PAGE_CACHE, DEVICE_BYTES = "page-cache", "device-bytes"
NEVER_WRITTEN, UNPROVEN = "never-written", "medium-unproven"
PAGE_CACHE_UNKNOWN = "it is unknown whether this I/O bypassed the page cache"
NO_COUNTER = "no counter covers the measure window"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Reason why the medium may not, or certainly did not, serve the I/O of a run."""

    flag: str
    state: Literal["unproven", "contradicted"]
    reason: str


def medium_proof(target: Target, outcome: RunOutcome) -> Proof | None:
    """Judge whether the medium served the bytes of a run.

    None if the run moved no bytes, or if nothing is known about its medium.
    """
    if not bytes_moved(outcome, ("read", "write")):
        return None
    return proof_by(medium_evidence(target, outcome), outcome)


def proof_by(evidence: Iterable[Evidence], outcome: RunOutcome) -> Proof | None:
    """Judge a run by evidence that its medium did not serve it; None if the medium is unknown."""
    return None if Details.of(outcome).medium is None else judged(evidence)


def judged(evidence: Iterable[Evidence]) -> Proof:
    """Return the proof of a run: the worst state in the evidence, with all reasons."""
    found = list(evidence)
    states = {one.state for one in found}
    return Proof(
        state=next((s for s in ("contradicted", "unproven") if s in states), "proven"),
        reasons=[one.reason for one in found],
    )


def medium_flags(target: Target, outcome: RunOutcome, *, by_process: bool = True) -> list[Flag]:
    """Return a flag for each kind of evidence that the medium did not serve the I/O of a run.

    Args:
        target: Target of the run.
        outcome: Outcome of the run.
        by_process: Whether to use the kernel's I/O counters of the load generator's process.
    """
    return flags_by(medium_evidence(target, outcome, by_process=by_process))


def flags_by(evidence: Iterable[Evidence]) -> list[Flag]:
    """Convert evidence to flags: one per kind, with all reasons of that kind."""
    reasons: dict[str, list[str]] = {}
    for one in evidence:
        reasons.setdefault(one.flag, []).append(one.reason)
    if len(reasons) > 1:
        reasons.pop(UNPROVEN, None)  # other flags give more specific reasons
    return [Flag(kind=kind, message="; ".join(texts)) for kind, texts in reasons.items()]


def layer_evidence(outcome: RunOutcome, *, counted: bool) -> Iterator[Evidence]:
    """Yield evidence from the storage layers below a run's files, such as a file system in memory.

    It is for families that compare the devices' byte counters with the I/O by rules of their own,
    and replaces ``medium_evidence`` there.

    Args:
        outcome: Outcome of the run.
        counted: Whether the devices' bytes were counted; if not, this is evidence, too.
    """
    medium = Details.of(outcome).medium
    if medium is None:
        return
    yield from _layers(medium, reads=False)
    if Details.of(outcome).page_cache_unknown:
        yield Evidence(UNPROVEN, "unproven", PAGE_CACHE_UNKNOWN)
    for clause in medium.unknown:
        yield Evidence(UNPROVEN, "unproven", clause)
    if not (counted or medium.unknown or medium.memory):
        yield Evidence(UNPROVEN, "unproven", NO_COUNTER)


def medium_evidence(
    target: Target, outcome: RunOutcome, *, by_process: bool = True
) -> Iterator[Evidence]:
    """Yield all evidence that a cache or other layer, not the medium, served the I/O of a run.

    Args:
        target: Target of the run.
        outcome: Outcome of the run.
        by_process: Whether to use the kernel's I/O counters of the load generator's process.
    """
    if target.is_null:
        return
    details = Details.of(outcome)
    medium = details.medium
    in_memory = medium is not None and bool(medium.memory)
    if details.page_cache_unknown:
        yield Evidence(UNPROVEN, "unproven", PAGE_CACHE_UNKNOWN)
    elif not target.direct and not in_memory:
        text = "direct = false: memory may have served this I/O, not the device"
        yield Evidence(PAGE_CACHE, "unproven", text)
    if medium is not None:
        yield from _layers(medium, reads=bool(bytes_moved(outcome, ("read",))))
    if target.direct and not in_memory and bytes_moved(outcome, ("read", "write")):
        yield from _counters(outcome, details, by_process=by_process)


def _layers(medium: MediumFindings, *, reads: bool) -> Iterator[Evidence]:
    for clause in medium.memory:
        yield Evidence(PAGE_CACHE, "contradicted", f"{clause}: no drive served this I/O")
    for clause in medium.cached:
        text = f"{clause}: memory may have served this I/O"
        yield Evidence(PAGE_CACHE, "unproven", text)
    for clause in medium.holes if reads else ():
        yield Evidence(NEVER_WRITTEN, "contradicted", f"{clause}: reads of it need no medium")
    for clause in medium.blank if reads else ():
        text = f"{clause}: a drive can answer such reads without its medium"
        yield Evidence(NEVER_WRITTEN, "unproven", text)
    for clause in medium.unsampled if reads else ():
        yield Evidence(UNPROVEN, "unproven", clause)


def _counters(outcome: RunOutcome, details: Details, *, by_process: bool) -> Iterator[Evidence]:
    if details.medium is not None and details.medium.unknown:
        # Another program or machine may do the I/O, which the counters of the load generator's
        # process do not include.
        yield from (Evidence(UNPROVEN, "unproven", clause) for clause in details.medium.unknown)
        return
    counts: list[list[Evidence]] = []
    if details.device is not None:
        counts.append(list(_counted(outcome, _device_name(details.device), details.device)))
    if details.process is not None and by_process:
        counts.append(list(_counted(outcome, "the kernel's counter of the load", details.process)))
    against = [one for found in counts for one in found if one.state == "contradicted"]
    yield from against
    if details.medium is None or against:
        return
    if counts:
        yield from counts[-1]  # prefer the process's counter: it excludes other programs
    else:
        yield Evidence(UNPROVEN, "unproven", NO_COUNTER)


def _device_name(device: DeviceMoved) -> str:
    return f"the counter of {', '.join(device.devices) or 'the device'}"


def _counted(outcome: RunOutcome, name: str, counter: BytesCounted) -> Iterator[Evidence]:
    """Compare bytes that a run read and wrote with a counter; yield evidence if it has fewer."""
    window = window_ns(outcome)
    for operation, done, cause, around, inside in (
        ("read", "read", "a cache, holes, blocks that were never written or compression may "
         "have served", counter.read_bytes, counter.inside_read_bytes),
        ("write", "written", "a cache or compression may have taken",
         counter.written_bytes, counter.inside_written_bytes),
    ):  # fmt: skip
        moved = bytes_moved(outcome, (operation,))
        if not moved or window <= 0:
            continue
        most = around + _in_flight(outcome, operation)
        scaled = around * min(1.0, window / counter.over_ns) if counter.over_ns else around
        is_close = counter.over_ns <= 2 * window
        if most < LEAST_SHARE * moved or (is_close and scaled < HALF * moved):
            text = f"{_facts(moved, done, name, round(around))}: {cause} the rest"
            yield Evidence(DEVICE_BYTES, "contradicted", text)
            continue
        if counter.inside_ns * 2 < window:
            text = (
                f"the window of {format_duration(window)} is too short for counters that are read "
                f"every {format_duration(50 * NS_PER_MS)}"
            )
            yield Evidence(UNPROVEN, "unproven", text)
        elif (known := inside * window / counter.inside_ns) < LEAST_SHARE * moved:
            yield Evidence(UNPROVEN, "unproven", _facts(moved, done, name, round(known)))


def _facts(moved: int, done: str, name: str, known: int) -> str:
    return f"{format_bytes_si(moved)} were {done}, but {name} has only {format_bytes_si(known)}"


def _in_flight(outcome: RunOutcome, operation: str) -> float:
    """Estimate the bytes in flight when the window starts.

    A device may have counted them before the window, so its counter may lack them.
    """
    totals = outcome.totals[operation]
    if totals.latency is None or window_ns(outcome) <= 0:
        return 0.0
    return totals.bytes * totals.latency.mean_ns / window_ns(outcome)
