"""The benches' programs in C, built when one is asked for."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def place() -> tempfile.TemporaryDirectory[str]:
    """Where they lie until the process ends."""
    return tempfile.TemporaryDirectory(prefix="storlab-bench-")


@cache
def compiled(name: str, *flags: str) -> str:
    """The program of ``NAME.c``. Raises CalledProcessError where the compiler (``$CC``) fails."""
    program = str(Path(place().name, name))
    compiler = os.environ.get("CC", "cc")
    made = [compiler, "-O2", "-D_GNU_SOURCE", "-o", program, str(HERE / f"{name}.c"), *flags]
    subprocess.run(made, check=True)
    return program


def remove() -> None:
    """What was built."""
    place().cleanup()
    place.cache_clear()
    compiled.cache_clear()
