"""The built-in prober finds each signature, and nothing in random data."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest

from storlab.stores import signatures
from storlab.stores.signatures import find_signatures

SIZE = 4 << 20


@pytest.fixture(autouse=True)
def _without_blkid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "_blkid", lambda fd: [])


def probe(tmp_path: Path, marks: dict[int, bytes], size: int = SIZE) -> list[str]:
    path = tmp_path / "device"
    with path.open("wb") as file:
        file.truncate(size)
        for offset, mark in marks.items():
            file.seek(offset)
            file.write(mark)
    fd = os.open(path, os.O_RDONLY)
    try:
        return find_signatures(fd, size)
    finally:
        os.close(fd)


MARKS: list[tuple[str, dict[int, bytes]]] = [
    ("ext2/ext3/ext4", {1080: b"\x53\xef", 1048: struct.pack("<I", 2), 1100: b"\1\0\0\0"}),
    ("XFS", {0: b"XFSB"}),
    ("Btrfs", {0x10040: b"_BHRfS_M"}),
    ("NTFS", {3: b"NTFS    "}),
    ("FAT", {82: b"FAT32   ", 510: b"\x55\xaa"}),
    ("FAT", {3: b"EXFAT   ", 510: b"\x55\xaa"}),
    ("F2FS", {1024: struct.pack("<I", 0xF2F52010)}),
    ("SquashFS", {0: b"hsqs"}),
    ("EROFS", {1024: struct.pack("<I", 0xE0F5E1E2)}),
    ("ISO 9660", {32769: b"CD001"}),
    ("GPT", {512: b"EFI PART"}),
    ("GPT", {SIZE - 512: b"EFI PART"}),
    ("MBR", {450: b"\x83", 510: b"\x55\xaa"}),
    ("LVM2", {512: b"LABELONE", 536: b"LVM2 001"}),
    ("LUKS", {0: b"LUKS\xba\xbe"}),
    ("Linux software RAID", {4096: struct.pack("<II", 0xA92B4EFC, 1)}),
    ("Linux software RAID", {SIZE - 65536: struct.pack("<I", 0xA92B4EFC)}),
    ("Linux software RAID", {SIZE - 8192: struct.pack("<I", 0xA92B4EFC)}),
    ("swap", {4086: b"SWAPSPACE2"}),
    ("swap", {65526: b"SWAPSPACE2"}),
    ("ZFS", {128 * 1024 + 3072: struct.pack("<Q", 0x00BAB10C)}),
    ("ZFS", {SIZE - 128 * 1024: struct.pack(">Q", 0x00BAB10C)}),
    ("bcachefs", {4120: bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")}),
]


@pytest.mark.parametrize(("name", "marks"), MARKS)
def test_each_mark_is_found(tmp_path: Path, name: str, marks: dict[int, bytes]) -> None:
    (found,) = probe(tmp_path, marks)
    assert found.startswith(name)


def test_a_blank_device_has_none(tmp_path: Path) -> None:
    assert probe(tmp_path, {}) == []


@pytest.mark.parametrize("size", [0, 512, 4096, 65536])
def test_a_tiny_device_is_no_accident(tmp_path: Path, size: int) -> None:
    assert probe(tmp_path, {}, size) == []


def test_what_a_study_wrote_is_no_file_system(tmp_path: Path) -> None:
    """Check that random data with planted two-byte magics is not a file system."""
    for seed in range(20):
        noise = bytearray(random.Random(seed).randbytes(1 << 17))
        noise[1080:1082] = b"\x53\xef"
        noise[510:512] = b"\x55\xaa"
        assert probe(tmp_path, {0: bytes(noise)}) == []
