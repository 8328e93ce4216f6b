"""Find the export formats of result directories, which are registered as entry points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from storlab.base.errors import UsageError
from storlab.contracts.registries import Registry

if TYPE_CHECKING:
    from storlab.results.store import ResultStore


class ExportFormat(Protocol):
    """Interface of a format to which results are exported."""

    name: str
    suffix: str

    def content(self, store: ResultStore, samples: bool) -> bytes:
        """Return the content of an exported file.

        Args:
            store: Results to export.
            samples: Whether to export samples per interval instead of metrics per run.

        Raises:
            UsageError: The format cannot represent what was requested.
        """
        ...


EXPORTERS: Registry[ExportFormat] = Registry("storlab.exporters")


def get_format(name: str) -> ExportFormat:
    """Return the export format with a name, such as ``csv``.

    Raises:
        UsageError: The format is not registered.
    """
    if name not in EXPORTERS:
        raise UsageError("--format", f'"{name}" is not a format', f"use {', '.join(EXPORTERS)}")
    return EXPORTERS[name]


def default_output(store: ResultStore, form: ExportFormat, samples: bool) -> Path:
    """Return the default path of an export in the result directory, such as ``metrics.csv``."""
    stem = form.name.removesuffix("-json") if form.suffix == ".json" else "metrics"
    return store.directory / f"{'samples' if samples else stem}{form.suffix}"
