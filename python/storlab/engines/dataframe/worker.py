"""What a worker does of each stage, within its share of the memory."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from storlab.engines.dataframe.layout import (
    CATEGORIES,
    INTEGERS,
    Part,
    aside,
    id_type,
    publish_json,
    settle,
)
from storlab.engines.dataframe.library import KEYS, Ids, Library, batches
from storlab.engines.dataframe.screen import Screen, owned_lines
from storlab.engines.dataframe.vocabulary import vocabulary_passes, write_vocabulary

_LEAST_CHUNK_BYTES = 1 << 20
_CHUNK_SHARE = 4  # of memory, for a byte that is parsed,
_CHUNK_ROW_BYTES = 450  # and for its row
_PART_ROW_BYTES = 224  # of a row in a part that is being made, and of its Parquet
_FEATURE_ROW_BYTES = 96  # of a row whose integers are read
_ID_ROW_BYTES = 64  # of a row whose ids are looked up
_MOST_ROWS = 1 << 18
_LEAST_ROW_BYTES = 40  # of text: a label and 39 tabs
_LEAST_VALUES = 4096
_SAMPLE_BYTES = 1 << 16

Files = Sequence[tuple[Path, int]]  # Parquet, with its rows


@dataclass(frozen=True)
class Worker:
    """What all units of a run have in common. ``row_bytes``: mean of the raw rows."""

    library: Library
    job: dict[str, Any]
    row_bytes: int

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
        """Of one worker, beside what its library takes in any case."""
        workers = int(self.job["workers"])
        fixed = self.library.base_bytes + self.library.worker_bytes * workers
        return max(0, int(self.job["memory_bytes"]) - fixed) // workers

    @property
    def chunk_bytes(self) -> int:
        """That are parsed at once."""
        room = self.memory_bytes - self._part_memory
        most = int(room / (_CHUNK_SHARE + _CHUNK_ROW_BYTES / self.row_bytes))
        return min(max(most, _LEAST_CHUNK_BYTES), self.library.chunk_bytes)

    @property
    def parts_at_once(self) -> int:
        """As many as there is memory for, and at least one."""
        share = _CHUNK_SHARE + _CHUNK_ROW_BYTES / self.row_bytes
        part_bytes = self._part_memory + share * self.chunk_bytes
        workers = int(self.job["workers"])
        return max(1, min(workers, int(self.memory_bytes * workers // part_bytes)))

    @property
    def _part_memory(self) -> int:
        return int(self.job["part_bytes"]) * _PART_ROW_BYTES // self.row_bytes

    def rows_at_once(self, row_bytes: int, least: int = 0) -> int:
        """That are encoded at once in a quarter of the memory, or those of one part."""
        return min(self.memory_bytes // 4 // row_bytes, max(_MOST_ROWS, least))

    def ids_at_once(self) -> int:
        """That are looked up in one pass, in the rest of the memory."""
        return max(self.memory_bytes // 4 * 3 // self.library.bytes_per_id, _LEAST_VALUES)

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
        fields = {
            "rows": rows,
            "lines": screen.lines,
            "malformed": dict(screen.reasons),
            "samples": screen.samples,
        }
        publish_json(part.sidecar, fields)
        return 1

    def vocabulary(self, column: str, files: Files) -> int:
        """The files of a column; how many passes that took."""
        room = self.memory_bytes // self.library.bytes_per_value
        largest = max(rows for _, rows in files)  # are counted before it is known how many fit
        most = max(room - largest, room // 2, _LEAST_VALUES)
        passes = vocabulary_passes(self.library, files, column, self.modulo, most)
        place = self.directory / "vocabulary"
        return write_vocabulary(place, column, passes, self.job["threshold"], most)

    def encode_features(self, files: Files, row: int, train: Path) -> int:
        """Labels and integers of files, which begin at a row of the output."""
        kind = np.dtype(self.job["numerical"]).newbyteorder("<")
        with (
            (train / "label.bin").open("r+b") as labels,
            (train / "numerical.bin").open("r+b") as numerical,
        ):
            labels.seek(row)
            numerical.seek(row * len(INTEGERS) * kind.itemsize)
            for paths in _paths(files, self.rows_at_once(_FEATURE_ROW_BYTES)):
                for piece in self.library.features(paths):
                    labels.write(piece.labels.tobytes())
                    numerical.write(piece.numbers.astype(kind, order="C").tobytes())
            _expect(files, labels.tell() - row)
        return 1

    def encode_column(self, column: str, files: Files, row: int, train: Path) -> int:
        """Ids of a column of files, which begin at a row of the output; how many passes it took.

        Each pass looks up a slice of the ids that fits into memory, and keeps those of earlier
        ones: of a row at most one pass finds an id, and 0 is none.
        """
        vocabulary = self.directory / "vocabulary" / f"{column}.values"
        kept = vocabulary.stat().st_size // 4
        kind = np.dtype(id_type(kept + 1)).newbyteorder("<")
        most = self.ids_at_once()
        # What a library makes of a vocabulary for each batch is worth as many rows.
        rows = self.rows_at_once(_ID_ROW_BYTES, least=min(kept, most))
        skips = range(0, max(kept, 1), most)
        with (train / f"cat_{CATEGORIES.index(column)}.bin").open("r+b") as file:
            for skip in skips:
                index = self.library.index(np.fromfile(vocabulary, "<u4", most, offset=4 * skip))
                file.seek(row * kind.itemsize)
                for paths in _paths(files, rows):
                    ids = self.library.ids(paths, column, self.modulo, index)
                    _write_ids(file, ids, kind, skip)
                _expect(files, file.tell() // kind.itemsize - row)
        return len(skips)


def _write_ids(file: BinaryIO, ids: Ids, kind: np.dtype[Any], skip: int) -> None:
    """Ids, which count from 1 in a slice that follows ``skip`` others, and those that are there."""
    if skip:
        at = file.tell()
        before = np.frombuffer(file.read(len(ids) * kind.itemsize), kind)
        file.seek(at)
        ids = np.where(ids > 0, ids + np.int32(skip), before)
    file.write(ids.astype(kind).tobytes())


def _paths(files: Files, rows: int) -> Iterator[list[Path]]:
    return ([path for path, _ in batch] for batch in batches(files, rows))


def _expect(files: Files, count: int) -> None:
    """Raises OSError where files have other rows than ingest found, so that others lie wrong."""
    due = sum(rows for _, rows in files)
    if count != due:
        words = f"this and what follows have {count:,} rows, and {due:,} were due; begin anew"
        raise OSError(errno.EIO, words, str(files[0][0]))


def mean_row_bytes(inputs: Iterable[str]) -> int:
    """Of raw rows at the beginning of a file: of the one that has the shortest."""
    samples = []
    for path in inputs:
        with Path(path).open("rb") as file:
            samples.append(file.read(_SAMPLE_BYTES))
    means = (len(data) // max(1, data.count(b"\n")) for data in samples if data)
    return max(min(means, default=0), _LEAST_ROW_BYTES)
