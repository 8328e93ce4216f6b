"""Bytes that this process has read from and written to block devices, as counted by the kernel.

Unlike the counters of a device, these exclude other programs. Reads served by a cache are not
counted. Reads and direct writes are counted when they are submitted to a block device, buffered
writes when pages become dirty. The counts include all threads, and children that have ended.
Source: ``/proc/PID/io``, in the kernel's Documentation/filesystems/proc.rst.
"""

from __future__ import annotations

from pathlib import Path

from storlab.process.counters import CounterWatch


class ProcessBytes(CounterWatch):
    """Byte counts of this process, read every 50 ms inside a ``with`` block.

    If a child process generates the load, set ``child`` to its id: its counts are then added while
    it runs. After its end, the kernel adds them to this process's counts.
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
        # If the child ends between the two reads above, its bytes are missing this time. So the
        # maximum is kept.
        self._most = (max(self._most[0], read), max(self._most[1], written))
        return self._most


def _bytes_of(process: str) -> tuple[int, int]:
    """Return the bytes that a process has read and written on block devices.

    Raises OSError if the kernel does not count them.
    """
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    counts = {name: int(count) for name, _, count in (line.partition(": ") for line in lines)}
    try:
        return counts["read_bytes"], counts["write_bytes"]
    except KeyError as error:
        raise OSError(f"/proc/{process}/io has no byte counts") from error
