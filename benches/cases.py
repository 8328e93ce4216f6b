"""Cases and goals of the block bench. Goals are ratios within one interleaved run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tools import Load, Tool, bare, best_flags, elbencho, fio, fio_path, native, t_io_uring

from storlab.engines.fio.job import huge_page_tunables

GIB = 1 << 30
FIO_DEFAULT = "fio"
FIO_BEST = "fio, best flags"  # at the batch size of the case
BARE = "bare probe"
FIO_HUGE = "fio, huge pages"  # with huge-page buffers like storlab's, which speed up large I/O
T_IO_URING = "t/io_uring"


@dataclass(frozen=True)
class Goal:
    """Limit on the ratio of a ``quantity`` of storlab to that of ``peer``."""

    peer: str
    quantity: str
    limit: float
    at_least: bool = False

    def met(self, ratio: float) -> bool:
        """Return whether the ratio is on the right side of the limit."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit


@dataclass(frozen=True)
class Case:
    """A load, the batch size of storlab and its peers, and the goals."""

    name: str
    load: Load
    batch: int
    goals: tuple[Goal, ...]
    reads_only_peers: bool = False  # t/io_uring only reads
    filesystem: bool = True  # elbencho needs a file or device it can open

    @property
    def native_tool(self) -> Tool:
        """storlab's engine with the batch size of the case."""
        return native(self.batch)


CPU = "cpu_us_per_io"
EQUAL_ON_DISK = (
    Goal(FIO_BEST, CPU, 1.00),
    Goal(FIO_BEST, "iops", 0.95, at_least=True),
    Goal(FIO_BEST, "latency_mean_us", 1.05),
    Goal(FIO_HUGE, "iops", 0.95, at_least=True),
)
# Most of the remaining CPU time is the kernel's, so only goals beside lean tools make sense.
HOT = (Goal(BARE, CPU, 1.15), Goal(T_IO_URING, CPU, 1.05))
# tmpfs hands io_uring reads to kernel workers, a cost that no load generator can reduce.
TMPFS = (Goal(FIO_BEST, CPU, 1.00), Goal(T_IO_URING, CPU, 1.10))


def cases(disk_file: Path, memory_file: Path, size: int) -> list[Case]:
    """Return the cases, from no I/O at all to the real disk."""
    hot = Load(str(disk_file), size)
    tmpfs = Load(str(memory_file), size)
    cold = Load(str(disk_file), size, direct=True)
    medium = Load(str(disk_file), size, block=256 << 10, read_percent=70, direct=True)
    large = Load(str(disk_file), size, block=4 << 20, read_percent=50, direct=True)
    sink = Load("/dev/null", size, read_percent=0, access="sequential")
    return [
        Case("null", Load("null:", size), 32, (Goal(FIO_DEFAULT, CPU, 0.20),), True, False),
        Case("devnull", sink, 32, (Goal(BARE, CPU, 1.15),)),
        Case("hot", hot, 32, HOT, True),
        Case("tmpfs", tmpfs, 32, TMPFS, True),
        Case("disk-4k", cold, 1, EQUAL_ON_DISK, True),
        Case("disk-4k-batched", cold, 32, EQUAL_ON_DISK[:3], True),
        Case("disk-256k", medium, 1, EQUAL_ON_DISK),
        Case("disk-4m", large, 1, EQUAL_ON_DISK),
    ]


def tools_for(case: Case) -> list[Tool]:
    """Return storlab, then the installed peers that can run the load."""
    tools = [case.native_tool]
    program = fio_path()
    if program is not None:
        tools.append(fio(FIO_DEFAULT, program))
        if case.filesystem:
            tools.append(fio(FIO_BEST, program, *best_flags(case.batch)))
        if case.load.direct:
            tools.append(fio(FIO_HUGE, program, tunables=huge_page_tunables()))
    if case.filesystem and case.load.read_percent in (0, 100):
        tools.append(bare(case.batch))
    probe = os.environ.get("T_IO_URING")
    if probe and case.reads_only_peers:
        tools.append(t_io_uring(probe, case.batch))
    bench = shutil.which("elbencho")
    if bench is not None and case.filesystem and case.load.read_percent in (0, 100):
        tools.append(elbencho(bench))
    return tools


@contextmanager
def data_files(directory: Path, memory: Path, size: int) -> Iterator[tuple[Path, Path]]:
    """Provide a file of random bytes on the disk and one on tmpfs; remove both at the end."""
    files = directory / "storlab-bench.data", memory / "storlab-bench.data"
    try:
        for file in files:
            chunk = os.urandom(1 << 20)
            with file.open("wb") as out:
                for index in range(size >> 20):
                    out.write(index.to_bytes(8, "little") + chunk[8:])
                out.flush()
                os.fsync(out.fileno())
        yield files
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def warm(file: Path) -> None:
    """Read a file into the page cache."""
    with file.open("rb", buffering=0) as data:
        while data.read(1 << 24):
            pass


def verdict(text: str, values: list[float], met: Callable[[float], bool]) -> dict[str, Any]:
    """Return a goal with the median and whether it is met; None without values."""
    if not values:
        return {"goal": text, "value": None, "lowest": None, "highest": None, "met": None}
    return {
        "goal": text,
        "value": median(values),
        "lowest": min(values),
        "highest": max(values),
        "met": met(median(values)),
    }
