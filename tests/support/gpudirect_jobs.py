"""GPUDirect jobs on plain files, and stand-ins for the programs that run them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from storlab.workloads.gpudirect.job import GpuDirectJob

MIB = 1 << 20
SIMULATORS = Path(__file__).resolve().parent.parent / "simulators"


def make_job(
    *paths: Path | str, size: int = 8 * MIB, block_size: int = 65536, **changes: Any
) -> GpuDirectJob:
    members = [{"path": str(p), "name": str(p), "kind": "file", "size": size} for p in paths]
    fields: dict[str, Any] = {
        "members": members,
        "block_sizes": [{"bytes": block_size}],
        "workers": len(paths),
        "window_ns": 1_000_000_000,
        "interval_ns": 250_000_000,
    }
    return GpuDirectJob.model_validate({**fields, **changes})


def files(place: Path, count: int, size: int = 8 * MIB) -> list[Path]:
    """Create data files of this size."""
    paths = [place / f"data.{number}" for number in range(count)]
    for path in paths:
        path.write_bytes(bytes(size))
    return paths


def gdsio_standin(place: Path) -> Path:
    """Create a stand-in for the program gdsio."""
    return _script(place / "gdsio", f'"{SIMULATORS / "gdsio.py"}"')


def libcufile_standin(place: Path) -> Path:
    """Create a stand-in for a fio with libcufile from the real fio."""
    return _script(place / "fio", f'"{SIMULATORS / "fio_libcufile.py"}" "{shutil.which("fio")}"')


def _script(program: Path, words: str) -> Path:
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
    program.chmod(0o755)
    return program
