"""Reader of a DLIO run's settings, as far as its result directory contains them.

DLIO lets hydra store the configuration: ``config.yaml`` has all settings, and ``overrides.yaml``
those of the command line. They are in ``.hydra`` (DLIO, MLPerf Storage v0.5), ``configs`` (v1.0) or
``dlio_config`` (since v2.0). The tool ``mlpstorage`` also stores all settings as ``parameters`` in
``<benchmark>_<time>_metadata.json``. Older versions of DLIO call ``record_length_bytes``
``record_length``, and have a name as ``model`` instead of a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from storlab.base.files import read_input
from storlab.engines.dlio.result import DlioFormatError

FOLDERS = (".hydra", "configs", "dlio_config")
FILE_FORMATS = {"npz": "npz", "npy": "npz", "tfrecord": "tfrecord", "jpeg": "jpeg"}
"""Format of a data set's files in storlab by the value of DLIO's ``dataset.format``."""
_PLACES = (*FOLDERS, ".")
_CONFIG, _OVERRIDES, _METADATA = "config.yaml", "overrides.yaml", "*_metadata.json"
_OVERRIDE = re.compile(r"[+~]*(?:workload\.)?([\w.]+)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run; a property is None if the setting is unknown or has no valid value."""

    tables: dict[str, Any] = field(default_factory=dict)  # DLIO's table ``workload``
    complete: bool = False  # whether missing settings have DLIO's defaults; else they are unknown
    source: str | None = None  # name of the file that the settings are from
    workload: str | None = None  # name of DLIO's workload file, such as unet3d_h100

    def value(self, path: str) -> Any:
        """Return the setting with a dotted name, such as reader.batch_size; None if unset."""
        found: Any = self.tables
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found

    def number(self, *paths: str) -> float | None:
        """Return the first of these settings that is a number, or a table with a number ``mean``.

        Values of overrides may be strings.
        """
        for path in paths:
            value = self.value(path)
            value = value.get("mean") if isinstance(value, dict) else value
            try:
                if value is not None and not isinstance(value, bool):
                    return float(value)
            except (TypeError, ValueError):
                continue
        return None

    def whole(self, *paths: str) -> int | None:
        """Return the first of these settings that is a number, as an integer; None if below 1."""
        value = self.number(*paths)
        return round(value) if value is not None and value >= 1 else None

    @property
    def model(self) -> str | None:
        """Name of the trained model."""
        value = self.value("model")
        name = value.get("name") if isinstance(value, dict) else value
        return str(name) if name else None

    @property
    def batch(self) -> int | None:
        """Number of samples in a training step of an accelerator."""
        return self.whole("reader.batch_size")

    @property
    def computation_s(self) -> float | None:
        """Configured (mean) compute time of a step in seconds."""
        return self.number("train.computation_time")

    @property
    def record_bytes(self) -> int | None:
        """Nominal mean size of a sample in bytes."""
        return self.whole("dataset.record_length_bytes", "dataset.record_length")

    @property
    def total_steps(self) -> int | None:
        """Largest number of training steps of an accelerator; None if not limited."""
        return self.whole("train.total_training_steps")

    @property
    def store(self) -> str | None:
        """Type and bucket of the object store that has the data; None for a file system."""
        kind = self.value("storage.storage_type")
        if kind in {None, "local_fs", "parallel_fs"}:
            return None
        return f"{kind} {self.value('storage.storage_root') or ''}".strip()

    @property
    def direct(self) -> bool | None:
        """Whether data is read with O_DIRECT; None for object stores, or if unknown."""
        value = self.value("reader.odirect")
        if self.store is not None:
            return None
        if value is None:
            return False if self.complete else None
        return str(value).lower() == "true"


def read_settings(directory: Path) -> Settings:
    """Read the settings from a result directory; without any, all are unknown.

    Raises:
        DlioFormatError: A file is neither YAML nor JSON.
    """
    overrides = dict(_overrides(directory))
    workload = overrides.pop("workload", None)
    for path in (directory / place / _CONFIG for place in _PLACES):
        if path.is_file():
            tables = _table(_yaml(path, directory), "workload")
            return Settings(tables, complete=True, source=_name(path, directory), workload=workload)
    for path in sorted(directory.glob(_METADATA)):
        if tables := _table(_json(path, directory), "parameters"):
            return Settings(tables, complete=True, source=path.name, workload=workload)
    tables = {}
    for name, value in overrides.items():
        *parents, last = name.split(".")
        table = tables
        for part in parents:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                break
        else:
            table[last] = value
    return Settings(tables, source=_OVERRIDES if overrides else None, workload=workload)


def _overrides(directory: Path) -> Iterator[tuple[str, str]]:
    for path in (directory / place / _OVERRIDES for place in _PLACES):
        lines = _yaml(path, directory) if path.is_file() else None
        for line in lines if isinstance(lines, list) else ():
            if match := _OVERRIDE.fullmatch(str(line)):
                yield match[1], match[2].strip("'\"")


def _yaml(path: Path, directory: Path) -> Any:
    try:
        return yaml.safe_load(read_input(path).decode(errors="replace"))
    except yaml.YAMLError as error:
        what = f"is not YAML: {' '.join(str(error).split())}"
        raise DlioFormatError(_name(path, directory), what) from error


def _json(path: Path, directory: Path) -> Any:
    try:
        return json.loads(read_input(path))
    except ValueError as error:
        raise DlioFormatError(_name(path, directory), f"is not JSON: {error}") from error


def _table(document: Any, name: str) -> dict[str, Any]:
    table = document.get(name) if isinstance(document, dict) else None
    return table if isinstance(table, dict) else {}


def _name(path: Path, directory: Path) -> str:
    return str(path.relative_to(directory))
