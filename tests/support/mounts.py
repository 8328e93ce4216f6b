"""Loop devices and mounts for tests that run as root, removed at the end of the block."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FS_IOC_SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32) in the kernel's uapi/linux/fs.h
NO_LOG_FLUSH = 2
CLONE_NEWNS = 0x00020000
UNMOUNT_TRIES = 100
UNMOUNT_PAUSE_S = 0.05


def sh(*command: str | Path) -> str:
    """Run a program. Raises CalledProcessError if it fails."""
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def flush(place: Path) -> None:
    """Flush a device, or the file system of a file or directory.

    Unlike os.sync, it does not wait for dirty data of other programs.
    """
    if place.is_block_device():
        with place.open("rb+") as device:
            os.fsync(device)
    else:
        sh("sync", "-f", place)


def separate_mounts() -> None:
    """Give this process its own mount namespace, if permitted.

    A new namespace copies every mount that its creator sees, and a file system with a copy stays
    alive after umount: the next mount of its device shows stale state. With separate mounts, host
    namespaces of one process copy no mounts of another.
    """
    if os.geteuid() == 0 and ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0:
        # Mounts of the machine still propagate here, but none of this process propagates out.
        sh("mount", "--make-rslave", "/")


@contextmanager
def mounted(where: Path, *options: str | Path) -> Iterator[Path]:
    """Mount at ``where``, creating it if needed, for the duration of the block."""
    where.mkdir(exist_ok=True)
    sh("mount", *options, where)
    try:
        yield where
    finally:
        _unmount(where)


def _unmount(where: Path) -> None:
    """Unmount with retries: io_uring releases a program's files a moment after its end."""
    for _ in range(UNMOUNT_TRIES):
        done = subprocess.run(["umount", str(where)], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return
        time.sleep(UNMOUNT_PAUSE_S)
    raise RuntimeError(f"{where} cannot be unmounted: {done.stderr.strip()}")


@contextmanager
def loop_device(image: Path, *options: str) -> Iterator[Path]:
    """Provide a loop device over a file."""
    device = Path(sh("losetup", "--find", "--show", *options, image))
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", str(device)], check=False)


def make_image(path: Path, size: int, *options: str) -> Path:
    """Create an ext4 file system of ``size`` bytes in a file."""
    with path.open("wb") as file:
        file.truncate(size)
    sh("mkfs.ext4", "-q", "-b", "4096", "-m", "0", *options, path)
    return path


def cut_power(mount_point: Path) -> None:
    """Simulate a power loss: no further write reaches the device, not even the journal."""
    handle = os.open(mount_point, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(handle)
