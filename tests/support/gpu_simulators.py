"""Simulators of libcuda.so.1 and libcufile.so.0, built once per session, with faults.

The sources are tests/simulators/{cuda,cufile}*.c; their headers list all faults. Device pointers
are not memory addresses: reading them as such ends with SIGSEGV.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "simulators"
CUDA_ORDER = "STORLAB_SIM_CUDA"
CUFILE_ORDER = "STORLAB_SIM_CUFILE"
Word = str | int | float


@dataclass(frozen=True, slots=True)
class Simulators:
    """Paths of the built libraries."""

    cuda: Path
    cufile: Path  # like 1.15 or newer: with statistics
    cufile_without_statistics: Path  # like 1.14


def build(directory: Path) -> Simulators:
    """Compile all simulators; a C compiler exists wherever storlab is built."""
    subprocess.run(["sh", SOURCES / "gpu.sh", directory], check=True)
    return Simulators(
        directory / "libcuda.so.1",
        directory / "libcufile.so.0",
        directory / "libcufile-1.14.so.0",
    )


@cache
def simulators() -> Simulators:
    """Return the simulators, built at the first call in this process."""
    return build(Path(_kept().name))


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="storlab-gpu-", ignore_cleanup_errors=True)


def faults(
    cufile: Mapping[str, Word] | None = None, cuda: Mapping[str, Word] | None = None
) -> dict[str, str]:
    """Return an environment that requests these faults; both variables are always set."""
    return {CUFILE_ORDER: _order(cufile or {}), CUDA_ORDER: _order(cuda or {})}


def _order(words: Mapping[str, Word]) -> str:
    return ",".join(f"{name}={value}" for name, value in words.items())
