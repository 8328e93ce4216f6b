"""The only place where Python reads time or waits (in Rust: ``crates/base/src/clock.rs``)."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def monotonic_ns() -> int:
    """The run's clock in ns: CLOCK_MONOTONIC, the one the native engine stamps its samples with."""
    return time.monotonic_ns()


def wall_at_ns(time_ns: int) -> int:
    """CLOCK_REALTIME (ns since 1970) at a moment of the run's clock, as the two stand now.

    A step of the wall clock since then is included: compare two calls to find one.
    """
    readings = []
    for _ in range(3):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return time_ns + min(readings)[1]


def utc_now_iso() -> str:
    """Now in UTC as ISO 8601 with milliseconds: ``2026-11-20T11:30:00.123+00:00``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def utc_stamp() -> str:
    """Now in UTC, fit for a file name: ``20261120t113000z``."""
    return datetime.now(UTC).strftime("%Y%m%dt%H%M%Sz")


def sleep_s(seconds: float) -> None:
    """Wait at least this many seconds; a negative or zero time returns at once."""
    if seconds > 0:
        time.sleep(seconds)
