"""Store the records of a history site's directories in an index file, so each is read only once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic_core import from_json

from storlab.base.errors import UsageError
from storlab.base.files import directory_problem
from storlab.history.record import Record

NAME = "storlab-history.arrow"
_PAGES = b"pages"  # metadata key of the schema for the list of the site's files
_FIELDS: list[pa.Field[Any]] = [
    pa.field("directory", pa.large_binary()),  # binary, because file names need not be valid text
    pa.field("plan_hash", pa.large_string()),
    pa.field("fingerprint", pa.large_string()),
    pa.field("record", pa.large_string()),
]
_SCHEMA = pa.schema(_FIELDS)


@dataclass(frozen=True, slots=True)
class Kept:
    """Record of a result directory as JSON, with the directory's fingerprint when it was read."""

    fingerprint: str
    plan_hash: str
    text: str

    @property
    def record(self) -> Record:
        """Record of the result directory, parsed from JSON."""
        # pydantic_core parses JSON in half the time of the json module.
        record: Record = from_json(self.text)
        return record


@dataclass(frozen=True, slots=True)
class Index:
    """Content of a history site's index: records by directory path, and the site's files."""

    directories: dict[str, Kept]
    pages: frozenset[str]


def load(site: Path) -> Index:
    """Load the index of a history site; an index that is missing or unreadable counts as empty.

    Raises:
        UsageError: The folder has files but no index, so it is not a history site.
    """
    path = site / NAME
    if not path.exists():
        if site.exists():
            problem = directory_problem(site)
            if problem or any(site.iterdir()):
                raise UsageError(
                    "--out",
                    f"{site} {problem or 'is not empty, and was not written by storlab history'}",
                    "use a folder that does not exist yet, or that storlab history created",
                )
        return Index({}, frozenset())
    try:
        with pa.OSFile(str(path), "rb") as file:
            table = pa.ipc.open_file(file).read_all()
        pages = json.loads((table.schema.metadata or {}).get(_PAGES, b"[]"))
        return Index(dict(_rows(table)), frozenset(pages))
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return Index({}, frozenset())  # rebuild from the result directories


def _rows(table: pa.Table) -> Iterator[tuple[str, Kept]]:
    names = ("directory", "fingerprint", "plan_hash", "record")
    for directory, *kept in zip(*(table[name].to_pylist() for name in names), strict=True):
        yield os.fsdecode(directory), Kept(*kept)


def dump(directories: Mapping[str, Kept], pages: list[str]) -> bytes:
    """Serialise the index of a history site as an Arrow file.

    Args:
        directories: Record by path of the result directory.
        pages: Names of the site's files.
    """
    kept = list(directories.values())
    columns = [
        _column(pa.large_binary(), [os.fsencode(name) for name in directories]),
        *(
            _column(pa.large_string(), [getattr(row, name).encode() for row in kept])
            for name in ("plan_hash", "fingerprint", "text")
        ),
    ]
    schema = _SCHEMA.with_metadata({_PAGES: json.dumps(sorted(pages)).encode()})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_table(pa.table(columns, schema=schema))
    return sink.getvalue().to_pybytes()


def _column(kind: pa.DataType, values: list[bytes]) -> pa.Array[Any]:
    """Build an Arrow column directly from buffers, which is fast.

    ``pa.array`` on a list would import pandas if it is installed, and ``cast`` would load all Arrow
    functions.
    """
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)
