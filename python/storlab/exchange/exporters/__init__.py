"""A result directory in other programs' formats, found through entry points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from storlab.base.errors import UsageError
from storlab.contracts.parts import Registry

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


EXPORTERS: Registry[ExportFormat] = Registry("storlab.exporters")


def get_format(name: str) -> ExportFormat:
    """The format of that name. Raises UsageError for one that is not registered."""
    if name not in EXPORTERS:
        raise UsageError("--format", f'"{name}" is not a format', f"use {', '.join(EXPORTERS)}")
    return EXPORTERS[name]


def default_output(store: ResultStore, form: ExportFormat, samples: bool) -> Path:
    """``metrics.csv``, ``samples.parquet`` or ``fio.json`` in the result directory."""
    stem = form.name.removesuffix("-json") if form.suffix == ".json" else "metrics"
    return store.directory / f"{'samples' if samples else stem}{form.suffix}"
