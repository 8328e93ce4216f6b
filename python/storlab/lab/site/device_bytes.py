"""What the devices behind a target moved during a run: proof of where its bytes came from.

A read that a cache has served is not among the bytes that its device read. Others may use the same
device, so the counters are an upper bound of what the run itself made it do.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from storlab.contracts.family import Access
from storlab.model.s3 import EMBEDDED
from storlab.model.study import Target
from storlab.process.counters import CounterReading, CounterWatch
from storlab.process.device_counter import counted_bytes
from storlab.stores.devices import Device, device_number, read_fact
from storlab.stores.filesystems import existing_parent, file_system_of

MOST_OF_COURSE = 200  # readings that a run keeps
_BTRFS = Path("/sys/fs/btrfs")


class DeviceBytes(CounterWatch):
    """Counts the bytes of ``devices`` inside a ``with`` block."""

    def __init__(self, devices: Sequence[Device]) -> None:
        super().__init__(_reader(devices), "storlab-device-bytes")
        self._devices = devices

    def around(self, start_ns: int, end_ns: int) -> dict[str, Any] | None:
        """Bytes from the last reading before ``start_ns`` to the first one after ``end_ns``.

        Never less than inside the window. None where nothing counts, or not all along.
        """
        if not self.readings:
            return None
        times = [reading.time_ns for reading in self.readings]
        first, last = bisect_right(times, start_ns) - 1, bisect_left(times, end_ns)
        if first < 0 or last >= len(times):
            return None
        return {
            **_difference(self.readings[first], self.readings[last]),
            "over_ns": times[last] - times[first],
            "devices": [device.name for device in self._devices],
        }

    def course(self, start_ns: int, end_ns: int) -> dict[str, list[int]]:
        """The readings along a window, thinned: times, and the bytes read and written until then.

        Empty where nothing counts.
        """
        inside = [r for r in self.readings if start_ns <= r.time_ns <= end_ns]
        kept = inside[:: max(1, -(-len(inside) // MOST_OF_COURSE))]
        if len(kept) < 2:
            return {}
        return {
            "time_ns": [reading.time_ns for reading in kept],
            "read_bytes": [reading.values[0] for reading in kept],
            "written_bytes": [reading.values[1] for reading in kept],
        }


def _difference(before: CounterReading, after: CounterReading) -> dict[str, int]:
    read, written = (b - a for a, b in zip(before.values, after.values, strict=True))
    return {"read_bytes": read, "written_bytes": written}


def _reader(devices: Sequence[Device]) -> Callable[[], tuple[int, ...]]:
    places = [device.sysfs / "stat" for device in devices]

    def read() -> tuple[int, ...]:
        counted = [counted_bytes(place) for place in places]
        return sum(read for read, _ in counted), sum(written for _, written in counted)

    return read


def devices_behind(target: Target, access: Access, base: Path) -> list[Device]:
    """The block devices that hold a target's data, or its server's; none where one is not known.

    Memory, network and layered file systems have none, nor has a store elsewhere.
    """
    places = [Path(member.path) for member in access.members if member.kind != "null"]
    if access.home is not None:
        places.append(access.home)
    if target.is_embedded:
        places.append(base / (target.s3 or "").removeprefix(EMBEDDED))
    by_number: dict[int, Device] = {}
    for place in places:
        devices = _devices_of(place)
        if not devices or not all(_is_counted(device) for device in devices):
            return []
        by_number.update({device.rdev: device for device in devices})
    return list(by_number.values())


def _devices_of(place: Path) -> list[Device]:
    number = device_number(place)
    if number is not None:
        return [Device(number)]
    under = file_system_of(place)
    if under.in_memory or any(
        option == "dax" or option.startswith(("dax=always", "rtdev="))
        for option in under.options.split(",")
    ):
        return []  # its data do not pass through the device that it is mounted from
    number = existing_parent(place).stat().st_dev
    if os.major(number) and _has_device(number):
        return [Device(number)]
    if under.device is None:
        return []
    return _btrfs_devices(under.device) if under.kind == "btrfs" else [under.device]


def _has_device(number: int) -> bool:
    try:
        return Device(number).sysfs.exists()
    except OSError:
        return False


def _btrfs_devices(device: Device) -> list[Device]:
    """All devices of the file system that ``one`` is of."""
    for directory in _BTRFS.glob("*/devices"):
        numbers = [_number(entry / "dev") for entry in directory.iterdir()]
        known = [number for number in numbers if number is not None]
        if device.rdev in known:
            return [Device(number) for number in known] if len(known) == len(numbers) else []
    return []


def _number(dev: Path) -> int | None:
    major, _, minor = (read_fact(dev) or "").partition(":")
    return os.makedev(int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _is_counted(device: Device) -> bool:
    """Some devices count nothing: by setting, or since their driver does not."""
    try:
        if read_fact(device.whole.sysfs / "queue" / "iostats") == "0":
            return False
        return any(counted_bytes(device.sysfs / "stat"))
    except OSError:
        return False
