"""Identifying facts of devices, from sysfs trees laid out like the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlab.base.errors import GuardError
from storlab.lab.guard.device import _serial_fits
from storlab.model.study import Target
from storlab.stores import devices
from storlab.stores.devices import Device
from support.sysfs_trees import put

SERIAL = "S6CKNT0W700"


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(devices, "_SYS_BLOCK", tmp_path / "dev" / "block")
    monkeypatch.setattr(devices, "_SYS_BLOCKS", tmp_path / "block")
    (tmp_path / "dev" / "block").mkdir(parents=True)
    (tmp_path / "block").mkdir()
    return tmp_path


def disk(sysfs: Path, name: str, number: str, **files: str | int) -> Device:
    place = sysfs / "devices" / name
    put(place / "dev", number)
    put(place / "size", 2048)
    for file, content in files.items():
        put(place / file.replace("__", "/"), content)
    (sysfs / "block" / name).symlink_to(place)
    (sysfs / "dev" / "block" / number).symlink_to(place)
    major, _, minor = number.partition(":")
    return Device(os.makedev(int(major), int(minor)))


def namespace(sysfs: Path, number: int, **more: str | int) -> Device:
    return disk(
        sysfs,
        f"nvme0n{number}",
        f"2590:{number}",
        nsid=number,
        wwid=f"eui.00{number}",
        device__serial=SERIAL,
        **more,
    )


def target(serial: str) -> Target:
    return Target(name="t", path="/dev/nvme0n1", serial=serial)


def test_an_nvme_drive_is_known_by_size_wwid_serial_and_namespace(sysfs: Path) -> None:
    assert namespace(sysfs, 2).facts() == {
        "size": 1 << 20,
        "wwid": "eui.002",
        "serial": SERIAL,
        "nsid": "2",
    }


def test_a_partition_is_known_by_its_place_too(sysfs: Path) -> None:
    namespace(sysfs, 1)
    place = sysfs / "devices" / "nvme0n1" / "nvme0n1p3"
    for name, content in {"dev": "2590:9", "size": 8, "partition": 3, "start": 64}.items():
        put(place / name, content)
    (sysfs / "dev" / "block" / "2590:9").symlink_to(place)
    facts = Device(os.makedev(2590, 9)).facts()
    assert (facts["size"], facts["partition"], facts["start"]) == (4096, "3", "64")
    assert facts["wwid"] == "eui.001"


def test_a_disk_without_any_identity_is_known_until_the_machine_restarts(sysfs: Path) -> None:
    assert disk(sysfs, "vdx", "2540:0", diskseq=17).facts() == {"size": 1 << 20, "diskseq": "17"}


def test_a_serial_that_several_namespaces_have_is_no_consent(sysfs: Path) -> None:
    first, second = namespace(sysfs, 1), namespace(sysfs, 2)
    for device in (first, second):
        with pytest.raises(GuardError, match=r"only this device has: eui\.00"):
            _serial_fits(target(SERIAL), "/dev/nvme0n1", device)
    assert _serial_fits(target("eui.002"), "/dev/nvme0n1", second)
    with pytest.raises(GuardError, match="is not the serial number of"):
        _serial_fits(target("eui.002"), "/dev/nvme0n1", first)


def test_the_only_namespace_answers_to_the_drives_serial(sysfs: Path) -> None:
    device = namespace(sysfs, 1)
    disk(sysfs, "nvme0c0n1", "2590:77", hidden=1, wwid="eui.001", device__serial=SERIAL)
    assert _serial_fits(target(SERIAL), "/dev/nvme0n1", device)


def test_a_later_namespace_does_not_even_where_the_first_is_gone(sysfs: Path) -> None:
    with pytest.raises(GuardError, match="this is number 2"):
        _serial_fits(target(SERIAL), "/dev/nvme0n1", namespace(sysfs, 2))
