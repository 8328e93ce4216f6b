"""Export formats of a result directory, found through entry points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from storlab.base.errors import UsageError
from storlab.contracts.registries import Registry

if TYPE_CHECKING:
    from storlab.results.store import ResultStore


class ExportFormat(Protocol):
    """Interface of an export format."""

    name: str
    suffix: str

    def content(self, store: ResultStore, samples: bool) -> bytes:
        """Return the file's content: metrics, or per-interval samples if ``samples`` is true.

        Raises:
            UsageError: The format cannot represent what was requested.
        """
        ...


EXPORTERS: Registry[ExportFormat] = Registry("storlab.exporters")


def get_format(name: str) -> ExportFormat:
    """Return the export format of this name.

    Raises:
        UsageError: The format is not registered.
    """
    if name not in EXPORTERS:
        raise UsageError("--format", f'"{name}" is not a format', f"use {', '.join(EXPORTERS)}")
    return EXPORTERS[name]


def default_output(store: ResultStore, form: ExportFormat, samples: bool) -> Path:
    """Return the default file in the result directory, as ``metrics.csv`` or ``fio.json``."""
    stem = form.name.removesuffix("-json") if form.suffix == ".json" else "metrics"
    return store.directory / f"{'samples' if samples else stem}{form.suffix}"
