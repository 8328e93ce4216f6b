"""Sidecars of data files, created by tests."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from storlab.stores.sidecar import Sidecar, sidecar_path


def put_sidecar(data_file: Path, sidecar: Sidecar) -> None:
    """Write a sidecar like storlab's."""
    sidecar_path(data_file).write_text(json.dumps(asdict(sidecar), indent=2) + "\n")
