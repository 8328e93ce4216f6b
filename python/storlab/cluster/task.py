"""What the lab asks of the ranks, and the files in which rank 0 leaves what it heard of them.

::

    pids.json             process id of each client, on its host
    live.json             renewed several times a second: what each client does now
    clocks.json           offsets of the clients' clocks, before and after the load
    client-<rank>.input   written by the lab before the start: for that client alone
    client-<rank>.outcome what a client gave, whole or not there
    lost.json             clients that were silent for too long
    stop                  written by the lab: the clients are to end their load
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
    """One client, and where it finds things."""

    name: str  # host name; numbered where one host runs several
    host: str
    rank: int  # from 1
    mount: str | None = None
    data_nics: list[str] = Field(default_factory=list)
    targets: dict[str, HostTarget] = Field(default_factory=dict)  # which it has elsewhere

    def path_of(self, directory: str, mount: str | None) -> Path:
        """A directory below the study's mount point, where this client has that mount."""
        path = PurePosixPath(directory)
        if mount is None or self.mount is None or self.mount == mount:
            return Path(path)
        return Path(self.mount) / path.relative_to(mount)


class Order(Table):
    """To all ranks, the same. Holds secrets of stores: never written to a file."""

    task: Task
    work_dir: str  # of rank 0
    clients: list[ClientPlace]
    lost_after_ns: int
    arm_within_ns: int = 600 * NS_PER_S
    facts_within_ns: int = 0  # beyond lost_after_ns: to look at something before they are told
    nonce: str
    arguments: dict[str, Any]  # for whoever does the task on a client

    @property
    def clocks_ns(self) -> int:
        """How long the clocks of all clients may take: they are measured one after the other."""
        return len(self.clients) * CLOCK_NS

    @property
    def loads(self) -> bool:
        """The task makes load that begins everywhere at once."""
        return self.task in ("overwrite", "run")

    @property
    def gives_up(self) -> bool:
        """With its end, clients may give up what the campaign holds."""
        return self.task in ("clean", "verify")

    @property
    def takes_inputs(self) -> bool:
        """Each client gets what is for it alone."""
        return self.task == "verify"


def input_file(directory: Path, rank: int) -> Path:
    """What the lab has for that client alone."""
    return directory / f"client-{rank}.input"


def outcome_file(directory: Path, rank: int) -> Path:
    """Where rank 0 writes what that client gave."""
    return directory / f"client-{rank}.outcome"


def write_whole(path: Path, content: bytes) -> None:
    """A file that others read at any time. It need not outlive a loss of power."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    temporary.rename(path)
