"""Files of a preprocessing run: where they are, and how they are written atomically.

Every engine writes the same files with the same contents, except that Parquet files may differ in
their bytes. The Rust counterpart is ``crates/families/preprocess``: change both together.
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
"""Names of the fields of an input line, in order; also the columns of the Parquet files."""
NUMERICAL = tuple(f"num_{number}" for number in range(13))
CATEGORICAL = tuple(f"cat_{number}.bin" for number in range(26))
INT8_BELOW = 127
INT16_BELOW = 32_767
"""Cardinality from which ids need int32; from ``INT8_BELOW`` on they need int16."""

_OUTPUT = ("parquet", "vocabulary", "binary", "binary.partial", "run.json")
_NO_MATTER = {
    *("version", "task", "directory", "clicks", "ramp_ns", "interval_ns", "drain_timeout_ns"),
    *("seed", "workers", "memory_bytes", "cpus", "cold", "resume", "malformed"),
}
"""Fields of a job that do not affect its output."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of an input file: the lines whose first byte is in ``[start, end)``."""

    file: int  # index among the inputs
    source: str
    start: int
    end: int
    parquet: Path

    @property
    def sidecar(self) -> Path:
        """Path of the JSON file with counts of rows and malformed lines.

        The file is written last: it exists only if the part is complete.
        """
        return self.parquet.with_suffix(".json")

    def is_done(self) -> bool:
        """Return whether the Parquet file of this part is already complete."""
        return self.sidecar.exists() and self.parquet.exists()


def parts_of(directory: Path, inputs: Sequence[str], part_bytes: int) -> list[Part]:
    """Divide all inputs into parts, in order of rows. Raises OSError if an input is missing."""
    parts = []
    for file, source in enumerate(inputs):
        size = Path(source).stat().st_size
        place = directory / "parquet" / f"{file:03}-{Path(source).name}"
        for number, start in enumerate(range(0, size, part_bytes)):
            end = min(start + part_bytes, size)
            parts.append(Part(file, source, start, end, place / f"part-{number:05}.parquet"))
    return parts


def aside(path: Path) -> Path:
    """Return the temporary name of a file that is still being written."""
    return path.with_name(f"{path.name}.partial")


def clear_aside(directory: Path) -> None:
    """Remove temporary files left in a directory by a killed process."""
    for path in directory.glob("*.partial"):
        path.unlink()


def settle(path: Path) -> None:
    """Flush the temporary file of ``path`` and rename it to its final name."""
    flush([aside(path)])
    aside(path).replace(path)


def publish(path: Path, data: bytes) -> None:
    """Write a file atomically and durably."""
    aside(path).write_bytes(data)
    settle(path)


def publish_json(path: Path, content: object) -> None:
    """Write a JSON document atomically and durably."""
    publish(path, json.dumps(content, separators=(",", ":")).encode())


def flush(paths: Iterable[Path], *, drop: bool = False) -> None:
    """Flush files or directories; with ``drop``, also drop them from the page cache."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            if drop:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def states(inputs: Iterable[str]) -> list[list[str | int]]:
    """Return path, size and modification time of each input. Raises OSError if one is missing."""
    stats = ((path, Path(path).stat()) for path in inputs)
    return [[path, stat.st_size, stat.st_mtime_ns] for path, stat in stats]


def fingerprint(job: dict[str, Any], engine: str) -> dict[str, Any]:
    """Return all that affects the output: the engine, job parameters, and state of the inputs."""
    inputs = states(job["inputs"])
    kept = {name: value for name, value in job.items() if name not in _NO_MATTER}
    return {"engine": engine, **kept, "inputs": inputs}


def prepare(directory: Path, mark: dict[str, Any], *, resume: bool) -> str | None:
    """Prepare the output directory of a preprocessing run; remove earlier output unless resumed.

    Args:
        directory: The output directory.
        mark: The run's ``fingerprint``.
        resume: Whether to keep the output of an earlier run, whose fingerprint must be equal.

    Returns:
        Why an earlier run cannot be resumed, or None if the directory is ready.
    """
    run = directory / "run.json"
    if resume and run.exists():
        if json.loads(run.read_text()) == mark:
            # Create these again: users may have removed the directories after a complete run.
            for name in ("parquet", "vocabulary"):
                (directory / name).mkdir(exist_ok=True)
            return None
        return f"cannot resume: {run} records another engine, other inputs or other parameters"
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
    """Return the smallest integer type for ids below ``cardinality``."""
    if cardinality < INT8_BELOW:
        return "int8"
    return "int16" if cardinality < INT16_BELOW else "int32"


def feature_spec(cardinalities: Sequence[int], numerical: str) -> str:
    """Return the text of ``feature_spec.yaml``, which lists the output's files and features.

    Every engine writes the same text.
    """
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
