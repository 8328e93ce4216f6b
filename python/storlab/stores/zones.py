"""Zones of host-managed zoned block devices: ZNS and SMR drives.

Host-aware SMR drives accept random writes and count as ordinary drives.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from storlab._native import zones
from storlab.base.units import format_size
from storlab.model.job import Member
from storlab.stores.devices import Device, device_number, read_fact

_SECTOR = 512


@dataclass(frozen=True, slots=True)
class Zones:
    """Number and size of a device's zones, and how many may be partly written at a time."""

    zone_bytes: int
    count: int
    max_open: int  # zones that writes are directed to; 0 without a limit
    max_active: int  # zones that are partly written; 0 without a limit

    @classmethod
    def of(cls, device: Device) -> Self | None:
        """Return the zones of a device; None if it is not a host-managed zoned device."""
        queue = device.whole.sysfs / "queue"
        if read_fact(queue / "zoned") != "host-managed":
            return None
        count, sectors, most_open, most_active = (
            int(read_fact(queue / name) or 0)
            for name in ("nr_zones", "chunk_sectors", "max_open_zones", "max_active_zones")
        )
        return cls(sectors * _SECTOR, count, most_open, most_active)

    @property
    def most_written(self) -> int:
        """Largest number of zones that can be written at the same time."""
        return min(limit or self.count for limit in (self.max_open, self.max_active))

    @property
    def text(self) -> str:
        """Description, such as ``zoned drive: 16 zones of 16MiB, at most 8 open``."""
        limits = [
            f"{limit:,} {word}"
            for limit, word in ((self.max_open, "open"), (self.max_active, "active"))
            if limit
        ]
        most = f", at most {' and '.join(limits)}" if limits else ""
        return f"zoned drive: {self.count:,} zones of {format_size(self.zone_bytes)}{most}"


def zones_of(place: Path | str) -> Zones | None:
    """Return the zones of the device at a path; None for all other devices, files and paths."""
    number = device_number(place)
    if number is None or not Device(number).is_there:
        return None
    return Zones.of(Device(number))


def zoned_bytes(member: Member) -> int | None:
    """Return how many bytes can be written to the zones of a device in the member's region.

    None if the device is not zoned. A zone may have a smaller capacity than its size.

    Raises:
        OSError: The device cannot be opened.
    """
    if zones_of(member.path) is None:
        return None
    end = member.offset + member.size
    inside = [
        capacity
        for start, length, capacity, _ in zones(member.path) or []
        if member.offset <= start and start + length <= end
    ]
    # A smaller last zone is not used.
    return sum(capacity for capacity in inside if capacity == max(inside))
