"""What programs that do the pipeline of preprocessing with a library have in common.

Such a program gets an order (``PreprocessJob``) on stdin, and prints what its stages took as JSON.
Its files other than Parquet are equal to those of storlab's engines. Of malformed lines it finds
what the types of its library refuse.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from storlab.base.clock import monotonic_ns
from storlab.engines.dataframe.layout import CATEGORIES, feature_spec, flush
from storlab.workloads.preprocess.job import PreprocessJob


class Peer(ABC):
    """One run. A stage names the files that it writes, which are durable when it ends."""

    version: str

    def __init__(self, job: PreprocessJob) -> None:
        self.job = job
        self.parquet, self._vocabularies, binary = (
            Path(job.directory) / name for name in ("parquet", "vocabulary", "binary")
        )
        self._train = binary / "train"
        for place in (self.parquet, self._vocabularies, self._train):
            place.mkdir(parents=True)
        self.cardinalities: dict[str, int] = {}

    @abstractmethod
    def ingest(self, inputs: list[Path]) -> Iterator[Path]:
        """Text to Parquet, in files whose names sort as their rows do."""

    @abstractmethod
    def vocabulary(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Values that are kept, in the order of their ids, and their counts."""

    @abstractmethod
    def labels(self) -> Iterator[np.ndarray]:
        """Of all rows, in pieces. So are the others."""

    @abstractmethod
    def numerical(self) -> Iterator[np.ndarray]:
        """Rows x 13."""

    @abstractmethod
    def ids(self, column: str) -> Iterator[np.ndarray]:
        """Of the type that the cardinality asks for."""

    @property
    def files(self) -> list[Path]:
        """What ``ingest`` wrote."""
        return sorted(self.parquet.iterdir())

    def run(self) -> Iterator[dict[str, Any]]:
        """What each stage took."""
        inputs = [Path(source) for source in self.job.inputs]
        yield self._timed("ingest", inputs, self.ingest(inputs))
        yield self._timed("vocabulary", self.files, self._all_vocabularies())
        yield self._timed("encode", self.files, self._encode())

    def _timed(self, name: str, inputs: list[Path], outputs: Iterator[Path]) -> dict[str, Any]:
        if self.job.cold:
            flush(inputs, drop=True)
        start_ns, cpu_ns = monotonic_ns(), _cpu_ns()
        written = list(outputs)
        flush([*written, *{path.parent for path in written}])
        return {
            "name": name,
            "start_ns": start_ns,
            "end_ns": monotonic_ns(),
            "cpu_ns": _cpu_ns() - cpu_ns,
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    def _all_vocabularies(self) -> Iterator[Path]:
        for column in CATEGORIES:
            values, counts = self.vocabulary(column)
            self.cardinalities[column] = len(values) + 1
            for array, kind, suffix in ((values, "<u4", "values"), (counts, "<u8", "counts")):
                path = self._vocabularies / f"{column}.{suffix}"
                array.astype(kind).tofile(path)
                yield path

    def _encode(self) -> Iterator[Path]:
        yield self._write("label.bin", self.labels())
        yield self._write("numerical.bin", self.numerical())
        for number, column in enumerate(CATEGORIES):
            yield self._write(f"cat_{number}.bin", self.ids(column))
        spec = self._train.parent / "feature_spec.yaml"
        spec.write_text(feature_spec(list(self.cardinalities.values()), self.job.numerical))
        yield spec

    def _write(self, name: str, arrays: Iterable[np.ndarray]) -> Path:
        path = self._train / name
        with path.open("wb") as file:
            for array in arrays:
                array.tofile(file)
        return path


def _cpu_ns() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)


def main(peer: type[Peer]) -> None:
    """Carry out the order on stdin."""
    job = PreprocessJob.model_validate(json.load(sys.stdin))
    stages = list(peer(job).run())
    json.dump({"stages": stages, "version": peer.version}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # what it holds in memory needs no tidying up
