"""Work of one unit in each preprocessing stage, within the memory limit of a worker."""

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
from storlab.engines.dataframe.screen import LineValidator, owned_lines
from storlab.engines.dataframe.vocabulary import vocabulary_passes, write_vocabulary

_LEAST_CHUNK_BYTES = 1 << 20
_CHUNK_SHARE = 4  # bytes of memory per byte of text that is parsed
_CHUNK_ROW_BYTES = 450  # memory per row that is parsed
_PART_ROW_BYTES = 224  # memory per row of a part being built, with its Parquet
_FEATURE_ROW_BYTES = 96  # memory per row whose integers are read
_ID_ROW_BYTES = 64  # memory per row whose ids are looked up
_MOST_ROWS = 1 << 18
_LEAST_ROW_BYTES = 40  # of text: a label and 39 tabs
_LEAST_VALUES = 4096
_SAMPLE_BYTES = 1 << 16

Files = Sequence[tuple[Path, int]]  # Parquet files with their rows


@dataclass(frozen=True)
class Worker:
    """Settings of a preprocessing run, and the work of its units, which use these settings.

    ``row_bytes`` is the mean length of an input row, in bytes.
    """

    library: Library
    job: dict[str, Any]
    row_bytes: int

    @property
    def directory(self) -> Path:
        """Directory that holds all files of the preprocessing run."""
        return Path(self.job["directory"])

    @property
    def modulo(self) -> int:
        """Modulus by which categorical values are reduced before they are counted."""
        return int(self.job["modulo"] or KEYS)

    @property
    def memory_bytes(self) -> int:
        """Memory that one worker may use for data, in bytes: its part of the job's limit.

        Memory that the library takes even when idle is already subtracted.
        """
        workers = int(self.job["workers"])
        fixed = self.library.base_bytes + self.library.worker_bytes * workers
        return max(0, int(self.job["memory_bytes"]) - fixed) // workers

    @property
    def chunk_bytes(self) -> int:
        """Number of bytes of text that a worker parses at once."""
        room = self.memory_bytes - self._part_memory
        most = int(room / (_CHUNK_SHARE + _CHUNK_ROW_BYTES / self.row_bytes))
        return min(max(most, _LEAST_CHUNK_BYTES), self.library.chunk_bytes)

    @property
    def parts_at_once(self) -> int:
        """Number of input parts that fit into memory at once; at least 1."""
        share = _CHUNK_SHARE + _CHUNK_ROW_BYTES / self.row_bytes
        part_bytes = self._part_memory + share * self.chunk_bytes
        workers = int(self.job["workers"])
        return max(1, min(workers, int(self.memory_bytes * workers // part_bytes)))

    @property
    def _part_memory(self) -> int:
        return int(self.job["part_bytes"]) * _PART_ROW_BYTES // self.row_bytes

    def rows_at_once(self, row_bytes: int, least: int = 0) -> int:
        """Return how many rows to encode at once: those that fit into a quarter of the memory.

        Args:
            row_bytes: Memory per row, in bytes.
            least: A number of rows to which the fixed limit ``_MOST_ROWS`` is raised.
        """
        return min(self.memory_bytes // 4 // row_bytes, max(_MOST_ROWS, least))

    def ids_at_once(self) -> int:
        """Return how many vocabulary values one pass looks up, in 3/4 of a worker's memory."""
        return max(self.memory_bytes // 4 * 3 // self.library.bytes_per_id, _LEAST_VALUES)

    def ingest(self, part: Part) -> int:
        """Convert an input part to Parquet, and count its lines. Return the number of passes, 1."""
        screen: LineValidator[Any] = LineValidator(
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
        """Build the vocabulary of a column. Return how many times the column was read."""
        room = self.memory_bytes // self.library.bytes_per_value
        # Reserve memory for the largest file: its values are counted before they are known to fit.
        largest = max(rows for _, rows in files)
        most = max(room - largest, room // 2, _LEAST_VALUES)
        passes = vocabulary_passes(self.library, files, column, self.modulo, most)
        place = self.directory / "vocabulary"
        return write_vocabulary(place, column, passes, self.job["threshold"], most)

    def encode_features(self, files: Files, row: int, train: Path) -> int:
        """Encode labels and integer features of some files. Return the number of passes, 1.

        Args:
            files: Parquet files with their numbers of rows.
            row: The output row at which the files begin.
            train: The directory of the output.
        """
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
        """Encode a categorical column of some files as ids. Return the number of passes.

        Each pass looks up a slice of the vocabulary that fits into memory and keeps the ids that
        earlier passes wrote. A row whose value is in no slice gets id 0.

        Args:
            column: The name of the column.
            files: Parquet files with their numbers of rows.
            row: The output row at which the files begin.
            train: The directory of the output.
        """
        vocabulary = self.directory / "vocabulary" / f"{column}.values"
        kept = vocabulary.stat().st_size // 4
        kind = np.dtype(id_type(kept + 1)).newbyteorder("<")
        most = self.ids_at_once()
        # Each batch rebuilds the lookup structure, which takes as long as looking up as many rows
        # as it has values. So a batch has at least as many rows as values.
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
    """Write ids of a vocabulary slice that starts after ``skip`` values.

    Rows without an id in this slice keep the id that an earlier pass wrote.
    """
    if skip:
        at = file.tell()
        before = np.frombuffer(file.read(len(ids) * kind.itemsize), kind)
        file.seek(at)
        ids = np.where(ids > 0, ids + np.int32(skip), before)
    file.write(ids.astype(kind).tobytes())


def _paths(files: Files, rows: int) -> Iterator[list[Path]]:
    return ([path for path, _ in batch] for batch in batches(files, rows))


def _expect(files: Files, count: int) -> None:
    """Raise OSError if the number of rows read differs from the number that ingest counted.

    If it did not fail, later rows would be written at wrong positions.
    """
    due = sum(rows for _, rows in files)
    if count != due:
        words = f"{count:,} rows from this file on, but ingest counted {due:,}; start over"
        raise OSError(errno.EIO, words, str(files[0][0]))


def mean_row_bytes(inputs: Iterable[str]) -> int:
    """Return the mean length of a row in bytes, estimated from the beginning of the inputs.

    If inputs differ, the shortest mean is returned.
    """
    samples = []
    for path in inputs:
        with Path(path).open("rb") as file:
            samples.append(file.read(_SAMPLE_BYTES))
    means = (len(data) // max(1, data.count(b"\n")) for data in samples if data)
    return max(min(means, default=0), _LEAST_ROW_BYTES)
