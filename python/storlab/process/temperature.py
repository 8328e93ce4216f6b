"""Temperatures of NVMe drives from the kernel's sensors, which any user may read.

The nvme driver sends an admin command per reading. Drives of the kernel driver drivetemp are not
read: its command waits until the drive's queue is empty, which would disturb the measurement.
Sensors give thousandths of a degree Celsius; source: the kernel's
``Documentation/hwmon/sysfs-interface``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from storlab.process.counters import CounterWatch

_SENSORS = (
    "device/hwmon*/temp1_input",
    "device/device/hwmon/hwmon*/temp1_input",  # older kernels
    "device/nvme*/hwmon*/temp1_input",  # multipath
)
EVERY_S = 1.0
"""Shortest interval between two readings of a drive, in seconds.

The nvme driver asks the drive at most once per second, and otherwise repeats its last answer.
"""
_DEEPEST = 8  # nesting of devices that consist of others


def temperature_files(disk: Path, depth: int = 0) -> dict[str, Path]:
    """Return the sensor file in sysfs of each drive of a block device.

    A device that consists of others (LVM, md, crypt) has the drives of its components.

    Args:
        disk: The directory of the device in sysfs.
        depth: The current depth of recursion.
    """
    files = (file for pattern in _SENSORS for file in sorted(disk.glob(pattern)))
    file = next(files, None)
    if file is not None:
        return {disk.name: file}
    parts: dict[str, Path] = {}
    if depth < _DEEPEST:
        for part in sorted(disk.glob("slaves/*")):
            place = part.resolve()
            whole = place.parent if (place / "partition").exists() else place
            parts |= temperature_files(whole, depth + 1)
    return parts


class TemperatureWatch(CounterWatch):
    """Temperatures of drives, read every second inside a ``with`` block.

    ``files`` is the result of ``temperature_files``. If reading one drive fails, no drive is read
    again.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._drives = list(files)
        places = list(files.values())

        def read() -> tuple[int, ...]:
            try:
                return tuple(int(place.read_text()) for place in places)
            except ValueError as error:
                raise OSError(str(error)) from error

        super().__init__(read, "storlab-temperature", EVERY_S)

    def by_drive(self) -> dict[str, list[tuple[int, float]]]:
        """Return by drive the times of readings (ns, run's clock) and degrees Celsius."""
        return {
            drive: [(reading.time_ns, reading.values[place] / 1000) for reading in self.readings]
            for place, drive in enumerate(self._drives)
        }


def celsius(file: Path) -> float | None:
    """Return the temperature of a sensor in degrees Celsius, or None if it cannot be read."""
    try:
        return int(file.read_text()) / 1000
    except (OSError, ValueError):
        return None
