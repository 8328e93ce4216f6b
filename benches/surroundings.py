"""Machine description and temporary directory of a bench."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Return kernel, CPU model and core count."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return {
        "kernel": platform.release(),
        "cpu": cpu[0].split(":", 1)[1].strip() if cpu else platform.machine(),
        "cores": os.cpu_count(),
    }


@contextmanager
def workplace(parent: Path) -> Iterator[Path]:
    """Provide a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="storlab-bench-", dir=parent.absolute()) as name:
        yield Path(name)
