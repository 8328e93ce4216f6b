"""What NVMe drives say of their temperature, by the kernel's sensors; asking needs no privilege.

Source: the kernel's ``Documentation/hwmon/sysfs-interface`` (thousandths of a degree Celsius) and
its driver nvme, which asks the drive by its admin queue: whoever reads does so seldom. Drives
behind drivetemp are not asked: its command waits until all that is queued has ended, and would
itself be the dip.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from storlab.process.counters import CounterWatch

_SENSORS = (
    "device/hwmon*/temp1_input",
    "device/device/hwmon/hwmon*/temp1_input",  # of older kernels
    "device/nvme*/hwmon*/temp1_input",  # of several paths
)
EVERY_S = 10.0
"""How often a drive is asked at most."""
_DEEPEST = 8  # of devices that are made of others


def temperature_files(disk: Path, depth: int = 0) -> dict[str, Path]:
    """By drive, the file of its temperature. ``disk`` is its directory in sysfs.

    A device that is made of others (LVM, md, crypt) has those of its parts.
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
    """Asks drives all along a ``with`` block, seldom. ``files`` as ``temperature_files`` has them.

    When one of them no longer answers, none is asked again.
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
        """Times (ns of the run's clock) with temperatures."""
        return {
            drive: [(reading.time_ns, reading.values[place] / 1000) for reading in self.readings]
            for place, drive in enumerate(self._drives)
        }


def celsius(file: Path) -> float | None:
    """What the sensor says; None where it does not."""
    try:
        return int(file.read_text()) / 1000
    except (OSError, ValueError):
        return None
