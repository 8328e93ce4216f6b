"""Base class of workload families, and the records that its methods take and return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storlab.base.errors import Problem
from storlab.contracts.check import Check
from storlab.contracts.details import Details
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.job import Job, Member
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, Proof, RunOutcome
from storlab.model.s3 import S3Access
from storlab.model.study import Header, Target, WorkloadSpec


@dataclass(frozen=True, slots=True)
class DataSet:
    """Data set that ``prepare`` creates; points that name the same one share it."""

    name: str  # in the home of storlab's data, or below the campaign's prefix of a bucket
    bytes: int
    # number of requests that create it; 0 if its bytes determine how long that takes
    objects: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cost of one run of a point."""

    duration_ns: int  # ramp + window + settle
    bytes_written: int | None  # None if bounded by time instead of bytes
    writes: bool  # whether the point writes to its target
    # files that storlab writes into a directory target beforehand; 0 if the family writes its own
    layout_files: int = 0
    write_share: float = 0.0  # bytes written over bytes transferred, 0 to 1
    # whether the run trims or punches holes, so that fewer blocks are allocated afterwards
    frees: bool = False
    reads: bool = True  # whether it reads data that must exist before
    data_sets: tuple[DataSet, ...] = ()  # that ``prepare`` creates, besides files of the layout
    space_bytes: int | None = None  # largest space of a run's own files; None: bytes_written
    buffer_bytes: int = 0  # memory of I/O buffers
    # names of the fields to whose product ``buffer_bytes`` is roughly proportional
    buffer_fields: tuple[str, ...] = ()
    histograms: int = 0  # histograms per worker; 0 for one per operation of the family's page
    # bytes that are read to verify data before the load, and the time that this takes
    compared_bytes: int = 0
    compared_ns: int = 0
    compared_once: str = ""  # runs of a target with equal text verify unchanged data only once
    continues: bool = False  # whether a run continues from the files of its interrupted predecessor
    open_files: int = 0  # approximate number of open files with sockets; 0 for few
    raw_files: tuple[Path, ...] = ()  # absolute paths of user files that it reads
    cautions: tuple[str, ...] = ()  # known reasons why results will be distorted

    @property
    def data_bytes(self) -> int:
        """Size of all data sets in bytes."""
        return sum(data.bytes for data in self.data_sets)


@dataclass(frozen=True, slots=True)
class Access:
    """Files, devices, bucket prefix or directory of a target that a run may use.

    ``home`` is the directory in which families create their own files; all of its content belongs
    to storlab. Data sets are in ``<home>/<DataSet.name>/``, files of a run in directories
    named by its run id.
    """

    members: list[Member] = field(default_factory=list)
    s3: S3Access | None = None
    home: Path | None = None  # absolute path; created for runs, only named for plans


