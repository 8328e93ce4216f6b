"""What an engine tells of a run that only its family knows, typed: the base of each family's model.

A result keeps it as plain JSON (``RunRecord.details``); a family reads it as its own model, which
is also checked when a stored run is read. Fields that it does not know are kept: a newer storlab,
or another engine, may tell more. Fields that older versions did not tell have defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from pydantic import BaseModel, ConfigDict


class HasDetails(Protocol):
    """An outcome or a record."""

    @property
    def details(self) -> Mapping[str, Any]:
        """As JSON."""
        ...


class Told(BaseModel):
    """A table that an engine or the lab filled in."""

    model_config = ConfigDict(extra="allow", frozen=True)


class DeviceMoved(Told):
    """What the devices behind a target moved while a run went on; others may have used them."""

    read_bytes: int
    written_bytes: int = 0
    over_ns: int = 0
    devices: tuple[str, ...] = ()


class StageTimes(Told):
    """One stage of work that consists of them, one after the other. Clock readings in ns.

    Of a run that failed not every engine tells all of it.
    """

    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    rows: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    cpu_ns: int = 0
    peak_memory_bytes: int = 0
    parts: int = 0  # that it makes one by one
    resumed_parts: int = 0  # of these, what an earlier process had done
    tasks: int = 0  # that workers take side by side; 0: as many as parts
    passes: int = 1  # over its input
    device_read_bytes: int | None = None  # None: nobody counted it
    device_written_bytes: int | None = None


class Details(Told):
    """What every family's details may have."""

    device: DeviceMoved | None = None
    # Parts of the machine that were stand-ins, each as a reason why nothing of the run is measured.
    stand_ins: tuple[str, ...] = ()
    stages: tuple[StageTimes, ...] = ()  # that were finished

    @classmethod
    def of(cls, run: HasDetails) -> Self:
        """Of a run. Raises pydantic's ValidationError."""
        return cls.model_validate(run.details)
