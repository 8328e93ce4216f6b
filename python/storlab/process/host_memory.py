"""The memory of this machine, as far as this process may use it."""

from __future__ import annotations

from pathlib import Path

from storlab import _native
from storlab.base.units import format_bytes_si

_SETTINGS = Path("/proc/sys/vm")
BUFFER_SHARE = 0.5  # of it, at most, for buffers of I/O; the same in crates/run/src/order.rs


def host_memory_bytes() -> int:
    """RAM of the machine, or the least limit of the control groups that this process is in."""
    return _native.memory_bytes()


def host_memory_text() -> str:
    """Return host_memory_bytes() and who sets it: "16.4 GB of this machine".

    If a control group's limit counts, the text names that group instead of the machine.
    """
    group = _native.memory_group()
    whose = "of this machine" if group is None else f"that the control group {group} allows"
    return f"{format_bytes_si(host_memory_bytes())} {whose}"


def most_dirty_bytes() -> int:
    """What may wait in the page cache to be written. Source: the kernel's
    ``Documentation/admin-guide/sysctl/vm.rst``: one of the two settings counts, the other is 0.
    """
    try:
        given, percent = (
            int((_SETTINGS / name).read_text()) for name in ("dirty_bytes", "dirty_ratio")
        )
    except OSError:  # of a sandbox that hides them
        return host_memory_bytes()
    return given or host_memory_bytes() * percent // 100
