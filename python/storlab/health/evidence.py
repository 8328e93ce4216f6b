"""Judge what drives reported before and after a run: flags, and write amplification."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storlab.base.units import NS_PER_S, format_duration
from storlab.contracts.details import DriveHealth
from storlab.model.result import Flag, Metric

BUFFER_BYTES = 64_000_000
"""Data that a drive may hold in its buffer at either reading, accepted but not on the medium.

It is what the capacitors of drives with power-loss protection let them write after a power failure
(tens of megabytes), taken generously.
"""
MOST_RESOLUTION = 0.1
"""Largest resolution of a write amplification, as a share of it, with which it is stated."""
_WORN_PERCENT = 100
_SPARE_LOW, _DEGRADED, _READ_ONLY = 1, 4, 8  # bits of the critical warning of log 02h


@dataclass(frozen=True, slots=True)
class WriteAmplification:
    """Bytes that drives wrote to their media per byte that they were given, over the same span."""

    ratio: float
    resolution: float  # smallest difference of the ratio that the counters can show


def write_amplification(drives: Iterable[DriveHealth]) -> WriteAmplification | None:
    """Return the write amplification of drives over all their runs.

    The resolution is one step of each counter and a full buffer per drive and run, divided by the
    bytes given to the drives. A counter's step is the largest number that divides both readings.

    Returns:
        None if a drive has no such counters, or too little was written for the resolution.
    """
    host = media = host_step = media_step = spans = 0
    for drive in drives:
        given = drive.grown("host_written_bytes")
        written = drive.grown("media_written_bytes")
        if given is None or written is None:
            return None
        host, media, spans = host + int(given), media + int(written), spans + 1
        host_step += _step(drive, "host_written_bytes")
        media_step += _step(drive, "media_written_bytes")
    if not host or not media:
        return None
    ratio = media / host
    resolution = (host_step * ratio + media_step + spans * BUFFER_BYTES) / host
    return WriteAmplification(ratio, resolution) if resolution <= MOST_RESOLUTION * ratio else None


def _step(drive: DriveHealth, name: str) -> int:
    return math.gcd(int(drive.before[name]), int(drive.after[name]))


def health_metrics(drives: Iterable[DriveHealth]) -> list[Metric]:
    """Return the write amplification of a run as a list of at most one metric."""
    found = write_amplification(drives)
    if found is None:
        return []
    uncertainty = found.resolution / math.sqrt(12)
    return [
        Metric(name="write_amplification", value=found.ratio, unit="1", uncertainty=uncertainty)
    ]


def health_flags(drives: Iterable[DriveHealth]) -> list[Flag]:
    """Return the flags of a run that follow from the health of its drives, one for each kind."""
    texts: dict[str, list[str]] = {}
    for drive in drives:
        for kind, judge in _JUDGES.items():
            if found := ", ".join(judge(drive)):
                texts.setdefault(kind, []).append(f"{drive.drive} {found}")
    return [Flag(kind=kind, message="; ".join(parts)) for kind, parts in texts.items()]


def _throttled(drive: DriveHealth) -> Iterator[str]:
    for level in ("light", "heavy"):
        begun = drive.grown(f"{level}_throttles") or 0
        seconds = drive.grown(f"{level}_throttled_s") or 0
        if begun or seconds:
            length = format_duration(int(seconds) * NS_PER_S)
            yield f"began {level} thermal throttling {begun:,} times, {length} in all"
    if count := drive.grown("throttles"):
        yield f"throttled itself {count:,} times because of heat"
    level_now = max(values.get("throttle_level", 0) for values in (drive.before, drive.after))
    if level_now:
        yield f"reports that it is throttled because of heat (level {level_now})"


def _media_errors(drive: DriveHealth) -> Iterator[str]:
    if count := drive.grown("media_errors"):
        yield f"reported {count:,} media errors during the run"
    if count := drive.grown("uncorrectable_read_errors"):
        yield f"could not correct {count:,} reads during the run"


def _worn(drive: DriveHealth) -> Iterator[str]:
    now = {**drive.before, **drive.after}
    used, spare = now.get("percentage_used"), now.get("spare_percent")
    least, bits = now.get("spare_threshold_percent", 0), int(now.get("warning_bits", 0))
    if used is not None and used >= _WORN_PERCENT:
        yield f"has used {used:.0f} % of its rated endurance"
    if spare is not None and (bits & _SPARE_LOW or spare < least):
        yield f"has {spare:.0f} % of its spare capacity left (its threshold is {least:.0f} %)"
    if bits & _DEGRADED:
        yield "reports that its reliability is degraded"
    if bits & _READ_ONLY:
        yield "has become read-only"
    if now.get("failing"):
        yield "reports that it is about to fail"


def _link(drive: DriveHealth) -> Iterator[str]:
    before, after = (
        (values.get("link_gt_s"), values.get("link_lanes"))
        for values in (drive.before, drive.after)
    )
    if None not in (*before, *after) and before != after:
        yield f"changed its PCIe link from {_link_text(*before)} to {_link_text(*after)}"
    if count := drive.grown("link_retrainings"):
        yield f"had its PCIe link retrained {count:,} times"
    names = "pcie_correctable_errors", "link_corrected_errors"  # by the drive, by the kernel
    if count := max(drive.grown(name) or 0 for name in names):
        yield f"had {count:,} errors corrected on its PCIe link"
    if count := drive.grown("interface_errors"):
        yield f"had {count:,} checksum errors on its interface"


def _link_text(speed: float | None, lanes: float | None) -> str:
    return f"{speed:g} GT/s x{lanes:.0f}"


_JUDGES = {
    "throttled": _throttled,
    "media-errors": _media_errors,
    "worn": _worn,
    "link-retrained": _link,
}
