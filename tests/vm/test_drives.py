"""Drives as storlab reads them: identity, sectors, cache, write protection."""

from __future__ import annotations

import pytest

from vm import inside
from vm.machine import DRIVE_MIB, Guest

BY_ID = "/dev/disk/by-id"


@pytest.mark.parametrize(
    ("name", "serial", "nsid", "sector_bytes", "others"),
    [
        ("PLAIN_1", "PLAIN", "1", 512, 0),
        ("LARGE_1", "LARGE", "1", 4096, 1),
        ("LARGE_2", "LARGE", "2", 512, 1),
        ("SHARED_1", "SHARED", "1", 512, 0),  # its two paths are hidden by the kernel
    ],
)
def test_an_nvme_namespace_is_identified(
    guest: Guest, name: str, serial: str, nsid: str, sector_bytes: int, others: int
) -> None:
    link = f"nvme-QEMU_NVMe_Ctrl_{name}"
    it = guest.call(inside.device, f"{BY_ID}/{link}")
    wwid = it["facts"]["wwid"]
    assert it["facts"] == {
        "size": DRIVE_MIB << 20,
        "serial": serial,
        "nsid": nsid,
        "wwid": wwid,
    }
    assert {serial, wwid, link, f"nvme-{wwid}"} <= set(it["identities"])
    assert len(it["others"]) == others
    drive = it["drive"]
    assert drive["model"] == "QEMU NVMe Ctrl"
    assert drive["logical_block_bytes"] == sector_bytes
    assert drive["write_cache"] == "write back"
    assert drive["discard_max_bytes"] > 0
    assert drive["transport"] == "pcie"
    states = [path.split()[1] for path in drive["paths"]]
    assert states == (["live", "live"] if name == "SHARED_1" else [])


def test_a_scsi_disk_is_identified_and_its_write_protection_seen(guest: Guest) -> None:
    made = "modprobe scsi_debug dev_size_mb=16 sector_size=4096 lbpu=1 wp=1; udevadm settle"
    name = guest.call(inside.shell, f"{made}; ls /sys/bus/pseudo/drivers/scsi_debug/*/*/*/*/block")
    it = guest.call(inside.device, f"/dev/{name}")
    assert it["read_only"]
    assert it["facts"]["wwid"].startswith("naa.")
    assert it["facts"]["serial"] in it["identities"]
    assert it["drive"]["logical_block_bytes"] == 4096
    assert it["drive"]["discard_max_bytes"] > 0
    guest.call(inside.shell, "rmmod scsi_debug")
