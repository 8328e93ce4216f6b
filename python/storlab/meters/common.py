"""Helpers shared by meters: time-stamped reads, and files of sysfs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from storlab.base.clock import monotonic_ns

ValueT = TypeVar("ValueT")


class MidpointTimer:
    """Time stamps for reads on the run's clock, taken in the middle of a read."""

    def __init__(self) -> None:
        self.uncertainty_ns = 0  # half of the longest read so far

    def read(self, take: Callable[[], ValueT]) -> tuple[ValueT, int]:
        """Return the value of ``take`` and the middle of the call on CLOCK_MONOTONIC, in ns."""
        before = monotonic_ns()
        value = take()
        after = monotonic_ns()
        self.uncertainty_ns = max(self.uncertainty_ns, (after - before + 1) // 2)
        return value, (before + after) // 2


def read_text(path: Path) -> str | None:
    """Return the stripped text of a sysfs file, or None if it is missing, unreadable or empty."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """Return the integer in a sysfs file, or None if there is none."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def listed(names: Iterable[str]) -> str:
    """Return the names in order, separated by commas, or "none"."""
    return ", ".join(sorted(names)) or "none"
