"""Optional capabilities of workload families that storlab uses for the points of all families.

Storlab creates files, preconditions targets, rereads written data and empties buckets for the
points of any family. Only a family can build the jobs for that; the first registered family with
the capability builds them.
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
class ProvesMedium(Protocol):
    """Family that can judge whether the medium served a run's I/O."""

    def proof(self, point: Point, target: Target, outcome: RunOutcome) -> Proof | None:
        """Return the judgement; None if the run moved no bytes, or nothing was examined."""
        ...


@runtime_checkable
class ClearsBuckets(Protocol):
    """Family that can delete objects from buckets."""

    def clear(self, access: S3Access, below: str) -> Job:
        """Return a job that deletes all objects and uploads below a prefix ending with a slash."""
        ...


@runtime_checkable
class KeepsInBuckets(Protocol):
    """Family that stores objects below a campaign's prefix, with the given name prefixes."""

    data_tops: tuple[str, ...]  # name prefixes of data sets: ``<top>-<8 hexadecimal digits>/``
    run_tops: tuple[str, ...]  # name prefixes of run output: ``<top>-<run id>/``


@runtime_checkable
class StartsStudies(Protocol):
    """Family with workload tables for the study that ``storlab init`` writes."""

    def starter_tables(self, files: Sequence[str], device: str | None) -> list[str]:
        """Return workload tables in TOML; tables for other targets are commented out.

        Args:
            files: Names of file targets, as TOML strings.
            device: Name of a drive as a TOML string, or None.
        """
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """Details of one client's share of a run, for merging."""

    client: str
    host: str
    offset_ns: int  # client's clock minus that of the merged run
    details: Mapping[str, Any]
    memory_bytes: int | None = None  # memory of the client's host


@runtime_checkable
class MergesDetails(Protocol):
    """Family that merges the details of clients that each did the whole work.

    Without this capability and ``DividesWork``, a run has the details of its first client.
    """

    def merge_details(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Merge the details of all clients into those of the run."""
        ...


@runtime_checkable
class DividesWork(Protocol):
    """Family whose work is divided among the clients of a cluster, see ``JobContext.share``.

    Without this capability each client does the whole work, in a folder of its own.
    """

    pieces_word: str  # what is divided, for messages: "ranks"
    # whether all clients use one directory, in which each creates its share of the data
    shares_data: bool

    def pieces(self, point: Point) -> int:
        """Return the number of pieces of a run, which is the largest number of clients.

        Raises:
            StudyError: The point is invalid.
        """
        ...

    def merge_details(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Merge the details of all clients, given in the order of their shares."""
        ...


@runtime_checkable
class SpreadsOtherwise(Protocol):
    """Family that cannot be divided among clients, with an alternative to suggest."""

    spread_fix: str


@runtime_checkable
class NeedsMachine(Protocol):
    """Family with points that a machine may be too small for, checked before runs."""

    def check_machine(self, params: dict[str, Any]) -> list[Problem]:
        """Return why parameters can never run on this machine; not called if clients run them."""
        ...


@runtime_checkable
class NeedsEngine(Protocol):
    """Family with parameters that only some engines support."""

    def check_engine(self, params: dict[str, Any], engine: str) -> list[Problem]:
        """Return why these parameters cannot run on an engine; ``engine`` is its name."""
        ...


@runtime_checkable
class ExaminesTargets(Protocol):
    """Family with preflight checks of its own for machines and targets.

    The checks write nothing and must not hang: code that may hang runs in a child process with a
    time limit.
    """

    def examine_machine(self, points: Sequence[Point] = ()) -> Sequence[Check]:
        """Return checks of this machine; few if it plainly lacks what the family needs.

        ``points`` are the family's points in a study, empty without a study.
        """
        ...

    def examine_target(
        self, target: Target, points: Sequence[Point], places: Sequence[Path]
    ) -> Sequence[Check]:
        """Return checks of a target for the family's points, given its files or directory."""
        ...


@runtime_checkable
class ExaminesRuns(Protocol):
    """Family that collects facts about the machine after a run, to interpret its results."""

    def run_facts(self, job: Job, outcome: RunOutcome) -> dict[str, Any]:
        """Return facts for the run's details, collected after the run on the host of the load.

        A ``stand_ins`` entry (see :class:`storlab.contracts.details.Details`) sets the provenance
        of the run and its metrics to ``emulated``.
        """
        ...


def divides(kind: str) -> DividesWork | None:
    """Return the family of a kind if it divides its work among clients, otherwise None."""
    family = FAMILIES[kind]
    return family if isinstance(family, DividesWork) else None


def starts_studies() -> list[StartsStudies]:
    """Return all families with tables for the starter study."""
    return [family for family in FAMILIES.values() if isinstance(family, StartsStudies)]


def kept_in_buckets() -> tuple[frozenset[str], frozenset[str]]:
    """Return the object name prefixes of all families: for data sets, and for runs."""
    keepers = [f for f in FAMILIES.values() if isinstance(f, KeepsInBuckets)]
    data = frozenset(top for keeper in keepers for top in keeper.data_tops)
    return data, frozenset(top for keeper in keepers for top in keeper.run_tops)


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
