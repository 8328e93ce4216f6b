"""Where everything of a preprocessing run lies, and how it gets there whole.

Every engine leaves the same files with the same contents; only the bytes of Parquet differ. The
Rust side has the same in ``crates/families/preprocess``: change both together.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INTEGERS = tuple(f"I{number}" for number in range(1, 14))
CATEGORIES = tuple(f"C{number}" for number in range(1, 27))
COLUMNS = ("label", *INTEGERS, *CATEGORIES)
"""Fields of a line, in order, and columns of the Parquet files."""
NUMERICAL = tuple(f"num_{number}" for number in range(13))
CATEGORICAL = tuple(f"cat_{number}.bin" for number in range(26))
INT8_BELOW = 127
INT16_BELOW = 32_767
"""Cardinalities, from which on ids take the next larger integer."""

_OUTPUT = ("parquet", "vocabulary", "binary", "binary.partial", "run.json")
_NO_MATTER = {
    *("version", "task", "directory", "clicks", "ramp_ns", "interval_ns", "drain_timeout_ns"),
    *("seed", "workers", "memory_bytes", "cpus", "cold", "resume", "malformed"),
}
"""Of an order: what its output does not depend on."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes ``start`` to ``end`` of an input file: it owns the lines that start in there."""

    file: int  # among the inputs, from 0
    source: str
    start: int
    end: int
    parquet: Path

    @property
    def sidecar(self) -> Path:
        """What was found in it. It is there once the part is done."""
        return self.parquet.with_suffix(".json")

    def is_done(self) -> bool:
        """Whether an earlier process has finished it."""
        return self.sidecar.exists() and self.parquet.exists()


def parts_of(directory: Path, inputs: Sequence[str], part_bytes: int) -> list[Part]:
    """All parts, in order of rows. Raises OSError for an input that is not there."""
    parts = []
    for file, source in enumerate(inputs):
        size = Path(source).stat().st_size
        place = directory / "parquet" / f"{file:03}-{Path(source).name}"
        for number, start in enumerate(range(0, size, part_bytes)):
            end = min(start + part_bytes, size)
            parts.append(Part(file, source, start, end, place / f"part-{number:05}.parquet"))
    return parts


def aside(path: Path) -> Path:
    """Where a file is written before it is whole."""
    return path.with_name(f"{path.name}.partial")


def clear_aside(directory: Path) -> None:
    """Remove what a killed process has left there before it was whole."""
    for path in directory.glob("*.partial"):
        path.unlink()


def settle(path: Path) -> None:
    """What lies aside is flushed and gets its name."""
    flush([aside(path)])
    aside(path).replace(path)


def publish(path: Path, data: bytes) -> None:
    """A file, whole or not at all."""
    aside(path).write_bytes(data)
    settle(path)


def publish_json(path: Path, content: object) -> None:
    """The same of a document."""
    publish(path, json.dumps(content, separators=(",", ":")).encode())


def flush(paths: Iterable[Path], *, drop: bool = False) -> None:
    """Make files or directories durable; with ``drop``, also ask the kernel to forget them."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            if drop:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def states(inputs: Iterable[str]) -> list[list[str | int]]:
    """Inputs as they are now: path, bytes, and when they were written to. Raises OSError."""
    stats = ((path, Path(path).stat()) for path in inputs)
    return [[path, stat.st_size, stat.st_mtime_ns] for path, stat in stats]


def fingerprint(job: dict[str, Any], engine: str) -> dict[str, Any]:
    """What the output depends on: the order, the inputs as they are now, and the engine."""
    inputs = states(job["inputs"])
    kept = {name: value for name, value in job.items() if name not in _NO_MATTER}
    return {"engine": engine, **kept, "inputs": inputs}


def prepare(directory: Path, mark: dict[str, Any], *, resume: bool) -> str | None:
    """Make the directory ready for a run; otherwise why it cannot go on with what is there."""
    run = directory / "run.json"
    if resume and run.exists():
        if json.loads(run.read_text()) == mark:
            for name in ("parquet", "vocabulary"):  # they may be removed once binary is there
                (directory / name).mkdir(exist_ok=True)
            return None
        return f"{run} is of another engine, other inputs or other parameters"
    for name in _OUTPUT:
        path = directory / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for name in ("parquet", "vocabulary"):
        (directory / name).mkdir(parents=True)
    publish_json(run, mark)
    flush([directory])
    return None


def id_type(cardinality: int) -> str:
    """The smallest type for ids up to ``cardinality - 1``."""
    if cardinality < INT8_BELOW:
        return "int8"
    return "int16" if cardinality < INT16_BELOW else "int32"


def feature_spec(cardinalities: Sequence[int], numerical: str) -> str:
    """``feature_spec.yaml``, exactly: what lies where in a split binary, and of which type."""
    lines = ["channel_spec:"]
    channels = {"categorical": CATEGORICAL, "label": ("label",), "numerical": NUMERICAL}
    for channel, names in channels.items():
        lines += [f"  {channel}:", *(f"  - {name}" for name in names)]
    lines += ["feature_spec:"]
    for name, cardinality in zip(CATEGORICAL, cardinalities, strict=True):
        dtype = id_type(cardinality)
        lines += [f"  {name}:", f"    cardinality: {cardinality}", f"    dtype: {dtype}"]
    lines += ["  label:", "    dtype: bool"]
    for name in NUMERICAL:
        lines += [f"  {name}:", f"    dtype: {numerical}"]
    lines += ["metadata: {}", "source_spec:", "  train:"]
    sources = {"numerical.bin": NUMERICAL, "label.bin": ("label",)}
    for file, names in {**sources, **{name: (name,) for name in CATEGORICAL}}.items():
        lines += ["  - features:", *(f"    - {name}" for name in names)]
        lines += ["    files:", f"    - train/{file}", "    type: split_binary"]
    return "\n".join(lines) + "\n"
