"""Live readings during a run: power, drive temperatures, and bytes that devices transferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S
from storlab.contracts.reporter import Gauge
from storlab.model.study import Target
from storlab.power.metering import Metering
from storlab.process.device_counter import moved_bytes
from storlab.process.temperature import EVERY_S, celsius, temperature_files
from storlab.stores.devices import Device

TEMPERATURE_EVERY_NS = round(EVERY_S * NS_PER_S)


class Gauges:
    """Callable that takes the live readings of a run: power, temperatures and device bytes.

    It reads only when it is called. The constructor's ``devices`` are each target's block devices.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        metering: Metering,
        devices: Mapping[str, Sequence[Device]],
    ) -> None:
        self._targets = list(targets)
        self._metering = metering
        self._counters = {
            target: [(device.name, device.sysfs / "stat") for device in own]
            for target, own in devices.items()
        }
        self._drives = {
            target: {
                name: file
                for device in own
                for name, file in temperature_files(device.whole.sysfs).items()
            }
            for target, own in devices.items()
        }
        self._warm: list[Gauge] = []
        self._due_ns = 0

    def __call__(self) -> list[Gauge]:
        """Return the power of each target, bytes of its devices, and temperatures of its drives.

        Temperatures are read at most once per ``TEMPERATURE_EVERY_NS``.
        """
        gauges = list(self._moved())
        for target in self._targets:
            power = self._metering.power_now(target)
            if power is not None:
                gauges.append(Gauge("power", target.name, *power))
        if monotonic_ns() >= self._due_ns:
            self._due_ns = monotonic_ns() + TEMPERATURE_EVERY_NS
            self._warm = self._temperatures()
        return [*gauges, *self._warm]

    def _moved(self) -> Iterator[Gauge]:
        counted: dict[Path, tuple[int, int] | None] = {}  # targets may share a device
        for target, counters in self._counters.items():
            for device, counter in counters:
                if counter not in counted:
                    counted[counter] = moved_bytes(counter)
                moved = counted[counter]
                if moved is not None:
                    yield Gauge("read", target, device, moved[0])
                    yield Gauge("written", target, device, moved[1])

    def _temperatures(self) -> list[Gauge]:
        asked: dict[Path, float | None] = {}  # targets may share a drive
        warm = []
        for target, files in self._drives.items():
            for drive, file in files.items():
                if file not in asked:
                    asked[file] = celsius(file)
                value = asked[file]
                if value is not None:
                    warm.append(Gauge("temperature", target, drive, value))
        return warm