@dataclass(frozen=True, slots=True)
class Share:
    """Part of divided work that one client does: number ``index`` of ``count`` parts."""

    index: int = 0
    count: int = 1

    def of(self, total: int) -> range:
        """Return which of ``total`` pieces of work (numbered from 0) belong to this share.

        Shares are contiguous, disjoint and differ in size by at most one piece.
        """
        return range(total * self.index // self.count, total * (self.index + 1) // self.count)


WHOLE = Share()


@dataclass(frozen=True, slots=True)
class JobContext:
    """Inputs, besides the point, from which a workload family builds the job of a run."""

    header: Header
    target: Target
    access: Access
    seed: int  # seed of this run: study seed, point and repeat combined
    work_dir: Path  # directory of this run
    run_id: str = ""
    share: Share = WHOLE  # share of divided work

    @property
    def members(self) -> list[Member]:
        """Return the files and devices of the target."""
        return self.access.members


@dataclass(frozen=True, slots=True)
class Step:
    """Job that prepares a target or cleans up after a run; it is not measured.

    The native engine executes it. It must be idempotent.
    """

    text: str  # description for progress, such as "making 2,500 objects"
    job: Job
    total_bytes: int | None = None  # for the progress bar; None if unknown


@dataclass(frozen=True, slots=True)
class ClientDetails:
    """Details of a run that one client of a cluster reported, to be merged with the others'."""

    client: str
    host: str
    offset_ns: int  # client's clock minus that of the merged run
    details: Mapping[str, Any]
    memory_bytes: int | None = None  # memory of the client's host


class Workload(ABC):
    """Base class of workload families.

    A family must set the attributes without a value and implement the abstract methods. The other
    methods are extension points: their defaults do nothing.
    """

    kind: str
    # whether a run ends when its work is done; it then has no ramp, runtime and steady state
    fixed_work: bool
    spec: type[WorkloadSpec]
    details: type[Details]  # model of the details that engines report
    writes_zones = False  # whether it writes zoned drives zone by zone
    places: tuple[str, ...]  # supported location fields of a target: path, paths, directory, s3
    page: Page
    figures: tuple[FigureKind, ...]  # in the order of the brief

    # First words of object names below a campaign's prefix. Data sets are in
    # ``<top>-<8 hexadecimal digits>/``, output of runs in ``<top>-<run id>/``.
    data_tops: tuple[str, ...] = ()
    run_tops: tuple[str, ...] = ()

    # Name of the pieces of work that are divided among clients of a cluster, such as "ranks"; see
    # ``JobContext.share``. If it is empty, each client does the whole work in its own directory.
    pieces_word: str = ""
    shares_data: bool = False  # whether all clients use one directory and each creates its share
    # fix for the message that fixed work cannot be divided among clients
    spread_fix: str = "leave [cluster] out for them, in a study of their own"

    @abstractmethod
    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Return why a workload with these parameters cannot run on a target; empty if it can.

        The field that a problem names is one of the workload, or else one of the target.
        """

    @abstractmethod
    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Estimate time and bytes of one run."""

    @abstractmethod
    def job(self, point: Point, context: JobContext) -> Job:
        """Build the job of one run for its engine."""

    @abstractmethod
    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Return the operations in flight: as configured, and as Little's law implies."""

    @abstractmethod
    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Compute the metrics of one run."""

    @abstractmethod
    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Return the warnings to show next to the numbers of a run."""

    def check_machine(self, params: dict[str, Any]) -> list[Problem]:
        """Return why a workload with these parameters cannot run on this machine.

        Not called if clients of a cluster generate the load.
        """
        del params
        return []

    def check_engine(self, params: dict[str, Any], engine: str) -> list[Problem]:
        """Return why an engine cannot run a workload with these parameters; empty if it can."""
        del params, engine
        return []

    def examine_machine(self, points: Sequence[Point] = ()) -> Sequence[Check]:
        """Run preflight checks of this machine for points of the family; return their results.

        ``points`` is empty without a study. Checks write nothing. Code that may hang must run in a
        child process with a time limit.
        """
        del points
        return ()

    def examine_target(
        self, target: Target, points: Sequence[Point], places: Sequence[Path]
    ) -> Sequence[Check]:
        """Run preflight checks of a target and its files or directory; return their results."""
        del target, points, places
        return ()

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """Return the steps that prepare a target for points, before the first run of a session.

        ``context.seed`` is the study's seed, and ``context.run_id`` is empty.
        """
        del points, context
        return []

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Return the steps that clean up after a run, whether it finished or failed."""
        del point, context
        return []

    def run_facts(self, job: Job, outcome: RunOutcome) -> dict[str, Any]:
        """Collect facts for a run's details, after the run, on the host that generated the load.

        An entry ``stand_ins`` (see :class:`storlab.contracts.details.Details`) sets the provenance
        of the run and its metrics to ``emulated``.
        """
        del job, outcome
        return {}

    def proof(self, point: Point, target: Target, outcome: RunOutcome) -> Proof | None:
        """Return evidence on whether the storage medium, not a cache, served the I/O of a run.

        Returns:
            The proof; None if the run moved no bytes, or nothing was examined.
        """
        del point, target, outcome
        return None

    def groups(self, point: Point) -> dict[str, Point]:
        """Return the groups of a point by name, each as a point of its own; empty without groups.

        Groups run at the same time, each with its own load. From its point, which has no groups,
        storlab computes the metrics and flags of a group as if it were a run.
        """
        del point
        return {}

    def pieces(self, point: Point) -> int:
        """Return the number of pieces of work that a run can divide among clients.

        Raises:
            StudyError: The point is invalid.
        """
        del point
        return 1

    def merge_details(self, parts: Sequence[ClientDetails]) -> dict[str, Any] | None:
        """Merge the details that clients reported, given in the order of their shares.

        Returns:
            The details of the run; None to keep those of the first client.
        """
        del parts
        return None

    def starter_tables(self, files: Sequence[str], device: str | None) -> list[str]:
        """Return workload tables in TOML for the study that ``storlab init`` writes.

        Args:
            files: Names of file targets, as TOML strings.
            device: Name of a drive as a TOML string, or None.

        Returns:
            The tables; those for other targets are commented out.
        """
        del files, device
        return []

    def short_tables(self, *, writes: bool) -> list[str]:
        """Return workload tables in TOML for the study of ``storlab try``; usually none.

        They fit all targets that the family supports, and should have few points.

        Args:
            writes: Whether the workloads may write.
        """
        del writes
        return []
