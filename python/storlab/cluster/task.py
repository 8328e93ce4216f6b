"""Description of a cluster task, and the files that rank 0 and the main process exchange.

Rank 0 writes all files but two::

    pids.json             process id of each client, on its host
    live.json             current progress of each client, rewritten several times per second
    clocks.json           offsets of the clients' clocks, before and after the load
    client-<rank>.input   input of one client (written by the main process before the start)
    client-<rank>.outcome outcome of one client, complete or absent
    lost.json             clients that did not respond in time
    stop                  request to end the load (written by the main process)
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from storlab.base.units import NS_PER_S
from storlab.model.cluster import HostTarget
from storlab.model.types import Table

PIDS, LIVE, CLOCKS, LOST, STOP = "pids.json", "live.json", "clocks.json", "lost.json", "stop"
CLOCK_NS = 100_000_000
Task = Literal["check", "prepare", "fill", "overwrite", "run", "after", "clean", "verify"]


class ClientPlace(Table):
    """Client of a cluster: its host, rank, network interfaces, and paths that differ there."""

    name: str  # host name, with a number if the host runs several clients
    host: str
    rank: int  # MPI rank, from 1
    mount: str | None = None
    data_nics: list[str] = Field(default_factory=list)
    # targets whose paths on this client differ from the study's
    targets: dict[str, HostTarget] = Field(default_factory=dict)

    def path_of(self, directory: str, mount: str | None) -> Path:
        """Return a directory's path on this client, whose mount point may differ.

        Args:
            directory: Path below the study's mount point.
            mount: The study's mount point; None leaves the path unchanged.
        """
        path = PurePosixPath(directory)
        if mount is None or self.mount is None or self.mount == mount:
            return Path(path)
        return Path(self.mount) / path.relative_to(mount)


class Order(Table):
    """Description of a task for all ranks.

    It contains credentials of object stores, so it must never be written to a file.
    """

    task: Task
    work_dir: str  # directory for the files of rank 0
    clients: list[ClientPlace]
    lost_after_ns: int
    arm_within_ns: int = 600 * NS_PER_S
    facts_within_ns: int = 0  # time beyond lost_after_ns that clients need to collect their facts
    nonce: str
    arguments: dict[str, Any]  # arguments for the client's part of the task

    @property
    def clocks_ns(self) -> int:
        """Return the time limit in ns for measuring all clients' clocks one after the other."""
        return len(self.clients) * CLOCK_NS

    @property
    def loads(self) -> bool:
        """Return whether the task generates load, which starts on all clients at the same time."""
        return self.task in ("overwrite", "run")

    @property
    def gives_up(self) -> bool:
        """Return whether clients may release the campaign's leases on directories at the end."""
        return self.task in ("clean", "verify")

    @property
    def takes_inputs(self) -> bool:
        """Return whether the task needs an input that differs between clients."""
        return self.task == "verify"


def input_file(directory: Path, rank: int) -> Path:
    """Return the path of the file with one client's input."""
    return directory / f"client-{rank}.input"


def outcome_file(directory: Path, rank: int) -> Path:
    """Return the path of the file to which rank 0 writes one client's outcome."""
    return directory / f"client-{rank}.outcome"
