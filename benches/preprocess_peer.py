"""Base of the programs that run the preprocessing pipeline with a library.

Such a program reads a ``PreprocessJob`` from stdin and prints its stages' times as JSON. Except for
Parquet, its files equal those of storlab's engines. It rejects malformed lines only as far as its
library's types do.
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
    """One run of the pipeline. Each stage yields its files, which are flushed at its end."""

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
        """Convert text to Parquet files whose names sort in row order; yield their paths."""

    @abstractmethod
    def vocabulary(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the kept values in order of their ids, and their counts."""

    @abstractmethod
    def labels(self) -> Iterator[np.ndarray]:
        """Yield the labels of all rows in chunks, like the methods below."""

    @abstractmethod
    def numerical(self) -> Iterator[np.ndarray]:
        """Yield chunks of shape rows x 13."""

    @abstractmethod
    def ids(self, column: str) -> Iterator[np.ndarray]:
        """Yield ids, in the smallest type that fits the cardinality."""

    @property
    def files(self) -> list[Path]:
        """Files written by ``ingest``, sorted."""
        return sorted(self.parquet.iterdir())

    def run(self) -> Iterator[dict[str, Any]]:
        """Run the stages and yield the measurements of each."""
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
    """Run the job given on stdin and print its stages as JSON."""
    job = PreprocessJob.model_validate(json.load(sys.stdin))
    stages = list(peer(job).run())
    json.dump({"stages": stages, "version": peer.version}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # exits without freeing memory, which takes time
