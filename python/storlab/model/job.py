"""Job: the complete description of one run, as input of an engine.

A workload family builds a job from a point, and every engine that supports the family accepts it.
This module has the fields common to all families.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field

from storlab.base.units import NS_PER_S
from storlab.model.types import Table

LARGEST_IO = 1 << 30  # in bytes; limit of the native engine
MOST_IN_FLIGHT = 65_535  # limit of the native engine
MemberKind = Literal["file", "block_device", "null"]


class Job(Table):
    """Fields common to the jobs of all families; ``kind`` is the family."""

    kind: ClassVar[str]

    version: Literal[1] = 1
    ramp_ns: int = 0
    interval_ns: int = NS_PER_S
    drain_timeout_ns: int = 30_000_000_000
    seed: int = 1

    def stored(self) -> bytes:
        """Return the JSON text of the job to store with a run, without secrets."""
        return (self.model_dump_json(indent=2) + "\n").encode()

    def secrets(self) -> dict[str, str]:
        """Return secrets that the engine needs; they are passed separately and never stored."""
        return {}

    def touches(self) -> list[Member]:
        """Return the files and devices that the job overwrites."""
        return []

    def places(self) -> list[Member]:
        """Return the files and devices that the job reads or writes, for checks of their state."""
        return []


JobT = TypeVar("JobT", bound=Job)


class NamedJob(Table, Generic[JobT]):
    """Name and load of a group."""

    name: str
    job: JobT


class GroupedJob(Job, Generic[JobT]):
    """Job of a run with groups, which put different loads on one target at the same time."""

    groups: list[NamedJob[JobT]] = Field(min_length=1)

    @classmethod
    def of(cls, jobs: Mapping[str, JobT]) -> Self:
        """Join the jobs of groups, which have equal times, by name of the group."""
        first = next(iter(jobs.values()))
        return cls.model_validate(
            {
                "groups": [{"name": name, "job": job} for name, job in jobs.items()],
                "ramp_ns": first.ramp_ns,
                "interval_ns": first.interval_ns,
                "drain_timeout_ns": first.drain_timeout_ns,
                "seed": first.seed,
            }
        )

    def secrets(self) -> dict[str, str]:
        """Return the secrets of the first group's job; all groups use the same target."""
        return self.groups[0].job.secrets()


class Member(Table):
    """File or device of a target; a job uses its bytes ``[offset, offset + size)``."""

    path: str  # path to open; /proc/PID/fd/N if the guard holds the device
    name: str  # name for messages
    kind: MemberKind
    size: int = Field(gt=0)
    offset: int = Field(default=0, ge=0)


class WeightedSize(Table):
    """Block size in bytes, with its relative frequency."""

    bytes: int = Field(gt=0)
    weight: float = Field(default=1.0, gt=0)


class RereadJob(Job, ABC):
    """Job that records which blocks it wrote in verify mode, so that they can be reread later."""

    members: list[Member] = Field(min_length=1)

    def places(self) -> list[Member]:
        """Return all files and devices of the job."""
        return self.members

    @property
    @abstractmethod
    def state(self) -> str | None:
        """Return the path of the file that records written blocks; None without verify mode."""

    @abstractmethod
    def with_state(self, path: Path) -> Self:
        """Return the job, set to record written blocks in ``path``; only valid in verify mode."""


class CheckedJob(Job, ABC):
    """Job that checks its files before the load, except files that an earlier run has checked."""

    @abstractmethod
    def remembering(self, path: Path) -> Self:
        """Return the job, set to keep its list of checked files and devices at ``path``."""


class Arrival(Table):
    """Arrival of operations: closed loop, or open loop with ``rate_iops`` per second in total."""

    kind: Literal["closed", "constant", "poisson"] = "closed"
    rate_iops: float | None = None
