"""Meter ``nvme``: power that NVMe drives measure themselves, as the mean of the last second.

Drives with NVMe 2.3 may report it in bytes 240 to 243 of the SMART / Health log. Most current
drives do not, and then the meter cannot be opened. See docs/meters/nvme.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from storlab.base.errors import MeterError, StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.meter import Discovered
from storlab.meters.common import MidpointTimer
from storlab.meters.nvme_admin import NvmeAdmin, PowerState, controller_of
from storlab.meters.options import MeterOptions, read_options
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target

BOUNDARY: Boundary = "device"  # unless the study states another
INTERVAL_NS = NS_PER_S
_WITHOUT = "measure the drive from outside (quarch, snmp, redfish), or declare its power (declared)"


class NvmeOptions(MeterOptions):
    """Fields of a meter with ``kind = "nvme"``; ``device`` defaults to the target's drives."""

    device: str | list[str] | None = None


class NvmeMeter:
    """Meter that reads the power of NVMe drives; the target's power is their sum."""

    def __init__(self, drives: Sequence[NvmeAdmin], options: MeterOptions) -> None:
        self._drives = list(drives)
        self._watch = MidpointTimer()
        self.rate_hz = options.rate_hz
        self._infos = [self._info(drive, options) for drive in self._drives]

    def _info(self, drive: NvmeAdmin, options: MeterOptions) -> SensorInfo:
        power, _ = self._watch.read(drive.smart_power)
        states = drive.power_states()
        if power is None:
            raise MeterError(
                drive.device,
                f"{drive.model} (firmware {drive.firmware}) reports no power: its SMART log has no "
                f"interval power measurement (NVMe 2.3), only limits: {ceilings(states)}",
                _WITHOUT,
            )
        error = drive.power_error()
        estimated = error is not None and error.estimated
        gain = error.percent / 100 if error is not None and error.percent is not None else None
        return options.info(
            sensor=f"nvme:{Path(drive.device).name}",
            description=f"{drive.model}: mean of the last second, "
            + ("estimated" if estimated else "measured")
            + f" by the drive itself; its limits: {ceilings(states)}",
            sampling="interval_mean",
            supply="dc",
            gain_accuracy=gain,
            quantum=power.quantum_w,
            sensor_interval_ns=INTERVAL_NS,
            whole="drives" if len(self._drives) > 1 else "",
            provenance="modelled" if estimated else "measured",
        )

    def describe(self) -> list[SensorInfo]:
        """Return one sensor per drive; the description has the power limit of each power state."""
        slowest = {"clock_uncertainty_ns": self._watch.uncertainty_ns}
        return [info.model_copy(update=slowest) for info in self._infos]

    def sample(self) -> list[Reading]:
        """Return each drive's mean power of the last second.

        Raises:
            MeterError: A drive does not respond, or no longer reports its power.
        """
        readings = []
        for drive, info in zip(self._drives, self._infos, strict=True):
            power, time_ns = self._watch.read(drive.smart_power)
            if power is None:
                raise MeterError(
                    drive.device,
                    "the drive no longer reports its power (SMART bytes 240 to 243 are 0)",
                    "check whether it was reset or got other firmware",
                )
            readings.append(Reading(info.sensor, time_ns, power.watts))
        return readings

    def after_run(self, outcome: RunOutcome) -> list[Reading]:  # noqa: ARG002
        """Return no readings: all are taken during the run."""
        return []

    def close(self) -> None:
        """Close the drives."""
        for drive in self._drives:
            drive.close()


def ceilings(states: Sequence[PowerState]) -> str:
    """Describe the maximum power of each state: ``at most 25 W in power state 0, ...``."""
    stated = [
        f"{state.max_power_w:g} W in power state {state.index}"
        for state in states
        if state.max_power_w is not None and not state.non_operational
    ]
    return f"at most {', '.join(stated)}" if stated else "no maximum power for any power state"


def open_meter(spec: MeterSpec, target: Target) -> NvmeMeter:
    """Open the drives that ``device`` names, or else those of the target.

    Raises:
        StudyError: A field is wrong, or the target does not identify its drives.
        MeterError: A drive cannot be accessed, or does not report its power.
    """
    options = read_options(NvmeOptions, spec, target)
    drives: list[NvmeAdmin] = []
    try:
        for controller in _controllers(options, spec, target):
            drives.append(NvmeAdmin.open(controller))  # noqa: PERF401 - those opened must be closed
        return NvmeMeter(drives, options)
    except MeterError:
        for drive in drives:
            drive.close()
        raise


def _controllers(options: NvmeOptions, spec: MeterSpec, target: Target) -> list[Path]:
    """Return the controllers of the drives to read, each once.

    Raises:
        StudyError: No drive is named, and the target is a file or directory.
        MeterError: A named path is not an NVMe device.
    """
    if isinstance(options.device, str):
        named = [options.device]
    elif options.device is not None:
        named = options.device
    else:
        named = target.paths or ([target.path] if target.path else [])
        if not named or any(not Path(name).is_block_device() for name in named):
            raise StudyError(
                f'target "{target.name}": {spec.kind} meter.device',
                "the target is not a block device, so the drive is unknown",
                'add device = "/dev/disk/by-id/nvme-..." to the meter',
            )
    return list(dict.fromkeys(controller_of(name) for name in named))


def discover(dev_root: Path = Path("/dev")) -> list[Discovered]:
    """Return every NVMe controller of this machine, and whether it reports its power."""
    names = [p.name for p in dev_root.glob("nvme*") if re.fullmatch(r"nvme\d+", p.name)]
    if not names:
        return [_missing("nvme", "no NVMe controller on this machine", "attach an NVMe drive")]
    ordered = sorted(names, key=lambda name: int(name.removeprefix("nvme")))
    return [_look_at(dev_root / name) for name in ordered]


def _look_at(device: Path) -> Discovered:
    try:
        with NvmeAdmin.open(device) as drive:
            power = drive.smart_power()
            states = drive.power_states()
            error = drive.power_error() if power is not None else None
            model = drive.model
    except MeterError as failure:
        return _missing(device.name, failure.what, failure.fix)
    if power is None:
        what = f"{model} reports no power, only {ceilings(states)}"
        return _missing(device.name, what, _WITHOUT)
    known = error is not None and error.percent is not None
    return Discovered(
        kind="nvme",
        sensor=device.name,
        available=True,
        rate="1 Hz (mean of the last second)",
        accuracy=f"{error.percent} %" if error is not None and known else "not stated",
        privilege="root, or CAP_SYS_ADMIN",
        how=f'meters = [{{ kind = "nvme", device = "{device}" }}] ({model})',
    )


def _missing(sensor: str, what: str, fix: str) -> Discovered:
    return Discovered("nvme", sensor, False, "none", "none", "root, or CAP_SYS_ADMIN",
                      f"{what}: {fix}")  # fmt: skip
