"""Limits on CPU, memory, threads and I/O that control groups (cgroups) set for this process.

The process's own group and each of its ancestors may set a limit; the smallest applies. Files of
version 2 (``cpu.max``) and version 1 (``cpu.cfs_quota_us``) are read. Source: the kernel's
``Documentation/admin-guide/cgroup-v2.rst`` and ``cgroup-v1/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from storlab.base.units import format_bytes_si

_PROC = Path("/proc/self")
_NO_LIMIT = 1 << 60  # version 1 writes no limit as the largest multiple of the page size
_NS_PER_US = 1_000


@dataclass(frozen=True, slots=True)
class Quota:
    """CPU quota of a control group, in cores."""

    cores: float
    group: str  # directory of the group


@dataclass(frozen=True, slots=True)
class IoLimit:
    """Tightest control-group limit on reads or writes of a block device."""

    device: str  # major:minor
    direction: Literal["reads", "writes"]
    unit: Literal["bytes", "operations"]
    per_second: int
    group: str  # directory of the group that sets it

    @property
    def text(self) -> str:
        """Limit with its unit, such as "4 MB/s" or "1,000 operations/s"."""
        if self.unit == "bytes":
            return f"{format_bytes_si(self.per_second)}/s"
        return f"{self.per_second:,} operations/s"


def groups_of(controller: str, proc: Path = _PROC) -> list[Path]:
    """Return the directories of this process's control group and its ancestors, nearest first.

    Args:
        controller: ``cpu``, ``memory``, ``pids`` or ``blkio`` (``io`` in version 2).
        proc: The directory of the process in /proc.
    """
    try:
        groups = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return []
    return [place for mount in mounts for place in _groups_below(mount, groups, controller)]


def _groups_below(mount: str, groups: Sequence[str], controller: str) -> Iterator[Path]:
    """Yield this process's group and its ancestors in one mounted cgroup hierarchy.

    Args:
        mount: A line of ``/proc/self/mountinfo``; nothing is yielded for other file systems.
        groups: The lines of ``/proc/self/cgroup``.
        controller: The name of the controller in version 1.
    """
    place, _, system = mount.partition(" - ")
    kind, *rest = system.split(" ")
    if kind == "cgroup2":
        wanted = ""
    elif kind == "cgroup" and controller in rest[1].split(","):
        wanted = controller
    else:
        return
    own = (line.split(":", 2) for line in groups)
    path = next((p for _, names, p in own if wanted in names.split(",")), None)
    if path is None:
        return
    root, point = (_unescaped(field) for field in place.split(" ")[3:5])
    # Take the path relative to the mount: in a container, it may show only part of the hierarchy.
    below = PurePosixPath(path)
    inside = below.relative_to(root) if below.is_relative_to(root) else PurePosixPath()
    if ".." in inside.parts:
        inside = PurePosixPath()
    lowest = Path(point) / inside.as_posix().lstrip("/")
    yield lowest
    yield from (above for above in lowest.parents if above.is_relative_to(point))


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _text(place: Path) -> str:
    try:
        return place.read_text().strip()
    except OSError:
        return ""


def _number(place: Path) -> int | None:
    text = _text(place)
    value = int(text) if text.isdigit() else None
    return None if value is None or value >= _NO_LIMIT else value


def _counts(place: Path) -> dict[str, int]:
    """Parse a cgroup file that has a name and a number on each line."""
    lines = (line.split() for line in _text(place).splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


def quotas(groups: Sequence[Path] | None = None) -> list[Quota]:
    """Return the CPU quotas of this process's control groups, smallest first.

    The list is empty if CPU time is unlimited.
    """
    known = []
    for group in groups_of("cpu") if groups is None else groups:
        quota, _, period = _text(group / "cpu.max").partition(" ")
        if not quota:
            quota, period = (_text(group / f"cpu.cfs_{n}_us") for n in ("quota", "period"))
        if quota.isdigit() and period.isdigit() and int(period):
            known.append(Quota(int(quota) / int(period), str(group)))
    return sorted(known, key=lambda quota: quota.cores)


def throttled_ns(group: str) -> int:
    """Return how long a control group's CPU quota has throttled its threads so far, in ns."""
    counts = _counts(Path(group) / "cpu.stat")
    return counts.get("throttled_usec", 0) * _NS_PER_US or counts.get("throttled_time", 0)


