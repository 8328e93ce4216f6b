"""Services that one workload family provides for the points of all families.

Storlab creates files, preconditions targets, rereads written data and empties buckets for the
points of any family. The first registered family with the service builds the jobs for that.
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
    """Family that can write files and devices of a target completely."""

    def fill_job(self, member: Member, grain: int, *, direct: bool, seed: int) -> Job:
        """Return a job that fills a member with incompressible data, ``grain`` bytes at a time."""
        ...

    def overwrite_job(
        self, target: Target, spec: Precondition, members: Sequence[Member], seed: int
    ) -> Job:
        """Return a job that overwrites members randomly for one preconditioning round."""
        ...


@runtime_checkable
class RereadsMembers(Protocol):
    """Family with a verify mode, whose jobs can be reread after their runs, even much later."""

    def stored_job(self, content: bytes) -> RereadJob:
        """Load a job from the output of ``stored``; raise pydantic's ValidationError."""
        ...


@runtime_checkable
class ClearsBuckets(Protocol):
    """Family that can delete objects from buckets."""

    def clear(self, access: S3Access, below: str) -> Job:
        """Return a job that deletes all objects and uploads below a prefix ending with a slash."""
        ...


def dividing_family(kind: str) -> Workload | None:
    """Return the family of a kind if clients divide its work among them, otherwise None."""
    family = FAMILIES[kind]
    return family if family.pieces_word else None


def kept_in_buckets() -> tuple[frozenset[str], frozenset[str]]:
    """Return the object name prefixes of all families: for data sets, and for runs."""
    data = frozenset(top for family in FAMILIES.values() for top in family.data_tops)
    return data, frozenset(top for family in FAMILIES.values() for top in family.run_tops)


def fills_members() -> FillsMembers:
    """Return the family that fills files and devices; raise EngineError if there is none."""
    return _first((f for f in FAMILIES.values() if isinstance(f, FillsMembers)), "lays out files")


def rereads_members() -> RereadsMembers:
    """Return the family that rereads stored jobs; raise EngineError if there is none."""
    families = (f for f in FAMILIES.values() if isinstance(f, RereadsMembers))
    return _first(families, "reads again what runs wrote")


def clears_buckets() -> ClearsBuckets:
    """Return the family that empties buckets; raise EngineError if there is none."""
    return _first((f for f in FAMILIES.values() if isinstance(f, ClearsBuckets)), "clears buckets")


def _first(families: Iterator[T], what: str) -> T:
    for family in families:
        return family
    raise EngineError("families", f"none that is installed {what}", "reinstall storlab")
