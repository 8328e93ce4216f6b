"""Meter ``hwmon``: power and energy inputs of sensor chips, which kernel drivers expose in sysfs.

Source: the kernel's ``Documentation/hwmon/sysfs-interface`` (power in uW, energy in uJ, averaging
intervals in ms). A chip is identified by its driver, and also by its device if several chips have
the same driver. The number in ``hwmonN`` is not used, because it changes between boots.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from storlab.base.errors import MeterError, StudyError
from storlab.base.nearest import suggest
from storlab.base.units import NS_PER_MS, NS_PER_S
from storlab.contracts.meter import Discovered
from storlab.meters.common import MidpointTimer, listed, read_number, read_text
from storlab.meters.options import MeterOptions, read_options
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target

BOUNDARY: Boundary = "device"  # unless the study states another
ROOT = Path("/sys")
_INPUT = re.compile(r"(power\d+)_(input|average)|(energy\d+)_(input)")
_MICRO = 1e-6


class HwmonOptions(MeterOptions):
    """Fields of a meter with ``kind = "hwmon"``."""

    chip: str = Field(min_length=1)  # such as "acpi_power_meter" or "ina226 1-0040"
    inputs: list[str] | None = Field(default=None, min_length=1)  # such as "power1", or its label


@dataclass(frozen=True, slots=True)
class Input:
    """Power or energy input of a sensor chip."""

    chip: str  # name of the kernel driver
    device: str  # name of the driver's device
    name: str  # such as "power1"
    label: str
    file: Path
    interval_ns: int | None
    gain_accuracy: float | None

    @property
    def is_energy(self) -> bool:
        """Whether the input is an energy counter."""
        return self.name.startswith("energy")

    @property
    def sensor(self) -> str:
        """Name of this input in results, such as ``hwmon:acpi_power_meter:power1``."""
        place = f"{self.chip} {self.device}" if self.device else self.chip
        return f"hwmon:{place}:{self.name}"


def inputs(root: Path) -> list[Input]:
    """Return all power and energy inputs of this machine.

    If an input has both instantaneous and average power, only the average is returned.
    """
    by_sensor: dict[tuple[str, str], Input] = {}
    for chip in sorted((root / "class" / "hwmon").glob("hwmon*")):
        names = sorted(entry.name for entry in chip.iterdir()) if chip.is_dir() else []
        for name in filter(_INPUT.fullmatch, names):
            sensor = _input(chip, name)
            by_sensor.setdefault((str(chip), sensor.name), sensor)  # "average" sorts before "input"
    return list(by_sensor.values())


def _input(chip: Path, file: str) -> Input:
    name, _, kind = file.partition("_")
    interval_ms = read_number(chip / f"{name}_average_interval")
    device = (chip / "device").resolve().name if (chip / "device").exists() else ""
    return Input(
        chip=read_text(chip / "name") or chip.name,
        device=device,
        name=name,
        label=read_text(chip / f"{name}_label") or name,
        file=chip / file,
        interval_ns=interval_ms * NS_PER_MS if kind == "average" and interval_ms else None,
        gain_accuracy=_accuracy(read_text(chip / f"{name}_accuracy")),
    )


def _accuracy(text: str | None) -> float | None:
    """Return the relative error from an accuracy attribute, or None if it is malformed.

    Some drivers print the error (``1%``), others its complement (``98.5%``).
    """
    try:
        percent = float((text or "").rstrip("% "))
    except ValueError:
        return None
    return min(percent, 100 - percent) / 100 if 0 <= percent <= 100 else None


class HwmonMeter:
    """Meter that reads the inputs of one sensor chip; a failed read raises MeterError."""

    def __init__(self, options: HwmonOptions, where: str, root: Path = ROOT) -> None:
        self._options = options
        self._where = where
        self._watch = MidpointTimer()
        self._inputs = list(_chosen(inputs(root), options, where))
        for sensor in self._inputs:
            self._read(sensor)

    def describe(self) -> list[SensorInfo]:
        """Return one sensor per input; their values are added up only if ``part_of`` is set."""
        return [self._info(sensor) for sensor in self._inputs]

    def sample(self) -> list[Reading]:
        """Return the current value of every input, in W or J."""
        return [self._read(sensor) for sensor in self._inputs]

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return no readings: all are taken during the run."""
        del outcome
        return []

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _info(self, sensor: Input) -> SensorInfo:
        is_mean = sensor.interval_ns is not None or sensor.file.name.endswith("_average")
        return self._options.info(
            sensor=sensor.sensor,
            description=f"{sensor.chip} {sensor.device} {sensor.label}".replace("  ", " "),
            sampling="counter"
            if sensor.is_energy
            else "interval_mean"
            if is_mean
            else "instantaneous",
            unit="J" if sensor.is_energy else "W",
            gain_accuracy=sensor.gain_accuracy,
            quantum=_MICRO,
            sensor_interval_ns=sensor.interval_ns,
            clock_uncertainty_ns=self._watch.uncertainty_ns,
        )

    def _read(self, sensor: Input) -> Reading:
        try:
            text, time_ns = self._watch.read(sensor.file.read_text)
            value = int(text)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it does not contain a number"
            raise MeterError(
                self._where,
                f"{sensor.sensor} cannot be read: {reason}",
                "check that the driver is loaded and that this user may read the file",
            ) from None
        return Reading(sensor.sensor, time_ns, value * _MICRO)


