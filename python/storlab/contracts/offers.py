"""What a family may offer the lab beside its own runs, each optional: the lab asks who does it.

The lab lays out files, brings targets to a steady state, reads again what was written and clears
buckets, for the points of every family. How such an order looks only a family knows. The first
registered family that offers it makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from storlab.base.errors import EngineError
from storlab.contracts.registry import FAMILIES
from storlab.model.job import Job, Member, RereadJob
from storlab.model.s3 import S3Access
from storlab.model.study import Precondition, Target

T = TypeVar("T")


@runtime_checkable
class FillsMembers(Protocol):
    """Writes files and devices of a target whole."""

    def fill_job(self, member: Member, grain: int, *, direct: bool, seed: int) -> Job:
        """Write a member once from start to end, incompressibly, ``grain`` bytes at a time."""
        ...

    def overwrite_job(
        self, target: Target, spec: Precondition, members: Sequence[Member], seed: int
    ) -> Job:
        """Overwrite members in random order for the time of one round of preconditioning."""
        ...


@runtime_checkable
class RereadsMembers(Protocol):
    """Has a verify mode: its jobs can be read again behind their runs, in a later process too."""

    def stored_job(self, content: bytes) -> RereadJob:
        """A job from what ``stored`` gave. Raises pydantic's ValidationError."""
        ...


@runtime_checkable
class ClearsBuckets(Protocol):
    """Deletes from buckets."""

    def clear(self, access: S3Access, below: str) -> Job:
        """Delete every object and open upload below a prefix that ends with a slash."""
        ...


@runtime_checkable
class KeepsInBuckets(Protocol):
    """Puts something below a campaign's prefix: the first words of it, before a dash."""

    data_tops: tuple[str, ...]  # of data sets: ``<top>-<8 hexadecimal digits>/``
    run_tops: tuple[str, ...]  # of what a run writes: ``<top>-<run id>/``


@runtime_checkable
class StartsStudies(Protocol):
    """Has workload tables for the study that ``storlab init`` writes."""

    def starter_tables(self, files: Sequence[str], device: str | None) -> list[str]:
        """TOML. ``files`` are names of file targets, ``device`` that of a drive, as TOML strings.

        What needs other targets than these files is commented out.
        """
        ...


def starts_studies() -> list[StartsStudies]:
    """All families that do."""
    return [family for family in FAMILIES.values() if isinstance(family, StartsStudies)]


def kept_in_buckets() -> tuple[frozenset[str], frozenset[str]]:
    """Of all families: tops of data sets, and of runs."""
    keepers = [f for f in FAMILIES.values() if isinstance(f, KeepsInBuckets)]
    data = frozenset(top for keeper in keepers for top in keeper.data_tops)
    return data, frozenset(top for keeper in keepers for top in keeper.run_tops)


def fills_members() -> FillsMembers:
    """Raises EngineError where no family does it; as the next two."""
    return _first((f for f in FAMILIES.values() if isinstance(f, FillsMembers)), "lays out files")


def rereads_members() -> RereadsMembers:
    """The family whose stored jobs can be read again."""
    found = (f for f in FAMILIES.values() if isinstance(f, RereadsMembers))
    return _first(found, "reads again what runs wrote")


def clears_buckets() -> ClearsBuckets:
    """The family that deletes from buckets."""
    return _first((f for f in FAMILIES.values() if isinstance(f, ClearsBuckets)), "clears buckets")


def _first(found: Iterator[T], what: str) -> T:
    for family in found:
        return family
    raise EngineError("families", f"none that is installed {what}", "install storlab anew, whole")
