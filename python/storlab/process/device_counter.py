"""What the block device behind a directory has read and written, by the kernel's counters.

Only the standard library is used, so that a child in another Python can import it.

Source: Documentation/ABI/stable/sysfs-block and admin-guide/iostats.rst of the kernel: sectors
of 512 bytes, counted when an I/O has completed.
"""

from __future__ import annotations

import os
from pathlib import Path

SECTOR_BYTES = 512


def counter_of(place: Path) -> Path | None:
    """The file with the counters of the device that ``place`` lies on.

    None where no block device is behind it: memory, a network, a layered file system.
    """
    try:
        number = place.stat().st_dev
    except OSError:
        return None
    counter = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    return counter if counter.exists() else None


def moved_bytes(counter: Path | None) -> tuple[int, int] | None:
    """Bytes read and written since the device was there; None where nothing counts them."""
    if counter is None:
        return None
    try:
        return counted_bytes(counter)
    except (OSError, ValueError):
        return None


def counted_bytes(counter: Path) -> tuple[int, int]:
    """As ``moved_bytes``. Raises OSError for a file that cannot be read or counts nothing."""
    fields = counter.read_text().split()
    if len(fields) < 7:
        raise OSError("not the counters of a block device")
    return int(fields[2]) * SECTOR_BYTES, int(fields[6]) * SECTOR_BYTES
