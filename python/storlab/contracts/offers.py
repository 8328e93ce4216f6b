"""What a family may offer the lab beside its own runs, each optional: the lab asks who does it.

The lab lays out files, brings targets to a steady state, reads again what was written and clears
buckets, for the points of every family. How such an order looks only a family knows. The first
registered family that offers it makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from storlab.base.errors import EngineError, Problem
from storlab.contracts.check import Check
from storlab.contracts.registry import FAMILIES
from storlab.model.job import Job, Member, RereadJob
from storlab.model.point import Point
from storlab.model.result import Proof, RunOutcome
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
class ProvesMedium(Protocol):
    """Judges whether the medium served what a run moved."""

    def proof(self, point: Point, target: Target, outcome: RunOutcome) -> Proof | None:
        """Return the judgement; None if the run moved nothing, or nothing was looked at."""
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


@dataclass(frozen=True, slots=True)
class Part:
    """What one client's engine told of its share of a run."""

    client: str
    host: str
    offset_ns: int  # of its clock, ahead of that on which the whole is told
    details: Mapping[str, Any]
    memory_bytes: int | None = None  # of its host


@runtime_checkable
class MergesDetails(Protocol):
    """Knows what the details of clients come to that each did the whole work.

    Without this offer, and without that of ``DividesWork``, a run has its first client's.
    """

    def merge_details(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Details of the whole run, from those of all clients."""
        ...


@runtime_checkable
class DividesWork(Protocol):
    """Its work is one for all clients of a cluster: each does a share, ``JobContext.share``.

    Without this offer every client does the whole of a timed work, in a folder of its own.
    """

    pieces_word: str  # what is divided, for people: "ranks"
    shares_data: bool  # all clients use one place, where each makes its share of the data sets

    def pieces(self, point: Point) -> int:
        """How many a run has: the most clients that can have a share.

        Raises StudyError for a point that cannot be.
        """
        ...

    def merge_details(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Details of the whole run, from those of all clients in order of their shares."""
        ...


@runtime_checkable
class SpreadsOtherwise(Protocol):
    """Cannot be divided among clients, and knows what else a user can do."""

    spread_fix: str


@runtime_checkable
class NeedsMachine(Protocol):
    """Has points that machines may be too small for, which is said before anything runs."""

    def check_machine(self, params: dict[str, Any]) -> list[Problem]:
        """Why these values can never run on this machine. Not asked where clients make the load."""
        ...


@runtime_checkable
class NeedsEngine(Protocol):
    """Has values that only some engines offer."""

    def check_engine(self, params: dict[str, Any], engine: str) -> list[Problem]:
        """Return why these values cannot run on an engine; ``engine`` is its name."""
        ...


@runtime_checkable
class ExaminesTargets(Protocol):
    """Knows what its runs need of a machine and of a target beyond what doctor looks at anyway.

    Neither writes anything, and neither may hang: what may, is done in a child with a time-out.
    """

    def examine_machine(self, points: Sequence[Point] = ()) -> Sequence[Check]:
        """Of this machine alone: few lines where it plainly has nothing for the family.
        ``points``: the family's of a study; none where there is no study.
        """
        ...

    def examine_target(
        self, target: Target, points: Sequence[Point], places: Sequence[Path]
    ) -> Sequence[Check]:
        """Of this target for the family's points on it. ``places``: its files, or its directory."""
        ...


@runtime_checkable
class ExaminesRuns(Protocol):
    """Looks at the machine that carried out a run, for facts that decide what its numbers are."""

    def run_facts(self, job: Job, outcome: RunOutcome) -> dict[str, Any]:
        """Facts for the run's details, looked up right after it on the host that made the load.

        ``stand_ins`` among them (see :class:`storlab.contracts.details.Details`) gives the run and
        its metrics the provenance ``emulated``.
        """
        ...


def divides(kind: str) -> DividesWork | None:
    """The offer of a family to divide its work; None where it makes none."""
    family = FAMILIES[kind]
    return family if isinstance(family, DividesWork) else None


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
    families = (f for f in FAMILIES.values() if isinstance(f, RereadsMembers))
    return _first(families, "reads again what runs wrote")


def clears_buckets() -> ClearsBuckets:
    """The family that deletes from buckets."""
    return _first((f for f in FAMILIES.values() if isinstance(f, ClearsBuckets)), "clears buckets")


def _first(families: Iterator[T], what: str) -> T:
    for family in families:
        return family
    raise EngineError("families", f"none that is installed {what}", "install storlab anew, whole")