def _chosen(sensors: list[Input], options: HwmonOptions, where: str) -> Iterator[Input]:
    chips = {sensor.chip for sensor in sensors} | {
        f"{sensor.chip} {sensor.device}" for sensor in sensors
    }
    of_chip = [o for o in sensors if options.chip in (o.chip, f"{o.chip} {o.device}")]
    if not of_chip:
        raise MeterError(
            f"{where}.chip",
            f"no chip {options.chip} on this machine measures power or energy",
            suggest(options.chip, chips) if chips else "list the meters with `storlab meters`",
        )
    devices = {sensor.device for sensor in of_chip}
    if len(devices) > 1:
        raise StudyError(
            f"{where}.chip",
            f"{len(devices)} devices have the driver {options.chip}",
            f"use one of {listed(f'{options.chip} {device}' for device in devices)}",
        )
    for name in options.inputs or [sensor.name for sensor in of_chip]:
        matching = [sensor for sensor in of_chip if name in (sensor.name, sensor.label)]
        if not matching:
            names = [sensor.name for sensor in of_chip]
            raise StudyError(
                f"{where}.inputs", f"chip {options.chip} has no input {name}", suggest(name, names)
            )
        yield matching[0]


def discover(root: Path = ROOT) -> list[Discovered]:
    """Return every power and energy input, and whether this user may read it."""
    sensors = inputs(root)
    chips = [sensor.chip for sensor in {(o.chip, o.device): o for o in sensors}.values()]
    listing = []
    for sensor in sensors:
        chip = f"{sensor.chip} {sensor.device}" if chips.count(sensor.chip) > 1 else sensor.chip
        readable = os.access(sensor.file, os.R_OK)
        use = f'meters = [{{ kind = "hwmon", chip = "{chip}", inputs = ["{sensor.name}"], ... }}]'
        listing.append(
            Discovered(
                kind="hwmon",
                sensor=sensor.sensor,
                available=readable,
                rate="counter" if sensor.is_energy else _rate(sensor),
                accuracy=_accuracy_text(sensor.gain_accuracy),
                privilege="none" if readable else "root",
                how=f"{use}; add the boundary" if readable else f"let this user read {sensor.file}",
            )
        )
    return listing or [
        Discovered(
            kind="hwmon",
            sensor="hwmon",
            available=False,
            rate="on request",
            accuracy="by chip",
            privilege="none",
            how="no power or energy input in /sys/class/hwmon: load the driver of the sensor chip "
            "(acpi_power_meter, ina2xx, pmbus)",
        )
    ]


def _rate(sensor: Input) -> str:
    return (
        "on request"
        if sensor.interval_ns is None
        else f"mean of {sensor.interval_ns / NS_PER_S:g} s"
    )


def _accuracy_text(gain: float | None) -> str:
    return "not stated" if gain is None else f"{100 * gain:g} %"


def open_meter(spec: MeterSpec, target: Target) -> HwmonMeter:
    """Open the inputs that a study names.

    Raises:
        StudyError: A field is wrong, or the chip has no such input.
        MeterError: There is no such chip, or an input cannot be read.
    """
    options = read_options(HwmonOptions, spec, target)
    return HwmonMeter(options, f'target "{target.name}": hwmon meter', ROOT)
