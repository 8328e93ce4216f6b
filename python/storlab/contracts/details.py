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


class BytesCounted(Told):
    """Bytes by a counter that is read every 50 ms, around the measure window and inside it."""

    read_bytes: int  # from the last reading before the window to the first one after it
    written_bytes: int = 0
    over_ns: int = 0  # between these two readings
    inside_read_bytes: int = 0  # from the first reading in the window to the last one in it
    inside_written_bytes: int = 0
    inside_ns: int = 0  # between those two; 0: fewer than two, or not told


class DeviceMoved(BytesCounted):
    """Bytes that the devices behind a target moved during a run, by whatever program."""

    devices: tuple[str, ...] = ()


class MediumTold(Told):
    """Findings about the layers below a target's files or devices, in clauses for messages."""

    memory: tuple[str, ...] = ()  # layers that are memory
    cached: tuple[str, ...] = ()  # layers that go through the page cache
    unknown: tuple[str, ...] = ()  # why devices are not known
    holes: tuple[str, ...] = ()  # files with a share that was never written
    blank: tuple[str, ...] = ()  # members whose sampled blocks held one repeated byte
    unsampled: tuple[str, ...] = ()  # why no blocks were sampled before reads of them


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
    process: BytesCounted | None = None  # what the load's process asked block devices for
    medium: MediumTold | None = None  # None: not looked for
    stages: tuple[StageTimes, ...] = ()  # that were finished

    @classmethod
    def of(cls, run: HasDetails) -> Self:
        """Of a run. Raises pydantic's ValidationError."""
        return cls.model_validate(run.details)
