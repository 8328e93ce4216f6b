"""The memory of this machine, as far as this process may use it."""

from __future__ import annotations

from storlab import _native


def host_memory_bytes() -> int:
    """RAM of the machine, or the least limit of the control groups that this process is in."""
    return _native.memory_bytes()
