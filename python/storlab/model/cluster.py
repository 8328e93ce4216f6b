"""Clients of a cluster: the ``[cluster]`` table of a study, and the results of each client."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, model_validator

from storlab.base.errors import FieldProblems, Problem
from storlab.base.units import NS_PER_S
from storlab.model.types import Amount, Count, Duration, StudyTable, Swept, Table

Clients = Annotated[int, Field(ge=1, le=65_536)]
LOCALHOST = "localhost"
MOST_LOCAL = 256
LEAST_LOST_NS = 3 * NS_PER_S  # shorter is unsafe: clients report progress only every second


def is_whole_path(path: str) -> bool:
    """Return whether a path is absolute and has no ``..`` component."""
    return path.startswith("/") and ".." not in PurePosixPath(path).parts


class HostTarget(StudyTable):
    """``[cluster.host.NAME.target."..."]``: paths of a target on one client.

    They replace the target's own ``path`` or ``paths``. They also replace its ``serial``, because
    consent to overwrite one device does not cover another.
    """

    path: str | None = Field(
        default=None,
        min_length=1,
        description="file, or block device by its stable id, on this client",
    )
    paths: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None,
        min_length=1,
        description="files or devices on this client, as many as the target has",
    )
    serial: str | None = Field(
        default=None,
        min_length=1,
        description="serial number of this client's device, typed by you, as consent to overwrite "
        "it",
    )

    @property
    def locations(self) -> list[str]:
        """Return the paths on this client; empty if the target's own paths apply."""
        return [self.path] if self.path is not None else list(self.paths or [])


class HostFacts(StudyTable):
    """``[cluster.host.NAME]``: settings in which one client differs from the others."""

    mount: str | None = Field(
        default=None,
        min_length=1,
        description="mount point of the shared file system on this client",
    )
    data_nics: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="network interfaces of this client that carry the data"
    )
    target: dict[str, HostTarget] = Field(
        default_factory=dict,
        description="files and devices of this client that differ from the study's, by target",
    )


class Cluster(StudyTable):
    """``[cluster]``: the clients that generate the load, all started at once by MPI.

    Exactly one of ``hosts``, ``hostfile`` and ``from`` is given. ``hosts = ["localhost"]`` starts
    ``clients`` clients on this machine.
    """

    launcher: Literal["mpi", "slurm"] = Field(
        default="mpi", description="mpi starts clients by mpiexec, slurm by srun"
    )
    mpiexec: str | None = Field(
        default=None, min_length=1, description="path of mpiexec; by default the one that is found"
    )
    mpi_args: list[str] = Field(
        default_factory=list, description="further arguments for mpiexec or srun"
    )
    launch_agent: str | None = Field(
        default=None,
        min_length=1,
        description="program that starts commands on other hosts, called like ssh; by default ssh",
    )
    interface: str | None = Field(
        default=None, min_length=1, description="network interface for MPI's own messages"
    )
    python: str | None = Field(
        default=None,
        min_length=1,
        description="Python with storlab on the clients; by default the path of this one",
    )
    hosts: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, min_length=1, description='host names, also as ranges: ["c[01-12]"]'
    )
    hostfile: str | None = Field(
        default=None, min_length=1, description="file of host names in a format of MPI"
    )
    from_: Literal["slurm"] | None = Field(
        default=None,
        alias="from",
        description="slurm takes the hosts of the Slurm job that storlab runs in",
    )
    mount: str | None = Field(
        default=None,
        min_length=1,
        description="mount point of the shared file system, or a directory above several; clients "
        "on which nothing is mounted between it and a target are refused",
    )
    host: dict[str, HostFacts] = Field(
        default_factory=dict, description="differences of single clients, by host name"
    )
    data_nics: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, description="network interfaces that carry the data"
    )
    clients: Swept[Clients] | None = Field(
        default=None, description="number of clients that generate load; by default all hosts"
    )
    lost_after: Duration = Field(
        default="6s",
        ge=LEAST_LOST_NS,
        description="time without a message after which a client counts as lost and its run as "
        "failed; at least 3s",
    )  # type: ignore[assignment]
    arm_within: Duration = Field(
        default="10min",
        gt=0,
        description="time within which each client must open its files and allocate its buffers; "
        "otherwise the run fails and names the client",
    )  # type: ignore[assignment]

    @model_validator(mode="after")
    def _one_source(self) -> Cluster:
        given = [
            name
            for name, value in (
                ("hosts", self.hosts),
                ("hostfile", self.hostfile),
                ("from", self.from_),
            )
            if value is not None
        ]
        problems = [
            Problem(
                (extra,),
                f"a cluster has one of hosts, hostfile and from, and {given[0]} is given",
                f"remove {given[0]} or {extra}",
            )
            for extra in given[1:]
        ]
        if not given:
            problems.append(
                Problem((), "a cluster requires hosts", 'add hosts = ["c[01-12]"] to [cluster]')
            )
        if self.is_local and self.clients is None:
            problems.append(
                Problem(
                    ("clients",),
                    "is missing: it is the number of clients to start on this machine",
                    "add it, such as clients = 2",
                )
            )
        if self.is_local and self.most_asked > MOST_LOCAL:
            problems.append(
                Problem(
                    ("clients",),
                    f"would start {self.most_asked:,} client processes on this machine",
                    f"start at most {MOST_LOCAL} here, or name more hosts",
                )
            )
        problems += self._mount_problems()
        if problems:
            raise FieldProblems(problems)
        return self

    def _mount_problems(self) -> list[Problem]:
        own: dict[tuple[str, ...], str | None] = {
            ("host", name, "mount"): facts.mount for name, facts in self.host.items()
        }
        every: dict[tuple[str, ...], str | None] = {("mount",): self.mount, **own}
        problems = [
            Problem(
                field, f'"{mount}" is not an absolute path', 'write it from "/" on, without ".."'
            )
            for field, mount in every.items()
            if mount is not None and not is_whole_path(mount)
        ]
        if self.mount is None:
            problems += [
                Problem(
                    field,
                    "replaces the mount of [cluster], but [cluster] has no mount",
                    "add mount to [cluster]",
                )
                for field, mount in own.items()
                if mount is not None
            ]
        return problems

    @property
    def most_asked(self) -> int:
        """Return the largest number of clients that the study requests; 0 means all hosts."""
        return max(self.clients) if isinstance(self.clients, list) else self.clients or 0

    @property
    def is_local(self) -> bool:
        """Return whether all clients run on this machine."""
        return self.hosts == [LOCALHOST]


