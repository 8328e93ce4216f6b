"""Base class of workload families whose runs do I/O in existing files or devices."""

from __future__ import annotations

from storlab.base.units import NS_PER_S
from storlab.contracts.family import Workload
from storlab.model.study import Header


class InPlace(Workload):
    """Base class of a workload family whose runs do I/O in files that storlab wrote before."""

    fixed_work = False
    places: tuple[str, ...] = ("path", "paths", "directory")


def window_and_written(
    header: Header,
    total_bytes: int | None,
    rated_bytes_s: float | None,
    assumed_bytes_s: float,
    write_percent: float,
) -> tuple[int, int | None]:
    """Estimate the length of a measure window in ns, and the bytes written in ramp and window.

    Args:
        header: Settings of the study, with ramp and run time.
        total_bytes: Bytes after which the window ends; None if it ends after the run time.
        rated_bytes_s: Rate of an open loop in bytes/s; None for a closed loop.
        assumed_bytes_s: Rate in bytes/s to assume if ``total_bytes`` ends the window.
        write_percent: Percentage of the bytes that are written.

    Returns:
        The bytes are None if neither a rate nor ``total_bytes`` limits them.
    """
    bytes_s = assumed_bytes_s if rated_bytes_s is None else rated_bytes_s
    window_ns = header.runtime if total_bytes is None else round(total_bytes / bytes_s * NS_PER_S)
    if write_percent == 0:
        return window_ns, 0
    if total_bytes is None and rated_bytes_s is None:
        return window_ns, None
    in_window = bytes_s * window_ns / NS_PER_S if total_bytes is None else total_bytes
    return window_ns, round((bytes_s * header.ramp / NS_PER_S + in_window) * write_percent / 100)
