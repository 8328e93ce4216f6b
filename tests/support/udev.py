"""Device names like those of udev. Tests create them under /dev; storlab never does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def named(device: Path, directory: str) -> Iterator[Path]:
    """Provide a link to the device in ``/dev/disk/<directory>``, which can be redirected.

    The empty directory stays, because a test in another process may be about to use it.
    """
    place = Path("/dev/disk") / directory
    place.mkdir(parents=True, exist_ok=True)
    link = place / f"storlab-test-{os.getpid()}-{device.name}"
    link.symlink_to(device)
    try:
        yield link
    finally:
        link.unlink()
