"""Kernel counters of bytes read from and written to the block device that holds a directory.

Only the standard library is used, so that a child in another Python can import it. Source: the
kernel's Documentation/ABI/stable/sysfs-block and admin-guide/iostats.rst: sectors of 512 bytes,
counted on completion.
"""

from __future__ import annotations

import os
from pathlib import Path

SECTOR_BYTES = 512


def counter_of(place: Path) -> Path | None:
    """Return the sysfs file with the I/O counters of the block device that holds a directory.

    Returns:
        None if there is no block device, as for file systems in memory, networked or layered ones.
    """
    try:
        number = place.stat().st_dev
    except OSError:
        return None
    counter = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    return counter if counter.exists() else None


def moved_bytes(counter: Path | None) -> tuple[int, int] | None:
    """Return the bytes read from and written to a device so far, or None if unavailable."""
    if counter is None:
        return None
    try:
        return counted_bytes(counter)
    except (OSError, ValueError):
        return None


def counted_bytes(counter: Path) -> tuple[int, int]:
    """Return the bytes read from and written to a device since it appeared.

    Raises:
        OSError: The file cannot be read or does not contain device counters.
    """
    fields = counter.read_text().split()
    if len(fields) < 7:
        raise OSError(f"{counter}: no counters of a block device")
    return int(fields[2]) * SECTOR_BYTES, int(fields[6]) * SECTOR_BYTES