def memory_limit(groups: Sequence[Path] | None = None) -> tuple[int, str] | None:
    """Return the smallest memory limit of this process's control groups, and the group's name.

    The limit is in bytes. Returns None if there is no limit.
    """
    names = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits = [
        (limit, str(group))
        for group in (groups_of("memory") if groups is None else groups)
        for name in names
        if (limit := _number(group / name)) is not None
    ]
    return min(limits, default=None)


def memory_left(groups: Sequence[Path] | None = None) -> int | None:
    """Return the bytes of memory that control groups leave to this process; None if unlimited.

    Page cache charged to a group counts as available, since the kernel can reclaim it.
    """
    left = []
    for group in groups_of("memory") if groups is None else groups:
        limit = memory_limit([group])
        used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes")
        if limit is not None and used is not None:
            counts = _counts(group / "memory.stat")
            files = [f"{state}_file" for state in ("inactive", "active")]
            names = [f"total_{name}" for name in files if f"total_{name}" in counts] or files
            cached = sum(counts.get(name, 0) for name in names)
            left.append(max(0, limit[0] - max(0, used - cached)))
    return min(left, default=None)


def memory_events(group: str) -> int:
    """Return how often a control group has reached its memory limits so far."""
    counts = _counts(Path(group) / "memory.events")
    return sum(counts.get(n, 0) for n in ("high", "max", "oom")) or (
        _number(Path(group) / "memory.failcnt") or 0
    )


def most_threads(groups: Sequence[Path] | None = None) -> tuple[int, str] | None:
    """Return how many more threads control groups permit, and the group with the tightest limit.

    Returns None if no group limits threads (``pids.max``).
    """
    left = [
        (max(0, limit - (_number(group / "pids.current") or 0)), str(group))
        for group in (groups_of("pids") if groups is None else groups)
        if (limit := _number(group / "pids.max")) is not None
    ]
    return min(left, default=None)


def io_limits(groups: Sequence[Path] | None = None) -> list[IoLimit]:
    """Return the tightest I/O limits of this process's control groups.

    There is at most one limit per device, direction and unit.
    """
    tightest: dict[tuple[str, _Kind], IoLimit] = {}
    for group in groups_of("blkio") if groups is None else groups:
        for device, kind, text in (*_io_max(group), *_io_throttle(group)):
            if text.isdigit() and int(text):
                limit = IoLimit(device, *kind, int(text), str(group))
                known = tightest.get((device, kind), limit)
                tightest[device, kind] = min(limit, known, key=lambda each: each.per_second)
    return list(tightest.values())


def _io_max(group: Path) -> Iterator[tuple[str, _Kind, str]]:
    """Yield device, kind and value of each I/O limit that a cgroup of version 2 sets."""
    for line in _text(group / "io.max").splitlines():
        device, *limits = line.split()
        for key, _, text in (limit.partition("=") for limit in limits):
            if key in _V2_IO:
                yield device, _V2_IO[key], text


def _io_throttle(group: Path) -> Iterator[tuple[str, _Kind, str]]:
    """Yield device, kind and value of each I/O limit that a cgroup of version 1 sets."""
    for file, kind in _V1_IO.items():
        for line in _text(group / f"blkio.throttle.{file}_device").splitlines():
            with suppress(ValueError):
                device, text = line.split()
                yield device, kind, text


_Kind = tuple[Literal["reads", "writes"], Literal["bytes", "operations"]]
_V2_IO: dict[str, _Kind] = {
    "rbps": ("reads", "bytes"),
    "wbps": ("writes", "bytes"),
    "riops": ("reads", "operations"),
    "wiops": ("writes", "operations"),
}
_V1_IO: dict[str, _Kind] = {
    "read_bps": ("reads", "bytes"),
    "write_bps": ("writes", "bytes"),
    "read_iops": ("reads", "operations"),
    "write_iops": ("writes", "operations"),
}
