"""Records for the details of a GPUDirect run that an engine reports besides its totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from storlab.contracts.details import Details, DetailsTable, DeviceMoved

COUNTERS = {"cufile": "cuFile", "nvidia-fs": "nvidia-fs"}
"""Display names of the sources of path counters."""


class GpuReport(DetailsTable):
    """GPU that took part in a run."""

    number: int
    name: str = ""
    pci: str = ""
    compute: str = ""  # compute capability, such as 9.0
    memory_bytes: int = 0
    free_bytes: int = 0

    @property
    def is_ampere_or_newer(self) -> bool:
        """Whether the GPU's compute capability is 8.0 or more; true if not reported."""
        major = self.compute.partition(".")[0]
        return not major.isdigit() or int(major) >= 8


class Trouble(DetailsTable):
    """Reason why a library or GPU cannot be used, with a fix."""

    what: str
    fix: str = ""


class LibraryTold(DetailsTable):
    """Shared library that the run loaded."""

    path: str = ""
    version: str = ""
    error: Trouble | None = None  # from a probe: why the library cannot be used


class CuFileTold(LibraryTold):
    """cuFile library that a run loaded, with settings it reports; None if not reported."""

    compat_allowed: bool | None = None  # whether it may fall back to POSIX
    compat_forced: bool | None = None
    p2pdma: bool | None = None
    poll_mode: bool | None = None
    max_batch: int | None = None


class LibrariesTold(DetailsTable):
    """GPU libraries that a run loaded; None for a library that its path does not need."""

    cuda: LibraryTold | None = None
    cufile: CuFileTold | None = None


class DirectStorage(DetailsTable):
    """Kinds of storage that cuFile claims to access directly."""

    nvme: tuple[str, ...] | None = None  # ways to NVMe drives; None: not reported
    storage: tuple[str, ...] = ()  # other kinds of storage


class GpuRoute(DetailsTable):
    """Bytes of one GPU, and its operations by route: p2p (P2PDMA), nvfs (nvidia-fs) or posix."""

    number: int
    p2p_ops: int | None = None
    nvfs_ops: int | None = None
    posix_ops: int | None = None
    bytes: int = 0


class RouteReport(DetailsTable):
    """Bytes of a run and its ramp by route to the GPU, as counted by cuFile or nvidia-fs."""

    asked: str = ""
    bytes: int = 0  # moved by the load, from its own counter
    p2p_bytes: int = 0  # through the kernel's P2PDMA
    nvfs_bytes: int = 0  # through nvidia-fs
    posix_bytes: int = 0  # through host memory
    by: str = "none"  # cufile or nvidia-fs; none: not counted
    gpus: tuple[GpuRoute, ...] = ()

    @property
    def counted(self) -> bool:
        """Whether a counter distinguished the routes."""
        return self.by != "none" and self.bytes > 0

    @property
    def counter(self) -> str:
        """Name, for messages, of the counter that distinguished the routes."""
        return COUNTERS.get(self.by, self.by)

    @property
    def accounted_bytes(self) -> int:
        """Bytes over all routes, according to the counters."""
        return self.p2p_bytes + self.nvfs_bytes + self.posix_bytes

    @classmethod
    def summed(cls, routes: Sequence[Self]) -> Self:
        """Add up bytes by route over runs or clients; not counted if one of them has no counter."""
        names = ("bytes", "p2p_bytes", "nvfs_bytes", "posix_bytes")
        sums = {name: sum(getattr(route, name) for route in routes) for name in names}
        counters = {route.by for route in routes if route.counted}
        all_counted = bool(routes) and all(route.counted for route in routes)
        by = "/".join(sorted(counters)) if all_counted else "none"
        gpus = tuple(gpu for route in routes for gpu in route.gpus)
        return cls(asked=routes[0].asked if routes else "", by=by, gpus=gpus, **sums)

    def percents(self) -> dict[str, float]:
        """Return the percentage of bytes by route: p2p, nvfs, posix, and direct (p2p plus nvfs)."""
        whole = max(self.bytes, self.accounted_bytes)
        parts = {"p2p": self.p2p_bytes, "nvfs": self.nvfs_bytes, "posix": self.posix_bytes}
        shares = {name: 100 * moved / whole for name, moved in parts.items()}
        return {"direct": shares["p2p"] + shares["nvfs"], **shares}


class Registration(DetailsTable):
    """Number of buffers and files registered with cuFile before the load, and the time it took."""

    buffers: int = 0
    bytes: int = 0
    ns: int = 0
    handles: int = 0
    handles_ns: int = 0


class Compared(DetailsTable):
    """Bytes in GPU memory that were compared with stored data, before or after the window."""

    files: int = 0
    bytes: int = 0
    ns: int = 0
    wrong: int = 0  # bytes of transfers with differences
    earlier: int = 0  # files compared by an earlier run and unchanged since


class GpuDirectDetails(Details):
    """Report on a GPUDirect run: GPUs, libraries, bytes by route, and comparisons of data."""

    gpus: tuple[GpuReport, ...] = ()
    libraries: LibrariesTold = LibrariesTold()
    route: RouteReport = RouteReport()
    load_device: DeviceMoved | None = None  # in the time that ``route`` covers
    registration: Registration | None = None
    first_pass: Compared | None = None
    read_back: Compared | None = None
    p2p: DirectStorage | None = None  # from a probe
    # For path = direct: reasons why transfers cannot have been direct on this machine.
    path_obstacles: tuple[str, ...] = ()
