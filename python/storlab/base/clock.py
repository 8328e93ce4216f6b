"""Read clocks and wait: the only Python module that may (Rust: ``crates/base/src/clock.rs``)."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def monotonic_ns() -> int:
    """Return CLOCK_MONOTONIC in ns, the clock of a run, as used by the native engine's samples."""
    return time.monotonic_ns()


def wall_at_ns(time_ns: int) -> int:
    """Convert a CLOCK_MONOTONIC time to CLOCK_REALTIME (ns since 1970), by their present offset.

    If the wall clock is set between two calls, their results for the same time differ by the step.
    """
    readings = []
    for _ in range(3):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return time_ns + min(readings)[1]


def utc_now_iso() -> str:
    """Return the current UTC time in ISO 8601: ``2026-11-20T11:30:00.123+00:00``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def utc_stamp() -> str:
    """Return the current UTC time in a form for file names: ``20261120t113000z``."""
    return datetime.now(UTC).strftime("%Y%m%dt%H%M%Sz")


def sleep_s(seconds: float) -> None:
    """Wait at least this many seconds; return at once if zero or negative."""
    if seconds > 0:
        time.sleep(seconds)
