"""The guard of block devices on drives with real drivers, under the names that udev gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storlab.base.errors import ExitCode
from vm import inside
from vm.machine import Guest

BY_ID = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_PLAIN_1"
BY_PATH = "/dev/disk/by-path/pci-0000:00:04.0-nvme-1"


def study(path: str, serial: str | None = None) -> str:
    typed = "" if serial is None else f'serial = "{serial}"'
    return f"""
    [study]
    name = "guest"
    repeats = 1
    ramp = 0
    runtime = "500ms"
    [[target]]
    name = "drive"
    path = "{path}"
    size = "16MiB"
    {typed}
    [[workload]]
    kind = "block"
    block_size = "4KiB"
    read_percent = 50
    """


def refused(guest: Guest, path: str, serial: str | None = None, *options: str) -> str:
    """Run a study that writes to a device, and return why the guard refuses it."""
    done = guest.call(inside.storlab, ["run", *options, "--json"], study(path, serial))
    assert done["code"] == ExitCode.GUARD, done
    error: dict[str, Any] = json.loads(done["out"])["error"]
    assert error["fix"]
    return f"{error['where']}: {error['what']}"


def test_data_are_refused_and_stay_as_they_were(guest: Guest) -> None:
    digest = f"head -c 32M {BY_ID} | sha256sum"
    before = guest.call(inside.shell, f"mkfs.ext4 -q {BY_ID}; {digest}")
    assert "ext4" in refused(guest, BY_ID, "PLAIN")
    assert guest.call(inside.shell, f"{digest}; wipefs --all --quiet {BY_ID}") == before


def test_a_mounted_drive_is_refused_under_its_other_name(guest: Guest) -> None:
    guest.call(inside.shell, f"mkfs.ext4 -q {BY_ID}; mkdir -p /mnt/drive; mount {BY_ID} /mnt/drive")
    assert "/mnt/drive" in refused(guest, BY_PATH, "PLAIN")
    guest.call(inside.shell, f"umount /mnt/drive; wipefs --all --quiet {BY_ID}")


def test_a_drive_below_another_device_is_refused(guest: Guest) -> None:
    table = f"0 2048 linear {BY_ID} 0"
    guest.call(inside.shell, f"dmsetup create above --table '{table}'")
    assert "part of dm-" in refused(guest, BY_ID, "PLAIN")
    guest.call(inside.shell, "dmsetup remove above")


def test_a_drive_needs_a_stable_name_and_consent(guest: Guest) -> None:
    assert "next boot" in refused(guest, "/dev/nvme0n1")
    assert "consent" in refused(guest, BY_ID)
    assert "--plan-hash" in refused(guest, BY_ID, None, "--plan-hash", "0123456789abcdef")


def test_the_serial_number_of_another_drive_is_no_consent(guest: Guest) -> None:
    assert '"ZONED"' in refused(guest, BY_ID, "ZONED")


@pytest.mark.parametrize("number", [1, 2])
def test_the_serial_number_of_two_namespaces_is_no_consent(guest: Guest, number: int) -> None:
    path = f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_LARGE_{number}"
    assert '"LARGE"' in refused(guest, path, "LARGE")
