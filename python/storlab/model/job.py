"""The engine's order: everything one run needs, with nothing left to decide.

A workload makes a job of its family from a point; every engine that knows the family takes it. This
file has what all families share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field

from storlab.base.units import NS_PER_S
from storlab.model.types import Table

LARGEST_IO = 1 << 30  # of the engine, in bytes
MOST_IN_FLIGHT = 65_535  # of the engine
MemberKind = Literal["file", "block_device", "null"]


class Job(Table):
    """What the orders of all families share. ``kind`` tells an engine which family it is."""

    kind: ClassVar[str]

    version: Literal[1] = 1
    ramp_ns: int = 0
    interval_ns: int = NS_PER_S
    drain_timeout_ns: int = 30_000_000_000
    seed: int = 1

    def stored(self) -> bytes:
        """As it is kept beside a run. A job holds no secret in any field that is dumped."""
        return (self.model_dump_json(indent=2) + "\n").encode()

    def secrets(self) -> dict[str, str]:
        """What the engine needs and nobody may store: handed over apart from the order."""
        return {}

    def touches(self) -> list[Member]:
        """Files and devices that it writes to; what they held is then gone."""
        return []

    def places(self) -> list[Member]:
        """Return the files and devices of which its measured I/O is, to be judged by them."""
        return []


class Member(Table):
    """One file or device of a target. The job touches ``[offset, offset + size)`` bytes of it."""

    path: str  # what to open; /proc/PID/fd/N where the guard holds the device
    name: str  # what to call it in messages
    kind: MemberKind
    size: int = Field(gt=0)
    offset: int = Field(default=0, ge=0)


class WeightedSize(Table):
    """A block size in bytes and how often it is drawn, relative to the others."""

    bytes: int = Field(gt=0)
    weight: float = Field(default=1.0, gt=0)


class RereadJob(Job, ABC):
    """A job whose run keeps a record of what it wrote, in verify mode, to be read again by."""

    members: list[Member] = Field(min_length=1)

    def places(self) -> list[Member]:
        """Return all members."""
        return self.members

    @property
    @abstractmethod
    def state(self) -> str | None:
        """The file of that record; None: nothing is to be read again."""

    @abstractmethod
    def with_state(self, path: Path) -> Self:
        """The same job with its record in that file. Of a job in verify mode."""


class CheckedJob(Job, ABC):
    """A job that checks its members before its load, but those that an earlier run did."""

    @abstractmethod
    def remembering(self, path: Path) -> Self:
        """The same job, which keeps in that file what was checked."""


class Arrival(Table):
    """Closed loop, or open loop at ``rate_iops`` operations per second over all jobs."""

    kind: Literal["closed", "constant", "poisson"] = "closed"
    rate_iops: float | None = None
