"""What meters share: reads stamped on the run's clock, and files of sysfs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from storlab.base.clock import monotonic_ns

ValueT = TypeVar("ValueT")


class Stopwatch:
    """Stamps reads on the run's clock with their middle, and remembers the slowest one."""

    def __init__(self) -> None:
        self.uncertainty_ns = 0  # half of the longest read so far

    def read(self, take: Callable[[], ValueT]) -> tuple[ValueT, int]:
        """What ``take`` returns, and the time (ns, CLOCK_MONOTONIC) in the middle of it."""
        before = monotonic_ns()
        value = take()
        after = monotonic_ns()
        self.uncertainty_ns = max(self.uncertainty_ns, (after - before + 1) // 2)
        return value, (before + after) // 2


def read_text(path: Path) -> str | None:
    """The stripped text of a file in sysfs; None when it is missing, unreadable or empty."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """The whole number in a file in sysfs; None where there is none."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def listed(names: Iterable[str]) -> str:
    """For messages: the names in order, or "none"."""
    return ", ".join(sorted(names)) or "none"
