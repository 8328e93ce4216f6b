"""Bytes that a target's devices transferred during a run, as proof that they served its I/O.

A device does not count reads that a cache served. Other programs may use the same device, so its
counters are an upper bound of the run's own transfers.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from storlab.contracts.family import Access
from storlab.model.s3 import EMBEDDED
from storlab.model.study import Target
from storlab.process.counters import CounterReading, CounterWatch
from storlab.process.device_counter import counted_bytes
from storlab.stores.devices import Device, read_fact
from storlab.stores.medium import Medium, medium_of

MOST_OF_COURSE = 200  # readings stored per run
_READ_BYTES = 4096


class DeviceBytes(CounterWatch):
    """Periodic readings of the bytes that devices transfer, inside a ``with`` block."""

    def __init__(self, devices: Sequence[Device]) -> None:
        super().__init__(_reader(devices), "storlab-device-bytes")
        self._devices = devices

    def around(self, start_ns: int, end_ns: int) -> dict[str, Any] | None:
        """Return the bytes that the devices transferred around a measure window.

        They are counted from the last reading before the window to the first reading after it, so
        they are at least what was transferred in the window. Returns None if no device counts, or
        readings do not cover the window.
        """
        counted = bytes_around(self.readings, start_ns, end_ns)
        if counted is None:
            return None
        return {**counted, "devices": [device.name for device in self._devices]}

    def course(self, start_ns: int, end_ns: int) -> dict[str, list[int]]:
        """Return a limited number of readings in a measure window, as columns.

        Columns are times, and cumulative bytes read and written. The dict is empty if no device
        counts.
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


def bytes_around(
    readings: Sequence[CounterReading], start_ns: int, end_ns: int
) -> dict[str, int] | None:
    """Return the bytes transferred around a measure window, and those inside it.

    The keys are those of ``contracts.details.BytesCounted``.

    Args:
        readings: Bytes read and bytes written, in order of time.
        start_ns: Start of the window.
        end_ns: End of the window.

    Returns:
        None if the readings do not cover the window.
    """
    times = [reading.time_ns for reading in readings]
    before, after = bisect_right(times, start_ns) - 1, bisect_left(times, end_ns)
    if before < 0 or after >= len(times):
        return None
    counted = {**_difference(readings[before], readings[after])}
    counted["over_ns"] = times[after] - times[before]
    first, last = bisect_left(times, start_ns), bisect_right(times, end_ns) - 1
    if first < last:
        inside = _difference(readings[first], readings[last])
        counted |= {f"inside_{name}": count for name, count in inside.items()}
        counted["inside_ns"] = times[last] - times[first]
    return counted


def _difference(before: CounterReading, after: CounterReading) -> dict[str, int]:
    read, written = (b - a for a, b in zip(before.values, after.values, strict=True))
    return {"read_bytes": read, "written_bytes": written}


def _reader(devices: Sequence[Device]) -> Callable[[], tuple[int, ...]]:
    places = [device.sysfs / "stat" for device in devices]

    def read() -> tuple[int, ...]:
        counted = [counted_bytes(place) for place in places]
        return sum(read for read, _ in counted), sum(written for _, written in counted)

    return read


def medium_behind(target: Target, access: Access, base: Path) -> Medium:
    """Find the medium that holds a target's data: its devices, or why they are unknown.

    If a device does not count its I/O, no devices are returned. Null targets and remote S3 stores
    have an empty medium.
    """
    media = _media(target, access, base)
    found = sum(media, Medium())
    silent = [device.name for device in found.devices if not _is_counted(device)]
    if silent:
        found += Medium(unknown=(f"{', '.join(silent)} does not count its I/O",))
    if silent or not all(medium.devices for medium in media):
        found = replace(found, devices=())
    return found


def _media(target: Target, access: Access, base: Path) -> list[Medium]:
    places = [Path(member.path) for member in access.members if member.kind != "null"]
    if access.home is not None:
        places.append(access.home)
    if target.is_embedded:
        places.append(base / (target.s3 or "").removeprefix(EMBEDDED))
    return [medium_of(place) for place in places]


def devices_below(target: Target, access: Access, base: Path) -> list[Device]:
    """Return all known block devices that hold a target's data, whether or not they count I/O.

    Some count none, such as the multipath devices of NVMe drives in Linux 6.1.
    """
    return list(sum(_media(target, access, base), Medium()).devices)


def devices_behind(target: Target, access: Access, base: Path) -> list[Device]:
    """Return the block devices that hold a target's data; empty if one of them is unknown.

    File systems in memory, on a network or in layers may have none; remote S3 stores have none.
    """
    return list(medium_behind(target, access, base).devices)


def _is_counted(device: Device) -> bool:
    """Return whether a device counts its I/O; some drivers do not, or counting is switched off."""
    try:
        if read_fact(device.whole.sysfs / "queue" / "iostats") == "0" and not _counts_read(device):
            return False
        return any(counted_bytes(device.sysfs / "stat"))
    except OSError:
        return False


def _counts_read(device: Device) -> bool:
    """Read a block of a device and return whether its counters change.

    In Linux 6.1 ``queue/iostats`` of device mapper is 0, and yet it counts.

    Raises:
        OSError: The device cannot be read, for example by a user without privilege.
    """
    before = counted_bytes(device.sysfs / "stat")
    handle = os.open(f"/dev/{device.name}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, _READ_BYTES) as buffer:  # aligned, as O_DIRECT requires
            os.preadv(handle, [buffer], 0)
    finally:
        os.close(handle)
    return counted_bytes(device.sysfs / "stat") != before
