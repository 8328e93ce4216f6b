"""Purge of NVMe namespaces: the command, and drives that are refused before anything is sent."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storlab.base.errors import GuardError
from storlab.lab.guard import purge as purging
from storlab.lab.guard.purge import TIMEOUT_MS, format_command, purge

DRIVE = "/dev/disk/by-id/nvme-EXAMPLE"
FORMAT = 0x80


class Drive:
    """Controller that answers Identify and records Format NVM."""

    def __init__(self, *, oacs: int = 0b10, fna: int = 0, active: tuple[int, ...] = (1,)) -> None:
        about = bytearray(4096)
        about[24:64] = b"EXAMPLE SSD".ljust(40)
        about[64:72] = b"1.0".ljust(8)
        struct.pack_into("<H", about, 256, oacs)
        about[524] = fna
        listed = struct.pack("<1024I", *active, *[0] * (1024 - len(active)))
        space = bytearray(4096)
        space[26] = 0x03
        self.pages = {0: bytes(space), 1: bytes(about), 2: listed}
        self.formatted: list[tuple[int, int]] = []
        self.timeout_ms = 0
        self.closed = False

    def connect(self, path: Path, timeout_ms: int) -> Drive:
        assert str(path) == "/dev/nvme0"
        self.timeout_ms = timeout_ms
        return self

    def admin(
        self, opcode: int, *, nsid: int = 0, cdw10: int = 0, cdw11: int = 0, data_len: int = 0
    ) -> tuple[bytes, int]:
        del cdw11, data_len
        if opcode == FORMAT:
            self.formatted.append((nsid, cdw10))
            return b"", 0
        assert opcode == 0x06
        return self.pages[cdw10], 0

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the guard's checks of block devices, which tests/vm makes on real ones."""
    device = SimpleNamespace(
        namespace="1", is_partition=False, whole=SimpleNamespace(name="nvme0n1")
    )
    hold = SimpleNamespace(name=DRIVE, device=device, size_bytes=10**9, close=lambda: None)

    def held(target: Any, *_: Any, writes: bool, consent: str | None, held: Any) -> Any:
        assert (target.serial, writes, consent, held) == ("S1", True, None, {})
        return hold

    monkeypatch.setattr(purging, "hold_device", held)
    monkeypatch.setattr(purging, "device_number", lambda _: 1)
    monkeypatch.setattr(purging, "controller_of", lambda _: Path("/dev/nvme0"))
    return device


@pytest.mark.usefixtures("device")
def test_the_namespace_is_formatted_once() -> None:
    drive = Drive()
    purged = purge(DRIVE, "S1", connect=drive.connect)
    assert drive.formatted == [(1, 0x203)]  # user data erase, LBA format 3 as before
    assert (drive.timeout_ms, drive.closed) == (TIMEOUT_MS, True)
    assert (purged.model, purged.firmware, purged.namespace) == ("EXAMPLE SSD", "1.0", 1)
    assert purged.size_bytes == 10**9


@pytest.mark.parametrize(
    ("flbas", "dps", "expected"),
    [
        pytest.param(0x00, 0x00, 0x200, id="plain"),
        pytest.param(0x1F, 0x00, 0x21F, id="metadata in the block"),
        pytest.param(0x61, 0x00, 0x3201, id="upper bits of the format"),
        pytest.param(0x00, 0x0A, 0x340, id="protection information first"),
    ],
)
def test_the_format_of_the_namespace_stays(flbas: int, dps: int, expected: int) -> None:
    page = bytearray(4096)
    page[26], page[29] = flbas, dps
    assert format_command(bytes(page)) == expected


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("drive", "why"),
    [
        pytest.param(Drive(oacs=0), "without the command", id="no Format NVM"),
        pytest.param(Drive(fna=1, active=(1, 2)), "also 2", id="formats all"),
        pytest.param(Drive(fna=2, active=(1, 2, 7)), "also 2, 7", id="erases all"),
    ],
)
def test_drives_that_would_erase_more_are_refused(drive: Drive, why: str) -> None:
    with pytest.raises(GuardError, match=why):
        purge(DRIVE, "S1", connect=drive.connect)
    assert drive.formatted == []
    assert drive.closed


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("fna", [0, 3])
def test_a_drive_that_erases_all_is_purged_if_it_has_no_other_namespace(fna: int) -> None:
    drive = Drive(fna=fna, active=(1,) if fna else (1, 2))
    purge(DRIVE, "S1", connect=drive.connect)
    assert len(drive.formatted) == 1


def test_other_devices_are_refused(device: SimpleNamespace) -> None:
    drive = Drive()
    device.is_partition = True
    with pytest.raises(GuardError, match="is a partition"):
        purge(DRIVE, "S1", connect=drive.connect)
    device.namespace = None
    with pytest.raises(GuardError, match="not an NVMe namespace"):
        purge(DRIVE, "S1", connect=drive.connect)
    assert drive.formatted == []


def test_only_a_typed_serial_is_consent() -> None:
    with pytest.raises(GuardError, match="consent") as refused:
        purge(DRIVE, None, connect=Drive().connect)
    assert "--serial" in refused.value.fix


def test_a_file_is_no_device(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(GuardError, match="not a block device"):
        purge(str(path), "S1", connect=Drive().connect)
