"""Services that one workload family provides for all others.

Storlab fills files, preconditions targets, rereads written data and empties buckets for any family.
The jobs for that are built by the first registered family that has the methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from storlab.base.errors import EngineError
from storlab.contracts.family import Workload
from storlab.contracts.registry import FAMILIES
from storlab.model.job import Job, Member, RereadJob
from storlab.model.s3 import S3Access
from storlab.model.study import Precondition, Target

T = TypeVar("T")


@runtime_checkable
class FillsMembers(Protocol):
    """Interface of workload families that can fill the files and devices of a target."""

    def fill_job(self, member: Member, grain: int, *, direct: bool, seed: int) -> Job:
        """Return a job that fills a file or device with incompressible data.

        Each write has ``grain`` bytes.
        """
        ...

    def overwrite_job(
        self, target: Target, spec: Precondition, members: Sequence[Member], seed: int
    ) -> Job:
        """Return a job of one preconditioning round: overwrite files or devices at random."""
        ...


@runtime_checkable
class RereadsMembers(Protocol):
    """Interface of workload families that can reread and verify the data of stored jobs."""

    def stored_job(self, content: bytes) -> RereadJob:
        """Load a job that ``Job.stored`` wrote; raise pydantic's ValidationError if invalid."""
        ...


@runtime_checkable
class ClearsBuckets(Protocol):
    """Interface of workload families that can delete objects from buckets."""

    def clear(self, access: S3Access, below: str) -> Job:
        """Return a job that deletes all objects and incomplete uploads below a prefix.

        ``below`` is the prefix; it ends with a slash.
        """
        ...


def dividing_family(kind: str) -> Workload | None:
    """Return the workload family ``kind`` if clients can divide its work, otherwise None."""
    family = FAMILIES[kind]
    return family if family.pieces_word else None


def kept_in_buckets() -> tuple[frozenset[str], frozenset[str]]:
    """Return the first words of object names of all families: of data sets, and of run output."""
    data = frozenset(top for family in FAMILIES.values() for top in family.data_tops)
    return data, frozenset(top for family in FAMILIES.values() for top in family.run_tops)


def fills_members() -> FillsMembers:
    """Return the family that fills files and devices; raise EngineError if there is none."""
    return _first((f for f in FAMILIES.values() if isinstance(f, FillsMembers)), "fill files")


def rereads_members() -> RereadsMembers:
    """Return the family that rereads stored jobs; raise EngineError if there is none."""
    families = (f for f in FAMILIES.values() if isinstance(f, RereadsMembers))
    return _first(families, "reread the data of runs")


def clears_buckets() -> ClearsBuckets:
    """Return the family that empties buckets; raise EngineError if there is none."""
    return _first((f for f in FAMILIES.values() if isinstance(f, ClearsBuckets)), "empty buckets")


def _first(families: Iterator[T], what: str) -> T:
    for family in families:
        return family
    problem = f"no installed workload family can {what}"
    raise EngineError("families", problem, "reinstall storlab")
