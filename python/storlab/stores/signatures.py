"""Detect file systems, volume managers and partition tables on a device by their signatures.

The module's own checks are combined with ``blkid -p``, which recognises more formats (nilfs2, JFS,
GFS2, OCFS2, minix, VMFS, DRBD and others). Without blkid, no device counts as blank. If a magic
number is short, other fields are checked as well, so that random data of an earlier study does not
look like a file system.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable

from storlab.base.errors import PreflightError

_SECTOR = 512
_HEAD = 1 << 17  # all signatures at fixed offsets are in the first 128 KiB


def find_signatures(fd: int, size_bytes: int) -> list[str]:
    """Return the formats (file systems, partition tables) found on an open device or file.

    Args:
        fd: File descriptor of the device or file.
        size_bytes: Its size.

    Returns:
        Names of the formats; empty if the device is blank.

    Raises:
        OSError: The device cannot be read.
        PreflightError: No format was found, and blkid is missing or failed.
    """
    head = os.pread(fd, min(_HEAD, size_bytes), 0)
    signatures = [name for name, check in _HEAD_CHECKS if check(head)]
    signatures += [
        name for name, check in _WHOLE_CHECKS if check(fd, size_bytes) and name not in signatures
    ]
    try:
        signatures += [name for name in _blkid(fd) if name not in signatures]
    except PreflightError:
        if not signatures:
            raise
    return signatures


def _at(data: bytes, offset: int, magic: bytes) -> bool:
    return data[offset : offset + len(magic)] == magic


def _is_ext(head: bytes) -> bool:
    if not _at(head, 1024 + 56, b"\x53\xef"):
        return False
    (log_block_size,) = struct.unpack_from("<I", head, 1024 + 24)
    (revision,) = struct.unpack_from("<I", head, 1024 + 76)
    return bool(log_block_size <= 6 and revision <= 1)


def _is_mbr(head: bytes) -> bool:
    if not _at(head, 510, b"\x55\xaa"):
        return False
    entries = [head[446 + 16 * i : 462 + 16 * i] for i in range(4)]
    return all(entry[0] in (0, 0x80) for entry in entries) and any(entry[4] for entry in entries)


def _is_vfat(head: bytes) -> bool:
    named = _at(head, 54, b"FAT1") or _at(head, 82, b"FAT32") or _at(head, 3, b"EXFAT   ")
    return named and _at(head, 510, b"\x55\xaa")


def _is_lvm2(head: bytes) -> bool:
    return any(
        _at(head, sector * _SECTOR, b"LABELONE") and _at(head, sector * _SECTOR + 24, b"LVM2 001")
        for sector in range(4)
    )


def _is_mdraid_at_head(head: bytes) -> bool:
    return any(_at(head, offset, b"\xfc\x4e\x2b\xa9\x01\0\0\0") for offset in (0, 4096))


def _is_swap(head: bytes) -> bool:
    marks = (b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND")
    pages = (4096, 8192, 16384, 65536)
    return any(_at(head, page - 10, mark) for page in pages for mark in marks)


def _is_bcache_or_bluestore(head: bytes) -> bool:
    bcache = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
    return _at(head, 4096 + 24, bcache) or _at(head, 0, b"bluestore block device")


def _magic(*places: tuple[int, bytes]) -> Callable[[bytes], bool]:
    return lambda head: any(_at(head, offset, magic) for offset, magic in places)


_HEAD_CHECKS: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
    ("ext2/ext3/ext4 file system", _is_ext),
    ("XFS file system", _magic((0, b"XFSB"))),
    ("Btrfs file system", _magic((0x10040, b"_BHRfS_M"))),
    ("bcachefs or bcache", _is_bcache_or_bluestore),
    ("NTFS file system", _magic((3, b"NTFS    "))),
    ("FAT or exFAT file system", _is_vfat),
    ("F2FS file system", _magic((1024, b"\x10\x20\xf5\xf2"))),
    ("SquashFS file system", _magic((0, b"hsqs"))),
    ("EROFS file system", _magic((1024, b"\xe2\xe1\xf5\xe0"))),
    ("ISO 9660 file system", _magic((32769, b"CD001"))),
    ("GPT partition table", _magic((512, b"EFI PART"), (4096, b"EFI PART"))),
    ("MBR partition table", _is_mbr),
    ("LVM2 physical volume", _is_lvm2),
    ("LUKS encrypted volume", _magic((0, b"LUKS\xba\xbe"), (0x4000, b"SKUL\xba\xbe"))),
    ("Linux software RAID member", _is_mdraid_at_head),
    ("swap", _is_swap),
)


def _is_gpt_backup(fd: int, size_bytes: int) -> bool:
    ends = [size_bytes - sector for sector in (512, 4096) if size_bytes >= sector]
    return any(os.pread(fd, 8, end) == b"EFI PART" for end in ends)


def _is_mdraid_at_tail(fd: int, size_bytes: int) -> bool:
    old = (size_bytes & ~0xFFFF) - 0x10000  # 0.90: 64 KiB before the last multiple of 64 KiB
    new = ((size_bytes // _SECTOR - 16) & ~7) * _SECTOR  # 1.0: 8 KiB from the end, 4 KiB aligned
    return any(
        offset >= 0 and os.pread(fd, 4, offset) in (b"\xfc\x4e\x2b\xa9", b"\xa9\x2b\x4e\xfc")
        for offset in (old, new)
    )


def _is_zfs(fd: int, size_bytes: int) -> bool:
    label = 256 * 1024
    if size_bytes < 4 * label:
        return False
    starts = (
        0,
        label,
        size_bytes // label * label - 2 * label,
        size_bytes // label * label - label,
    )
    return any(_has_uberblock(os.pread(fd, label // 2, start + label // 2)) for start in starts)


def _has_uberblock(ring: bytes) -> bool:
    magics = (struct.pack("<Q", 0x00BAB10C), struct.pack(">Q", 0x00BAB10C))
    return any(ring[offset : offset + 8] in magics for offset in range(0, len(ring), 1024))


_WHOLE_CHECKS: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
    ("GPT partition table", _is_gpt_backup),
    ("Linux software RAID member", _is_mdraid_at_tail),
    ("ZFS pool member", _is_zfs),
)


def _blkid(fd: int) -> list[str]:
    """Return the formats that blkid finds on an open device.

    Raises:
        PreflightError: blkid is missing or does not work.
    """
    program = _blkid_program()
    if program is None:
        raise PreflightError(
            "blkid",
            "is not installed; without it, storlab could take a device with data for blank",
            "install util-linux (its package may be named blkid)",
        )
    # blkid reports "nothing found" even if it cannot open a file, so try a known format first.
    with os.fdopen(os.memfd_create("storlab", os.MFD_CLOEXEC), "wb") as known:
        known.write(_KNOWN.ljust(1 << 20, b"\0"))
        known.flush()
        if not _asked(program, known.fileno()):
            raise _cannot_tell(program, "it does not find the partition table of a test image")
    return _asked(program, fd)


def _asked(program: str, fd: int) -> list[str]:
    command = [program, "-p", "-o", "export", f"/proc/self/fd/{fd}"]
    done = subprocess.run(
        command, pass_fds=(fd,), capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode == _NOTHING_FOUND:
        return []
    facts = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    values = [facts[key] for key in ("TYPE", "PTTYPE") if key in facts]
    if done.returncode == _AMBIVALENT:
        values.append("several formats at once (blkid: ambivalent)")
    if not values:
        raise _cannot_tell(program, done.stderr.strip() or f"exit code {done.returncode}")
    return [f"{value} (blkid)" for value in values]


_NOTHING_FOUND = 2
_AMBIVALENT = 8
_KNOWN = bytes(510) + b"\x55\xaa"  # MBR without partitions, as a known format
_PLACES = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")  # a user's PATH may lack sbin


def _blkid_program() -> str | None:
    """Return the path of util-linux's blkid, or None.

    The blkid of busybox is not used: it knows fewer formats and lacks the option ``-p``.
    """
    path = os.pathsep.join([*_PLACES, os.environ.get("PATH", os.defpath)])
    program = shutil.which("blkid", path=path)
    if program is None:
        return None
    done = subprocess.run([program, "-V"], capture_output=True, check=False)
    return program if b"libblkid" in done.stdout + done.stderr else None


def _cannot_tell(program: str, why: str) -> PreflightError:
    return PreflightError(
        program,
        f"cannot determine whether the device is blank: {why}",
        "run it by hand to see the problem: blkid -p DEVICE",
    )
