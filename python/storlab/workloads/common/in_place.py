"""Base of families that do I/O in existing files and devices, for a time or a number of bytes."""

from __future__ import annotations

from storlab.base.units import NS_PER_S
from storlab.contracts.family import Workload
from storlab.model.study import Header


class InPlace(Workload):
    """Base of a family whose files the lab lays out; a run does not change their size."""

    fixed_work = False
    places: tuple[str, ...] = ("path", "paths", "directory")


def window_and_written(
    header: Header,
    total_bytes: int | None,
    rated_bytes_s: float | None,
    assumed_bytes_s: float,
    write_percent: float,
) -> tuple[int, int | None]:
    """Return the length of a window in ns, and the bytes that ramp and window write.

    Args:
        header: Common part of the workload table, with ramp and run time.
        total_bytes: Bytes that end the window; None if the run time ends it.
        rated_bytes_s: Rate of an open loop in bytes/s; None for a closed loop.
        assumed_bytes_s: Rate in bytes/s that estimates the length of a window ended by bytes.
        write_percent: Share of the bytes that are written.

    Returns:
        The bytes are None if neither a rate nor ``total_bytes`` bounds them.
    """
    bytes_s = assumed_bytes_s if rated_bytes_s is None else rated_bytes_s
    window_ns = header.runtime if total_bytes is None else round(total_bytes / bytes_s * NS_PER_S)
    if write_percent == 0:
        return window_ns, 0
    if total_bytes is None and rated_bytes_s is None:
        return window_ns, None
    in_window = bytes_s * window_ns / NS_PER_S if total_bytes is None else total_bytes
    return window_ns, round((bytes_s * header.ramp / NS_PER_S + in_window) * write_percent / 100)
