"""Preprocessing pipeline in plain pandas; see ``preprocess_peer`` for the interface.

Written in the usual way: ``read_csv`` in chunks, ``to_parquet``, ``value_counts`` and ``map``. The
engine ``pandas`` uses PyArrow for text and indexes for lookups, so it needs less time.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from preprocess_peer import Peer, main

from storlab.engines.dataframe.layout import CATEGORIES, COLUMNS, INTEGERS, id_type
from storlab.workloads.preprocess.job import PreprocessJob

_TYPES = {"label": "int8", **dict.fromkeys(INTEGERS, "Int32")}
_MISSING = -1


class Pandas(Peer):
    """Pipeline in one process and thread, one chunk of rows at a time."""

    version = pd.__version__

    def __init__(self, job: PreprocessJob) -> None:
        super().__init__(job)
        self._ids: dict[str, pd.Series] = {}

    def ingest(self, inputs: list[Path]) -> Iterator[Path]:
        """Write one Parquet file per chunk."""
        codec = None if self.job.compression == "none" else self.job.compression
        for index, source in enumerate(inputs):
            chunks = pd.read_csv(
                source,
                sep="\t",
                names=COLUMNS,
                dtype=_TYPES,
                converters=dict.fromkeys(CATEGORIES, _number),
                keep_default_na=False,
                na_values=[""],
                quoting=csv.QUOTE_NONE,
                chunksize=self.job.row_group_rows,
            )
            for number, chunk in enumerate(chunks):
                for name in CATEGORIES:
                    chunk[name] = chunk[name].mask(chunk[name] == _MISSING).astype("UInt32")
                path = self.parquet / f"{index:03}-{number:05}.parquet"
                chunk.to_parquet(path, compression=codec, index=False)
                yield path

    def vocabulary(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Count values by ``value_counts`` and keep their ids for ``map``."""
        values = pd.concat([self._column(path, column) for path in self.files])
        counts = values.value_counts().rename("count").reset_index()
        kept = counts[counts["count"] >= self.job.threshold].sort_values(
            ["count", column], ascending=[False, True]
        )
        self._ids[column] = pd.Series(np.arange(1, len(kept) + 1), index=kept[column])
        return kept[column].to_numpy(np.uint32), kept["count"].to_numpy(np.uint64)

    def labels(self) -> Iterator[np.ndarray]:
        for path in self.files:
            yield self._column(path, "label").to_numpy()

    def numerical(self) -> Iterator[np.ndarray]:
        """Apply NumPy's ``log`` to each frame."""
        for path in self.files:
            integers = pd.read_parquet(path, columns=list(INTEGERS)).astype("Float64")
            rows = np.log(integers.fillna(-2).clip(lower=-2) + 3).to_numpy(np.float64)
            yield rows.astype(self.job.numerical, order="C")

    def ids(self, column: str) -> Iterator[np.ndarray]:
        """Look up ids by ``map`` with a series."""
        kind = id_type(self.cardinalities[column])
        for path in self.files:
            places = self._column(path, column).map(self._ids[column])
            yield places.fillna(0).to_numpy(kind)

    def _column(self, path: Path, name: str) -> pd.Series:
        return pd.read_parquet(path, columns=[name])[name]


def _number(text: str) -> int:
    return int(text, 16) if text else _MISSING


if __name__ == "__main__":
    main(Pandas)
