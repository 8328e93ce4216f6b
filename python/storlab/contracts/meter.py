"""Interfaces of meters, which read power or energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from storlab.model.power import Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target


@dataclass(frozen=True, slots=True)
class Discovered:
    """Meter that this machine has or could have."""

    kind: str
    sensor: str
    available: bool
    rate: str  # "1 Hz", "on request"
    accuracy: str
    privilege: str  # privilege to read it: "root", "group video", "none"
    how: str  # how to use it in a study, or to make it available


class Meter(Protocol):
    """Open meter; all methods except ``close`` are called from one dedicated thread."""

    def describe(self) -> list[SensorInfo]:
        """Return the sensors of the meter."""
        ...

    def sample(self) -> list[Reading]:
        """Read all sensors, with times on the run's clock; raise MeterError if a sensor is gone."""
        ...

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return readings available only after a run (declared, imported); usually empty."""
        ...

    def close(self) -> None:
        """Release resources, and restore settings."""
        ...


class MeterModule(Protocol):
    """Interface of each module with a meter kind."""

    def discover(self) -> list[Discovered]:
        """Return the meters of this machine without raising; ``how`` explains what is missing."""
        ...

    def open_meter(self, spec: MeterSpec, target: Target) -> Meter:
        """Open a meter for a study; raise MeterError, or StudyError for invalid fields."""
        ...
