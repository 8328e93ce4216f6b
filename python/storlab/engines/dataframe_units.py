"""Units of work, and the workers that carry them out: processes, or threads of one process."""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from storlab.base.clock import monotonic_ns
from storlab.engines.dataframe_layout import (
    CATEGORIES,
    INTEGERS,
    Part,
    aside,
    id_type,
    publish,
    publish_json,
    settle,
)
from storlab.engines.dataframe_library import (
    KEYS,
    Library,
    batches,
    in_id_order,
    vocabulary_passes,
)
from storlab.engines.dataframe_screen import Screen, owned_lines

_LEAST_CHUNK_BYTES = 1 << 20
_CHUNK_SHARE = 6  # a chunk, the columns of its text and their numbers, as multiples of a chunk
_PART_SHARE = 1.5  # columns of a part, and their Parquet, as multiples of its bytes
_ROW_BYTES = 512  # of memory, to encode the integers of a row
_MOST_ROWS = 1 << 18
_LEAST_VALUES = 4096
_LOOK_S = 0.5
_PR_SET_PDEATHSIG = 1
_PARENT = os.getppid()


class Unit(NamedTuple):
    """What a worker does at once, and what it reads for it."""

    work: Callable[..., int]  # says how many passes over its input it took
    arguments: tuple[Any, ...]
    bytes: int = 0  # of raw input
    columns: tuple[str, ...] = ()  # of Parquet files, of which it reads one of ``share``
    share: int = 1


class Done(NamedTuple):
    """A unit that a worker has carried out."""

    unit: Unit
    start_ns: int
    end_ns: int
    passes: int


@dataclass(frozen=True)
class Worker:
    """What all units of a run have in common."""

    library: Library
    job: dict[str, Any]

    @property
    def directory(self) -> Path:
        """Of the run."""
        return Path(self.job["directory"])

    @property
    def modulo(self) -> int:
        """Categories are below it."""
        return int(self.job["modulo"] or KEYS)

    @property
    def memory_bytes(self) -> int:
        """Of one worker."""
        return int(self.job["memory_bytes"]) // int(self.job["workers"])

    @property
    def chunk_bytes(self) -> int:
        """That are parsed at once."""
        room = self.memory_bytes - _PART_SHARE * self.job["part_bytes"]
        return int(min(max(room // _CHUNK_SHARE, _LEAST_CHUNK_BYTES), self.library.chunk_bytes))

    @property
    def parts_at_once(self) -> int:
        """As many as there is memory for, and at least one."""
        each = _PART_SHARE * self.job["part_bytes"] + _CHUNK_SHARE * self.chunk_bytes
        return max(1, min(int(self.job["workers"]), int(self.job["memory_bytes"] // each)))

    @property
    def rows_at_once(self) -> int:
        """That are encoded at once, or those of one part."""
        return min(self.memory_bytes // _ROW_BYTES, _MOST_ROWS)

    def ingest(self, part: Part) -> int:
        """One part to Parquet, then its sidecar."""
        screen: Screen[Any] = Screen(
            self.library.parse, self.library.errors, self.job["malformed_samples"]
        )
        for lines in owned_lines(Path(part.source), part.start, part.end, self.chunk_bytes):
            screen.add(lines)
        job = self.job
        rows = self.library.write(
            screen.frames, aside(part.parquet), job["row_group_rows"], job["compression"]
        )
        settle(part.parquet)
        said = {
            "rows": rows,
            "lines": screen.lines,
            "malformed": dict(screen.reasons),
            "samples": screen.samples,
        }
        publish_json(part.sidecar, said)
        return 1

    def vocabulary(self, column: str, files: list[tuple[Path, int]]) -> int:
        """The files of a column; how many passes that took."""
        most = max(self.memory_bytes // self.library.bytes_per_value, _LEAST_VALUES)
        threshold = self.job["threshold"]
        kept, distinct = [], 0
        for tally in vocabulary_passes(self.library, files, column, self.modulo, most):
            kept.append(in_id_order([tally], threshold))
            distinct += len(tally.values)
        whole = in_id_order(kept, threshold)
        place = self.directory / "vocabulary"
        publish(place / f"{column}.values", whole.values.astype("<u4").tobytes())
        publish(place / f"{column}.counts", whole.counts.astype("<u8").tobytes())
        said = {"kept": len(whole.values), "distinct": distinct}
        publish_json(place / f"{column}.json", said)
        return len(kept)

    def encode_features(self, files: list[tuple[Path, int]], row: int, train: Path) -> int:
        """Labels and integers of files, which begin at a row of the output."""
        kind = np.dtype(self.job["numerical"]).newbyteorder("<")
        with (
            (train / "label.bin").open("r+b") as labels,
            (train / "numerical.bin").open("r+b") as numerical,
        ):
            labels.seek(row)
            numerical.seek(row * len(INTEGERS) * kind.itemsize)
            for paths in batches(files, self.rows_at_once):
                label, features = self.library.features(paths)
                labels.write(label.tobytes())
                numerical.write(features.astype(kind, order="C").tobytes())
            _expect(files, labels.tell() - row)
        return 1

    def encode_column(
        self, column: str, files: list[tuple[Path, int]], row: int, train: Path
    ) -> int:
        """Ids of a column of files, which begin at a row of the output."""
        values = np.fromfile(self.directory / "vocabulary" / f"{column}.values", dtype="<u4")
        kind = np.dtype(id_type(len(values) + 1)).newbyteorder("<")
        index = self.library.index(values)
        with (train / f"cat_{CATEGORIES.index(column)}.bin").open("r+b") as file:
            file.seek(row * kind.itemsize)
            for paths in batches(files, self.rows_at_once):
                ids = self.library.ids(paths, column, self.modulo, index)
                file.write(ids.astype(kind).tobytes())
            _expect(files, file.tell() // kind.itemsize - row)
        return 1


def _expect(files: list[tuple[Path, int]], found: int) -> None:
    """Raises OSError where files have other rows than ingest found, so that others lie wrong."""
    due = sum(rows for _, rows in files)
    if found != due:
        words = f"this and what follows have {found:,} rows, and {due:,} were due; begin anew"
        raise OSError(errno.EIO, words, str(files[0][0]))


def pool_of(library: Library, workers: int) -> Executor:
    """Workers that have been started."""
    if library.threads:
        return ThreadPoolExecutor(workers)
    context = multiprocessing.get_context("fork")  # so that libraries are imported once
    pool = ProcessPoolExecutor(workers, context, initializer=_follow, initargs=(os.getpid(),))
    pool.submit(os.getpid).result()
    return pool


def _follow(parent: int) -> None:
    """A worker ends with the coordinator, which alone hears of interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def carry_out(pool: Executor, units: Iterable[Unit], at_once: int) -> Iterator[Done]:
    """Units as they end. The first error of one is raised; so is ``Orphaned``."""
    left = iter(units)
    going: dict[Future[Any], Unit] = {}
    while True:
        for unit in islice(left, at_once - len(going)):
            going[pool.submit(_timed, unit.work, unit.arguments)] = unit
        if not going:
            return
        ended, _ = wait(going, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
        if os.getppid() != _PARENT:
            raise OrphanedError
        for future in ended:
            yield Done(going.pop(future), *future.result())


class OrphanedError(Exception):
    """Storlab has gone."""


def _timed(work: Callable[..., int], arguments: tuple[Any, ...]) -> tuple[int, int, int]:
    start_ns = monotonic_ns()
    passes = work(*arguments)
    return start_ns, monotonic_ns(), passes
