"""Functions that Dask workers execute: the units of a preprocessing run, and their measurements.

If Dask loses the connection to a worker, it repeats the worker's task, although the first attempt
may still be running. So each attempt writes to its own directory and renames complete files. Two
attempts at a task leave the same bytes.
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
"""Suffix of the directory to which one attempt at a task writes."""
PACKAGES = ("dask", "distributed", "numpy", "pandas", "pyarrow")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATUS = Path("/proc/self/status")
_FORGET_PEAK = "5"  # value that resets the peak of resident memory: see proc_pid_clear_refs(5)
_COPY_BYTES = 1 << 20


class Reading(NamedTuple):
    """CPU time and peak memory of a Dask worker process at one moment."""

    worker: str  # Dask address
    host: str
    user_ns: int
    system_ns: int
    peak_bytes: int  # peak of resident memory since the last reset


class Result(NamedTuple):
    """Latency of a unit of work, how often it read the data, and its worker's CPU and memory."""

    latency_ns: int
    passes: int
    reading: Reading


class ClusterWorker(Worker):
    """Units of work that a Dask worker can execute, in a directory shared by all workers."""

    @property
    def durable(self) -> bool:
        """Whether each unit flushes its output, because the coordinator cannot flush remotely."""
        return self.job.get("scheduler") is not None

    @property
    def most_values(self) -> int:
        """Number of values that may be counted or merged at once within the memory limit."""
        return max(self.memory_bytes // self.library.bytes_per_value, 1)

    def ingest(self, part: Part) -> int:
        """Convert an input part to Parquet, and count its lines. Return the number of passes, 1."""
        with _attempt(part.parquet.parent) as place:
            own = replace(part, parquet=place / part.parquet.name)
            passes = super().ingest(own)
            own.parquet.replace(part.parquet)
            own.sidecar.replace(part.sidecar)
        if self.durable:
            flush([part.parquet.parent])
        return passes

    def count(self, column: str, files: Files, out: Stored) -> int:
        """Count the distinct values of a column in some files and store the counts at ``out``.

        Return how many times the column was read, which is 1.
        """
        paths = [path for path, _ in files]
        tally = self.library.count(paths, column, self.modulo, (0, self.modulo))
        self._store(out, iter([by_value(tally)]))
        return 1

    def merge(self, tallies: Sequence[Stored], out: Stored) -> int:
        """Merge stored value counts and store them at ``out``. Return the number of passes, 1."""
        self._store(out, merged_by_value(self.library, tallies, self.most_values))
        return 1

    def finish(self, column: str, tallies: Sequence[Stored]) -> int:
        """Merge value counts into a column's vocabulary. Return the number of passes, 1."""
        vocabulary = self.directory / "vocabulary"
        most = self.most_values
        with _attempt(vocabulary) as place:
            blocks = merged_by_value(self.library, tallies, most // 2)
            ranges = gathered(blocks, most // 4)
            write_vocabulary(place, column, ranges, self.job["threshold"], most)
            for kind in (*KINDS, "json"):  # JSON last: its presence marks a complete vocabulary
                name = f"{column}.{kind}"
                (place / name).replace(vocabulary / name)
        if self.durable:
            flush([vocabulary])
        return 1

    def encode_features(self, files: Files, row: int, train: Path) -> int:
        """Encode labels and integer features of some files. Return the number of passes, 1.

        Args:
            files: Parquet files with their numbers of rows.
            row: The output row at which the files begin.
            train: The directory of the output.
        """
        passes = super().encode_features(files, row, train)
        if self.durable:
            flush([train / "label.bin", train / "numerical.bin"])
        return passes

    def encode_column(self, column: str, files: Files, row: int, train: Path) -> int:
        """Encode a categorical column of some files as ids. Return the number of passes.

        If the vocabulary does not fit in memory, each pass looks up a part of it and modifies the
        output of earlier passes. Several passes therefore work on a private file, so that they
        never change the finished output of another attempt at this task.
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
    """Remove directories in which lost workers left unfinished output."""
    for place in [*directory.rglob(f"*{ATTEMPT}")]:
        shutil.rmtree(place, ignore_errors=True)


def _copy(source: Path, target: Path, offset: int) -> None:
    with source.open("rb") as piece, target.open("r+b") as file:
        file.seek(offset)
        while data := piece.read(_COPY_BYTES):
            file.write(data)


def carry_out(worker: Worker, unit: Unit) -> Result:
    """Execute a unit on a Dask worker and return its latency, passes and resource use."""
    from distributed import get_worker

    start_ns = monotonic_ns()
    passes = unit.work(*unit.arguments)
    latency_ns = monotonic_ns() - start_ns
    worker.library.release()
    return Result(latency_ns, passes, reading(get_worker()))


def reading(dask_worker: Any) -> Reading:
    """Return the CPU time and peak memory of this Dask worker process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Reading(
        worker=dask_worker.address,
        host=host(),
        user_ns=round(used.ru_utime * NS_PER_S),
        system_ns=round(used.ru_stime * NS_PER_S),
        peak_bytes=peak_bytes(),
    )


def peak_bytes() -> int:
    """Return this process's peak resident memory since the last reset, in bytes."""
    with suppress(OSError, ValueError, IndexError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def reset_peak() -> None:
    """Reset the peak of resident memory of this process, if the kernel permits it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)


def host() -> str:
    """Return an id of this machine or container: its host name and boot id."""
    boot = ""
    with suppress(OSError):
        boot = _BOOT_ID.read_text().strip()
    return f"{socket.gethostname()} {boot}".strip()


def about(nonce: str, dask_worker: Any) -> dict[str, Any]:
    """Describe this worker to the coordinator: versions, host, limits, and the nonce it reads.

    Args:
        nonce: Path of a file that the coordinator wrote; its content proves that this worker
            sees the shared directory.
        dask_worker: This worker; Dask passes it.
    """
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


def drop_page_cache(paths: Sequence[Path]) -> None:
    """Flush files and drop them from the page cache of this host."""
    flush(paths, drop=True)
