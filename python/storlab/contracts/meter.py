"""Interfaces of power meters, which read power or energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target


@dataclass(frozen=True, slots=True)
class Discovered:
    """Power meter that this machine has, or that is unavailable for a reason given in ``how``."""

    kind: str
    sensor: str
    available: bool
    rate: str  # "1 Hz", "on request"
    accuracy: str
    privilege: str  # privilege to read it: "root", "group video", "none"
    how: str  # how to use it in a study, or to make it available


class Meter(Protocol):
    """Open power meter; all methods except ``close`` are called from one dedicated thread."""

    def describe(self) -> list[SensorInfo]:
        """Return descriptions of the meter's sensors."""
        ...

    def sample(self) -> list[Reading]:
        """Read all sensors, with times on the run's clock; raise MeterError if a sensor is gone."""
        ...

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return readings that are only available after a run (declared, imported), if any."""
        ...

    def close(self) -> None:
        """Release the meter's resources, and restore settings that it changed."""
        ...


class MeterModule(Protocol):
    """Interface of a module that supports one kind of power meter."""

    # Equipment that a reading includes unless the study states another; without it, the default of
    # MeterSpec.boundary.
    BOUNDARY: Boundary

    def discover(self) -> list[Discovered]:
        """List the meters of this machine, including unavailable ones; never raise an error."""
        ...

    def open_meter(self, spec: MeterSpec, target: Target) -> Meter:
        """Open a meter for a study; raise MeterError, or StudyError for invalid fields."""
        ...
