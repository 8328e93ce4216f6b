"""Memory of this machine that this process may use."""

from __future__ import annotations

from pathlib import Path

from storlab import _native
from storlab.base.units import format_bytes_si

_SETTINGS = Path("/proc/sys/vm")
BUFFER_SHARE = 0.5  # largest share for I/O buffers; same as in crates/run/src/order.rs


def host_memory_bytes() -> int:
    """Return the memory in bytes that this process may use.

    That is the machine's RAM, or a smaller limit of this process's control groups.
    """
    return _native.memory_bytes()


def host_memory_text() -> str:
    """Return the usable memory and what limits it, such as "16.4 GB of this machine".

    If a control group's limit applies, the text names that group instead of the machine.
    """
    group = _native.memory_group()
    whose = "of this machine" if group is None else f"that the control group {group} allows"
    return f"{format_bytes_si(host_memory_bytes())} {whose}"


def most_dirty_bytes() -> int:
    """Return how many bytes of unwritten (dirty) data the kernel permits in the page cache.

    The limit is either ``vm.dirty_bytes`` or ``vm.dirty_ratio``; the other setting is 0. Source:
    the kernel's ``Documentation/admin-guide/sysctl/vm.rst``.
    """
    try:
        given, percent = (
            int((_SETTINGS / name).read_text()) for name in ("dirty_bytes", "dirty_ratio")
        )
    except OSError:  # hidden by a sandbox
        return host_memory_bytes()
    return given or host_memory_bytes() * percent // 100
