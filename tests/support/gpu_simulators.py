"""Stand-ins for libcuda.so.1 and libcufile.so.0, made once per session, and what can be ordered.

The sources are tests/simulators/{cuda,cufile}*.c; their heads tell every order. Device pointers are
not addresses of memory: who reads them as such ends with SIGSEGV.
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
    """Where the built libraries lie."""

    cuda: Path
    cufile: Path  # of 1.15 or newer: with statistics
    cufile_without_statistics: Path  # as 1.14


def build(directory: Path) -> Simulators:
    """Compile all of them; a C compiler is there wherever storlab is built."""
    subprocess.run(["sh", SOURCES / "gpu.sh", directory], check=True)
    return Simulators(
        directory / "libcuda.so.1",
        directory / "libcufile.so.0",
        directory / "libcufile-1.14.so.0",
    )


@cache
def simulators() -> Simulators:
    """Built at the first call of this process."""
    return build(Path(_kept().name))


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="storlab-gpu-", ignore_cleanup_errors=True)


def faults(
    cufile: Mapping[str, Word] | None = None, cuda: Mapping[str, Word] | None = None
) -> dict[str, str]:
    """An environment that orders this of the next run. Both names are always in it."""
    return {CUFILE_ORDER: _order(cufile or {}), CUDA_ORDER: _order(cuda or {})}


def _order(words: Mapping[str, Word]) -> str:
    return ",".join(f"{name}={value}" for name, value in words.items())