class ByWorker(Table):
    """Operations and bytes of each worker in the measure window, over all kinds of operations."""

    operations: list[Count]
    bytes: list[Count]


class ClientRun(Table):
    """Result of one client in a run; times are in ns."""

    name: str  # host name, with a number if the host runs several clients
    host: str
    offset_ns: int  # client's clock minus the controller's, before the run
    round_trip_ns: int  # smallest round-trip time of the clock measurement
    drift_ns: int  # change of ``offset_ns`` from before to after the run
    armed_ns: int | None = None  # from the order until files, buffers and workers are ready
    first_io_late_ns: int | None = None  # first I/O, relative to the common start
    last_worker_late_ns: int | None = None  # first I/O of the worker that started last
    # time from the first client's start until this client finished; None without fixed work
    done_ns: int | None = None
    window_share: float = 1.0  # share of the client's window that lies in the common window
    operations: Count = 0
    bytes: Count = 0
    by_worker: ByWorker | None = None  # None if the engine does not report it
    bytes_read: Count = 0
    bytes_s: Amount = 0.0
    operations_s: Amount = 0.0
    latency_mean_ns: Amount | None = None
    latency_p99_ns: Count | None = None
    cpu_percent: float | None = None  # CPU use of all cores by all programs in the window
    cores: int | None = None
    nic_received_bytes: int | None = None  # bytes of the data interfaces; None if not counted
    nic_sent_bytes: int | None = None
    # utilisation of the busier direction; None if the link speed is unknown
    nic_busy_percent: float | None = None


class ClusterRun(Table):
    """Results of all clients of a cluster run, and how well their starts and windows agree."""

    clients: list[ClientRun]
    # Largest difference between clients in the time of their first I/O; None if not reported.
    start_skew_ns: int | None = None
    # Fraction of the planned window in which all clients measured. If work ends after a number of
    # bytes, it is a fraction of the longest client's window.
    window_kept: float
    divided: bool = False  # whether one piece of work was divided among the clients
    # Throughput of all clients until the first one finished its fixed work; None without fixed work
    # or with a single client.
    bytes_s_till_first_done: float | None = None
    nics_seen: bool = False  # whether network bytes were counted on all clients

    @property
    def rates(self) -> dict[str, float]:
        """Return each client's bytes per second, or operations per second without bytes."""
        by_bytes = any(client.bytes_s for client in self.clients)
        return {c.name: c.bytes_s if by_bytes else c.operations_s for c in self.clients}
