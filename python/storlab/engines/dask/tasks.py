"""What Dask's workers carry out: the units of data frame libraries, and what they tell of it.

Dask does a task again when it has lost the worker, and a worker that was only thought lost may
still be at it. So a task writes in a directory of its own, and renames what is whole: either of
two leaves the same bytes.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from storlab import __version__
from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S
from storlab.engines.dask.tree import Stored, by_value, gathered, merged_by_value, store
from storlab.engines.dataframe.layout import CATEGORIES, Part, flush, id_type
from storlab.engines.dataframe.units import Unit
from storlab.engines.dataframe.vocabulary import KINDS, write_vocabulary
from storlab.engines.dataframe.worker import Files, Worker

ATTEMPT = ".attempt"
"""How the names of directories end that belong to one task."""
PACKAGES = ("dask", "distributed", "numpy", "pandas", "pyarrow")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATUS = Path("/proc/self/status")
_FORGET_PEAK = "5"  # what clear_refs takes, see proc_pid_clear_refs(5)
_COPY_BYTES = 1 << 20


class Reading(NamedTuple):
    """What a worker's process has used since it began."""

    worker: str  # its address
    host: str
    user_ns: int
    system_ns: int
    peak_bytes: int  # of resident memory, since it was last forgotten


class Result(NamedTuple):
    """What comes back of a unit."""

    latency_ns: int
    passes: int
    reading: Reading


class ClusterWorker(Worker):
    """Units of a run on a cluster whose processes share the run's directory."""

    @property
    def durable(self) -> bool:
        """Whether what is written is flushed at once: on another machine nobody else can do it."""
        return self.job.get("scheduler") is not None

    @property
    def most_values(self) -> int:
        """That are counted or merged at once."""
        return max(self.memory_bytes // self.library.bytes_per_value, 1)

    def ingest(self, part: Part) -> int:
        """One part to Parquet, then its sidecar."""
        with _attempt(part.parquet.parent) as place:
            own = replace(part, parquet=place / part.parquet.name)
            passes = super().ingest(own)
            own.parquet.replace(part.parquet)
            own.sidecar.replace(part.sidecar)
        if self.durable:
            flush([part.parquet.parent])
        return passes

    def count(self, column: str, files: Files, out: Stored) -> int:
        """How often each value of a column is there in some files."""
        paths = [path for path, _ in files]
        tally = self.library.count(paths, column, self.modulo, (0, self.modulo))
        self._store(out, iter([by_value(tally)]))
        return 1

    def merge(self, tallies: Sequence[Stored], out: Stored) -> int:
        """Some tallies become one."""
        self._store(out, merged_by_value(self.library, tallies, self.most_values))
        return 1

    def finish(self, column: str, tallies: Sequence[Stored]) -> int:
        """The last tallies of a column become its vocabulary."""
        vocabulary = self.directory / "vocabulary"
        most = self.most_values
        with _attempt(vocabulary) as place:
            blocks = merged_by_value(self.library, tallies, most // 2)
            ranges = gathered(blocks, most // 4)
            write_vocabulary(place, column, ranges, self.job["threshold"], most)
            for kind in (*KINDS, "json"):  # the last one says that it is there
                name = f"{column}.{kind}"
                (place / name).replace(vocabulary / name)
        if self.durable:
            flush([vocabulary])
        return 1

    def encode_features(self, files: Files, row: int, train: Path) -> int:
        """Labels and integers of files, which begin at a row of the output."""
        passes = super().encode_features(files, row, train)
        if self.durable:
            flush([train / "label.bin", train / "numerical.bin"])
        return passes

    def encode_column(self, column: str, files: Files, row: int, train: Path) -> int:
        """Ids of a column of files; how many passes it took.

        Several passes change what they have written, and must not do so in what another attempt
        has finished.
        """
        kept = (self.directory / "vocabulary" / f"{column}.values").stat().st_size // 4
        whole = train / f"cat_{CATEGORIES.index(column)}.bin"
        if kept <= self.ids_at_once():
            passes = super().encode_column(column, files, row, train)
        else:
            with _attempt(train.parent) as place:
                piece = place / whole.name
                piece.touch()
                passes = super().encode_column(column, files, 0, place)
                _copy(piece, whole, row * np.dtype(id_type(kept + 1)).itemsize)
        if self.durable:
            flush([whole])
        return passes

    def _store(self, out: Stored, tallies: Iterator[Any]) -> None:
        with _attempt(out.place) as place:
            own = out.moved(place)
            store(own, tallies)
            if self.durable:
                flush(own.paths)
            for path, whole in zip(own.paths, out.paths, strict=True):
                path.replace(whole)


@contextmanager
def _attempt(beside: Path) -> Iterator[Path]:
    place = beside / f"{uuid4().hex}{ATTEMPT}"
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def clear_attempts(directory: Path) -> None:
    """Remove what lost workers have left."""
    for place in [*directory.rglob(f"*{ATTEMPT}")]:
        shutil.rmtree(place, ignore_errors=True)


def _copy(source: Path, target: Path, offset: int) -> None:
    with source.open("rb") as piece, target.open("r+b") as file:
        file.seek(offset)
        while data := piece.read(_COPY_BYTES):
            file.write(data)


def carry_out(worker: Worker, unit: Unit) -> Result:
    """On a worker, in a thread of its own."""
    from distributed import get_worker

    start_ns = monotonic_ns()
    passes = unit.work(*unit.arguments)
    latency_ns = monotonic_ns() - start_ns
    worker.library.release()
    return Result(latency_ns, passes, reading(get_worker()))


def reading(dask_worker: Any) -> Reading:
    """Of the process of a worker, which calls this itself."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Reading(
        worker=dask_worker.address,
        host=host(),
        user_ns=round(used.ru_utime * NS_PER_S),
        system_ns=round(used.ru_stime * NS_PER_S),
        peak_bytes=peak_bytes(),
    )


def peak_bytes() -> int:
    """The most memory that this process had since it was last forgotten."""
    with suppress(OSError, ValueError, IndexError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget_peak() -> None:
    """Begin to look for the most memory anew, where the kernel lets us."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)


def host() -> str:
    """Which machine, or container, this is: equal for processes that share its processors."""
    boot = ""
    with suppress(OSError):
        boot = _BOOT_ID.read_text().strip()
    return f"{socket.gethostname()} {boot}".strip()


def about(nonce: str, dask_worker: Any) -> dict[str, Any]:
    """What the coordinator has to know of a worker before it gives it work."""
    seen = None
    with suppress(OSError):
        seen = Path(nonce).read_text()
    return {
        "storlab": __version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "host": host(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": int(dask_worker.state.nthreads),
        "memory_limit_bytes": dask_worker.memory_manager.memory_limit or None,
        "nonce": seen,
    }


def _version(name: str) -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return "missing"


def cool(paths: Sequence[Path]) -> None:
    """Flush files, and ask the kernel of this machine to forget them."""
    flush(paths, drop=True)
