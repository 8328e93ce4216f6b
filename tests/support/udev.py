"""Names of devices such as udev makes. Tests make them under /dev; storlab never does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def named(device: Path, directory: str) -> Iterator[Path]:
    """A link to the device in ``/dev/disk/<directory>``, which can be made to name another.

    The directory stays, empty: a test in another process may be about to make its link there.
    """
    place = Path("/dev/disk") / directory
    place.mkdir(parents=True, exist_ok=True)
    link = place / f"storlab-test-{os.getpid()}-{device.name}"
    link.symlink_to(device)
    try:
        yield link
    finally:
        link.unlink()
