"""The memory of this machine, as far as this process may use it."""

from __future__ import annotations

from storlab import _native

BUFFER_SHARE = 0.5  # of it, at most, for buffers of I/O; the same in crates/run/src/order.rs


def host_memory_bytes() -> int:
    """RAM of the machine, or the least limit of the control groups that this process is in."""
    return _native.memory_bytes()
