"""C programs of the benches, compiled on demand."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def place() -> tempfile.TemporaryDirectory[str]:
    """Return the directory of the programs, removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="storlab-bench-")


@cache
def compiled(name: str, *flags: str) -> str:
    """Compile ``NAME.c`` and return the program's path.

    Raises:
        CalledProcessError: The compiler (``$CC``) fails.
    """
    program = str(Path(place().name, name))
    compiler = os.environ.get("CC", "cc")
    made = [compiler, "-O2", "-D_GNU_SOURCE", "-o", program, str(HERE / f"{name}.c"), *flags]
    subprocess.run(made, check=True)
    return program


def remove() -> None:
    """Remove the compiled programs."""
    place().cleanup()
    place.cache_clear()
    compiled.cache_clear()
