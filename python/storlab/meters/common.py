"""Helpers shared by meters: take time stamps, and read files of sysfs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from storlab.base.clock import monotonic_ns

ValueT = TypeVar("ValueT")


class MidpointTimer:
    """Stamps each read of a value with the middle of its duration on the run's clock."""

    def __init__(self) -> None:
        self.uncertainty_ns = 0  # half of the longest read so far

    def read(self, take: Callable[[], ValueT]) -> tuple[ValueT, int]:
        """Call ``take``; return its result and the middle of the call in ns of CLOCK_MONOTONIC."""
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
    """Return the integer in a sysfs file, or None if the file is unreadable or has another text."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def listed(names: Iterable[str]) -> str:
    """Return the names in alphabetical order, separated by commas, or "none"."""
    return ", ".join(sorted(names)) or "none"
