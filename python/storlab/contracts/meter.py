"""What reads power or energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from storlab.model.power import Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target


@dataclass(frozen=True, slots=True)
class Discovered:
    """A meter that this machine has, or could have."""

    kind: str
    sensor: str
    available: bool
    rate: str  # "1 Hz", "on request"
    accuracy: str
    privilege: str  # what reading it needs: "root", "group video", "none"
    how: str  # to use it in a study, or to make it available


class Meter(Protocol):
    """An open meter. All methods but ``close`` are called from one thread of the lab's own."""

    def describe(self) -> list[SensorInfo]:
        """Its sensors."""
        ...

    def sample(self) -> list[Reading]:
        """Read now, stamped on the run's clock. Raises MeterError when the sensor is gone."""
        ...

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Readings known only when the run is over (declared, imported); mostly none."""
        ...

    def close(self) -> None:
        """Release what is held, and restore what was set."""
        ...


class MeterModule(Protocol):
    """What each file of this folder offers."""

    def discover(self) -> list[Discovered]:
        """What this machine has. Never raises; says in ``how`` what is missing."""
        ...

    def open_meter(self, spec: MeterSpec, target: Target) -> Meter:
        """Open for a study. Raises MeterError, or StudyError for bad fields."""
        ...
