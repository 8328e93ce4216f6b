"""What engines tell of a run of transfers to GPU memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from storlab.contracts.details import Details, DeviceMoved, Told

COUNTERS = {"cufile": "cuFile", "nvidia-fs": "nvidia-fs"}
"""Who counts, for people."""


class GpuTold(Told):
    """One GPU that took part."""

    number: int
    name: str = ""
    pci: str = ""
    compute: str = ""  # compute capability: 9.0
    memory_bytes: int = 0
    free_bytes: int = 0

    @property
    def is_ampere_or_newer(self) -> bool:
        """Of compute capability 8.0 or more; also where it is not told."""
        major = self.compute.partition(".")[0]
        return not major.isdigit() or int(major) >= 8


class Trouble(Told):
    """Why something cannot be had, and what to do."""

    what: str
    fix: str = ""


class LibraryTold(Told):
    """A shared library as it was loaded."""

    path: str = ""
    version: str = ""
    error: Trouble | None = None  # of a probe: why it cannot be used


class CuFileTold(LibraryTold):
    """cuFile, with what its driver says where it is open. None: not known."""

    compat_allowed: bool | None = None  # it may fall back to POSIX
    compat_forced: bool | None = None
    p2pdma: bool | None = None
    poll_mode: bool | None = None
    max_batch: int | None = None


class LibrariesTold(Told):
    """None where the path needs no such library."""

    cuda: LibraryTold | None = None
    cufile: CuFileTold | None = None


class DirectStorage(Told):
    """What cuFile says that it reaches directly."""

    nvme: tuple[str, ...] | None = None  # the ways to NVMe drives; None: it does not say
    storage: tuple[str, ...] = ()  # kinds of it


class GpuRoute(Told):
    """Of one GPU: how many transfers went which way."""

    number: int
    p2p_ops: int | None = None
    nvfs_ops: int | None = None
    posix_ops: int | None = None
    bytes: int = 0


class RouteTold(Told):
    """Which way the bytes of the whole load went, ramp included, and who counted them."""

    asked: str = ""
    bytes: int = 0  # that the load moved, by its own count
    p2p_bytes: int = 0  # by the kernel's P2PDMA
    nvfs_bytes: int = 0  # by nvidia-fs
    posix_bytes: int = 0  # by way of host memory
    by: str = "none"  # cufile, nvidia-fs; none: nobody counted
    gpus: tuple[GpuRoute, ...] = ()

    @property
    def counted(self) -> bool:
        """Whether anybody told the ways apart."""
        return self.by != "none" and self.bytes > 0

    @property
    def counter(self) -> str:
        """Who counted, for people."""
        return COUNTERS.get(self.by, self.by)

    @property
    def accounted_bytes(self) -> int:
        """What the counters know of, whichever way it went."""
        return self.p2p_bytes + self.nvfs_bytes + self.posix_bytes

    @classmethod
    def summed(cls, routes: Sequence[Self]) -> Self:
        """Add up routes of several runs or clients; counted only if each of them was."""
        names = ("bytes", "p2p_bytes", "nvfs_bytes", "posix_bytes")
        sums = {name: sum(getattr(route, name) for route in routes) for name in names}
        counters = {route.by for route in routes if route.counted}
        all_counted = bool(routes) and all(route.counted for route in routes)
        by = "/".join(sorted(counters)) if all_counted else "none"
        gpus = tuple(gpu for route in routes for gpu in route.gpus)
        return cls(asked=routes[0].asked if routes else "", by=by, gpus=gpus, **sums)

    def percents(self) -> dict[str, float]:
        """Shares of the bytes that were counted: p2p, nvfs, posix, and direct, the first two."""
        whole = max(self.bytes, self.accounted_bytes)
        parts = {"p2p": self.p2p_bytes, "nvfs": self.nvfs_bytes, "posix": self.posix_bytes}
        shares = {name: 100 * moved / whole for name, moved in parts.items()}
        return {"direct": shares["p2p"] + shares["nvfs"], **shares}


class Registration(Told):
    """Buffers and files made known to cuFile before the load."""

    buffers: int = 0
    bytes: int = 0
    ns: int = 0
    handles: int = 0
    handles_ns: int = 0


class Compared(Told):
    """What was compared byte for byte, outside of the window."""

    files: int = 0
    bytes: int = 0
    ns: int = 0
    wrong: int = 0  # bytes of transfers that differ
    earlier: int = 0  # files that an earlier run compared, and nobody has changed since


class GpuDirectDetails(Details):
    """Of a whole run."""

    gpus: tuple[GpuTold, ...] = ()
    libraries: LibrariesTold = LibrariesTold()
    route: RouteTold = RouteTold()
    load_device: DeviceMoved | None = None  # during the load that the route is of
    registration: Registration | None = None
    first_pass: Compared | None = None
    read_back: Compared | None = None
    p2p: DirectStorage | None = None  # of a probe
    # Why bytes cannot have gone directly on the machine, whatever was counted; of path = direct.
    path_obstacles: tuple[str, ...] = ()
