"""Only module in Python that reads time or waits (in Rust: ``crates/base/src/clock.rs``)."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def monotonic_ns() -> int:
    """Return the run's clock in ns: CLOCK_MONOTONIC, which also stamps native samples."""
    return time.monotonic_ns()


def wall_at_ns(time_ns: int) -> int:
    """Convert a time of the run's clock to CLOCK_REALTIME (ns since 1970), by their present offset.

    If the wall clock was set since then, the result includes that step, so comparing two calls
    detects it.
    """
    readings = []
    for _ in range(3):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return time_ns + min(readings)[1]


def utc_now_iso() -> str:
    """Return the time in UTC as ISO 8601 with milliseconds: ``2026-11-20T11:30:00.123+00:00``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def utc_stamp() -> str:
    """Return the time in UTC in a form for file names: ``20261120t113000z``."""
    return datetime.now(UTC).strftime("%Y%m%dt%H%M%Sz")


def sleep_s(seconds: float) -> None:
    """Wait at least this many seconds; return at once if zero or negative."""
    if seconds > 0:
        time.sleep(seconds)
