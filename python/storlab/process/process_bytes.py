"""Bytes that a process transferred to and from block devices, by the kernel's accounting.

Unlike device counters, they exclude other programs. Reads served by a cache are not counted.
Source: /proc/PID/io, in Documentation/filesystems/proc.rst of the kernel. Reads and direct writes
are counted when submitted to a block device, buffered writes when pages become dirty. The account
includes all threads, and children that have ended.
"""

from __future__ import annotations

from pathlib import Path

from storlab.process.counters import CounterWatch


class ProcessBytes(CounterWatch):
    """Byte counts of this process, read every 50 ms inside a ``with`` block.

    ``child`` may be set to the id of a child that generates the load: its counts are only part of
    this process's counts after it has ended.
    """

    def __init__(self) -> None:
        self.child: int | None = None
        self._most = (0, 0)
        super().__init__(self._account, "storlab-process-bytes")

    def _account(self) -> tuple[int, int]:
        read, written = _bytes_of("self")
        if self.child is not None:
            try:
                more = _bytes_of(str(self.child))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                more = (0, 0)  # the child has ended
            read, written = read + more[0], written + more[1]
        # A child that ends between the two readings is in neither of them, once: keep the maximum.
        self._most = (max(self._most[0], read), max(self._most[1], written))
        return self._most


def _bytes_of(process: str) -> tuple[int, int]:
    """Return bytes read and written. Raises OSError if the kernel keeps no such account."""
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    counts = {name: int(count) for name, _, count in (line.partition(": ") for line in lines)}
    try:
        return counts["read_bytes"], counts["write_bytes"]
    except KeyError as error:
        raise OSError("no account of bytes") from error
