"""Detect data that was never written: holes, unwritten extents and blank blocks.

Sources: lseek(2) on SEEK_DATA and SEEK_HOLE; Documentation/filesystems/fiemap.rst of the kernel.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import struct
from collections.abc import Sequence
from contextlib import suppress

from storlab._native import zones
from storlab.model.job import Member
from storlab.stores.zones import zones_of

BLOCK = 4096
SAMPLES = 64
_FIEMAP = 0xC020660B  # FS_IOC_FIEMAP, _IOWR('f', 11, struct fiemap)
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_EXTENTS = 256  # extents per request
_MOST_EXTENTS = 100_000
_LAST, _UNWRITTEN = 0x1, 0x800  # FIEMAP_EXTENT_LAST, FIEMAP_EXTENT_UNWRITTEN


def unwritten_bytes(member: Member) -> int:
    """Count the bytes of a file's region that are in holes or in unwritten extents.

    Raises:
        OSError: The file cannot be opened.
    """
    handle = os.open(member.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = min(member.offset + member.size, os.fstat(handle).st_size)
        holes = _holes(handle, member.offset, end)
        try:
            return max(holes, _unmapped(handle, member.offset, end))
        except OSError:  # the file system does not support FIEMAP
            return holes
    finally:
        os.close(handle)


def _holes(handle: int, start: int, end: int) -> int:
    """Count the bytes between two offsets that are in holes; 0 if the file system reports none."""
    holes, place = 0, start
    while place < end:
        try:
            data = os.lseek(handle, place, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return holes
            data = end  # no data follows
        holes += min(data, end) - place
        if data >= end:
            break
        place = os.lseek(handle, data, os.SEEK_HOLE)
    return holes


def _unmapped(handle: int, start: int, end: int) -> int:
    """Count the bytes between two offsets that are not in a written extent, by FIEMAP.

    Raises:
        OSError: The file system does not support FIEMAP.
    """
    written, place, met = 0, start, 0
    while place < end and met < _MOST_EXTENTS:
        buffer = bytearray(_HEAD.pack(place, end - place, 0, 0, _EXTENTS, 0))
        buffer += bytes(_EXTENTS * _EXTENT.size)
        fcntl.ioctl(handle, _FIEMAP, buffer)
        count = _HEAD.unpack_from(buffer)[3]
        if not count:
            break
        for number in range(count):
            at = _HEAD.size + number * _EXTENT.size
            logical, _, length, _, _, flags, *_ = _EXTENT.unpack_from(buffer, at)
            begin, stop = max(logical, start), min(logical + length, end)
            if not flags & _UNWRITTEN:
                written += max(0, stop - begin)
            place = logical + length
            if flags & _LAST:
                return end - start - written
        met += count
    return (
        max(0, min(place, end) - start - written)
        if met >= _MOST_EXTENTS
        else (end - start - written)
    )


def blank_blocks(members: Sequence[Member], seed: int) -> dict[str, tuple[int, int]]:
    """Read random blocks and count those that repeat one byte, as unmapped blocks do.

    Direct I/O is used if possible, so that the page cache does not change. On zoned drives
    only data below the write pointers are read, as in runs.

    Args:
        members: Files and devices to read.
        seed: Seed of the random offsets.

    Returns:
        Number of blank blocks and of blocks read, by the name of the file or device. Those that
        cannot be read are left out.
    """
    draw = random.Random(seed)  # noqa: S311  (offsets of blocks, no secret)
    found = {}
    for member in members:
        with suppress(OSError):
            found[member.name] = _blank_of(member, max(4, SAMPLES // len(members)), draw)
    return found


def _blank_of(member: Member, samples: int, draw: random.Random) -> tuple[int, int]:
    handle = _open(member.path)
    parts = [p for p in _written_parts(member) if p]
    chosen = draw.choices(parts, [len(part) for part in parts], k=samples) if parts else []
    places = sorted(draw.choice(part) for part in chosen)
    blank = read = 0
    try:
        with mmap.mmap(-1, BLOCK) as buffer:
            for place in places:
                if os.preadv(handle, [buffer], place * BLOCK) == BLOCK:
                    content = buffer[:]
                    read += 1
                    blank += content == content[:1] * BLOCK
    finally:
        os.close(handle)
    return blank, read


def _written_parts(member: Member) -> list[range]:
    """Return the numbers of the blocks of a member; on a zoned drive those that were written."""
    parts = [(member.offset, member.size)]
    if zones_of(member.path):
        end = member.offset + member.size
        parts = [
            (start, written)
            for start, length, _, written in zones(member.path) or []
            if member.offset <= start and start + length <= end
        ]
    return [range(-(-start // BLOCK), (start + size) // BLOCK) for start, size in parts]


def _open(path: str) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        return os.open(path, flags)
