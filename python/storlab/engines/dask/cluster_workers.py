"""Record of a run's Dask workers, with the CPU time and memory that each last reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storlab.engines.dask.tasks import Reading


@dataclass(slots=True)
class Member:
    """One Dask worker process of a run: host, versions, CPU time and peak memory."""

    host: str
    cores: int = 0
    threads: int = 1
    versions: str = ""
    first: Reading | None = None  # baseline: CPU used before the run began
    last: Reading | None = None
    peak_bytes: int = 0
    units: int = 0
    is_lost: bool = False

    def used_ns(self) -> tuple[int, int]:
        """Return the worker's user and system CPU time in this run, by the last reading, in ns."""
        if self.first is None or self.last is None:
            return 0, 0
        user_ns = self.last.user_ns - self.first.user_ns
        return user_ns, self.last.system_ns - self.first.system_ns


class WorkerSet:
    """All Dask workers of a run by address, including those that were lost."""

    def __init__(self, here: str) -> None:
        self.here = here
        self.members: dict[str, Member] = {}

    def add(self, address: str, about: Mapping[str, Any]) -> None:
        """Register a worker, or update the description of a registered one.

        Args:
            address: The worker's Dask address.
            about: What ``tasks.about`` returned on that worker.
        """
        member = self.members.setdefault(address, Member(about["host"]))
        member.cores, member.threads = about["cores"], about["threads"]
        packages = ", ".join(f"{name} {number}" for name, number in about["packages"].items())
        member.versions = f"Python {about['python']}, {packages}"

    def begin(self, readings: Mapping[str, Reading]) -> None:
        """Record the CPU time that workers have used before the run, which is not counted."""
        for reading in readings.values():
            member = self._member(reading)
            member.first = member.last = reading

    def tell(self, reading: Reading, *, unit: bool = False) -> None:
        """Record a worker's CPU time and memory; with ``unit``, also count one finished unit."""
        member = self._member(reading)
        if member.first is None:  # it joined during the run, so all its CPU time counts
            member.first = reading._replace(user_ns=0, system_ns=0)
        member.last = reading
        member.peak_bytes = max(member.peak_bytes, reading.peak_bytes)
        member.units += unit
        member.is_lost = False

    def reset_peaks(self) -> None:
        """Reset the peak memory of all workers, at the start of a stage."""
        for member in self.members.values():
            member.peak_bytes = 0

    def lose(self, there: set[str]) -> None:
        """Mark every worker as lost whose address is not in ``there``, the connected addresses."""
        for address, member in self.members.items():
            if address not in there:
                member.is_lost = True

    def used_ns(self) -> tuple[int, int]:
        """Return the user and system CPU time of all workers in this run, in nanoseconds."""
        used = [member.used_ns() for member in self.members.values()]
        return sum(user for user, _ in used), sum(system for _, system in used)

    def peak_bytes(self) -> int:
        """Return the sum of the peak memory of the workers that are still connected, in bytes."""
        return sum(member.peak_bytes for member in self.members.values() if not member.is_lost)

    def hosts(self) -> dict[str, str]:
        """Return the host of each worker that is still connected, by address."""
        members = self.members.items()
        return {address: member.host for address, member in members if not member.is_lost}

    def cores(self) -> int:
        """Return the total number of cores of the workers' hosts."""
        by_host = {member.host: member.cores for member in self.members.values()}
        return sum(by_host.values())

    def lost(self) -> int:
        """Return the number of lost workers."""
        return sum(member.is_lost for member in self.members.values())

    def document(self) -> list[dict[str, Any]]:
        """Return a description of each worker (host, versions, CPU time) for ``result.json``."""
        return [
            {
                "address": address,
                "host": member.host.split(" ")[0],
                "remote": member.host != self.here,
                "threads": member.threads,
                "cores": member.cores,
                "versions": member.versions,
                "units": member.units,
                "user_ns": member.used_ns()[0],
                "system_ns": member.used_ns()[1],
                "lost": member.is_lost,
            }
            for address, member in self.members.items()
        ]

    def _member(self, reading: Reading) -> Member:
        member = self.members.get(reading.worker)
        if member is None:
            known = [member for member in self.members.values() if member.host == reading.host]
            cores = known[0].cores if known else 0
            member = self.members[reading.worker] = Member(reading.host, cores)
        return member
