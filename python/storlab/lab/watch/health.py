"""Health of a target's drives, read before and after the load of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from storlab.health.drives import compared, read_drives
from storlab.health.evidence import health_flags
from storlab.health.reading import HealthReading
from storlab.model.result import RunOutcome
from storlab.stores.drives import Drive


class HealthWatch:
    """Readings of the health of drives at both ends of a ``with`` block.

    Args:
        drives: Drives below the target.
    """

    def __init__(self, drives: Sequence[Drive]) -> None:
        self._drives = list(drives)
        self._before: dict[str, HealthReading] = {}
        self._after: dict[str, HealthReading] = {}

    def __enter__(self) -> Self:
        self._before = read_drives(self._drives)
        return self

    def __exit__(self, *_: object) -> None:
        self._after = read_drives(self._drives)

    def judge(
        self, outcome: RunOutcome, celsius: Mapping[str, Sequence[tuple[int, float]]]
    ) -> None:
        """Add the health of the drives to a run's details, and the flags that follow from it.

        Call it after the ``with`` block.

        Args:
            outcome: Outcome of the run.
            celsius: Times and temperatures read during the run, by drive.
        """
        drives = list(compared(self._before, self._after, celsius))
        if drives:
            outcome.details["health"] = [drive.model_dump(mode="json") for drive in drives]
            outcome.flags += health_flags(drives)
