"""A result directory in other programs' formats. One file per format; registered here only."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from storlab.base.errors import UsageError

if TYPE_CHECKING:
    from storlab.lab.results.store import ResultStore


class ExportFormat(Protocol):
    """How one format is written."""

    name: str
    suffix: str

    def content(self, store: ResultStore, samples: bool) -> bytes:
        """The file's content: metrics by default, intervals with ``samples``.

        Raises UsageError where the format has no place for what was asked.
        """
        ...


_FORMATS: dict[str, str] = {
    "csv": "storlab.exchange.exporters.tidy:CsvExport",
    "parquet": "storlab.exchange.exporters.tidy:ParquetExport",
    "fio-json": "storlab.engines.fio.exporter:FioJsonExport",
}


def format_names() -> list[str]:
    """The registered formats."""
    return list(_FORMATS)


def get_format(name: str) -> ExportFormat:
    """The format of that name. Raises UsageError for one that is not registered."""
    if name not in _FORMATS:
        raise UsageError("--format", f'"{name}" is no format', f"use {', '.join(_FORMATS)}")
    module, _, attribute = _FORMATS[name].partition(":")
    found: ExportFormat = getattr(import_module(module), attribute)()
    return found


def default_output(store: ResultStore, form: ExportFormat, samples: bool) -> Path:
    """``metrics.csv``, ``samples.parquet`` or ``fio.json`` in the result directory."""
    stem = form.name.removesuffix("-json") if form.suffix == ".json" else "metrics"
    return store.directory / f"{'samples' if samples else stem}{form.suffix}"
