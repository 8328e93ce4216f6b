"""Preflight check of drive health: which logs of a study's drives runs can record, and why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from storlab.contracts.check import Check
from storlab.contracts.details import DriveHealth
from storlab.health.drives import read_drives
from storlab.health.evidence import health_flags
from storlab.health.reading import HealthReading
from storlab.lab.watch.machine_watch import drives_of
from storlab.model.study import Target
from storlab.stores.medium import medium_of


def health_checks(targets: Sequence[Target], base: Path) -> Iterator[Check]:
    """Report once which health logs the drives of all targets give, and drives that are worn.

    Args:
        targets: Targets of the study.
        base: Directory that relative paths of the study start from.
    """
    local = [target for target in targets if target.s3 is None and not target.is_null]
    places = [base / location for target in local for location in target.locations]
    devices = [device for place in places for device in medium_of(place).devices]
    readings = read_drives(drives_of(devices))
    if readings:
        yield log_check(readings)
    drives = [DriveHealth(drive=n, after=reading.values) for n, reading in readings.items()]
    for flag in health_flags(drives):
        fix = "use another drive, or let it cool"
        yield Check(name="drive health", status="warning", what=flag.message, fix=fix)


def log_check(readings: dict[str, HealthReading]) -> Check:
    """Describe the logs that were read, with the drives of each, and why others were not."""
    drives: dict[str, list[str]] = {}
    for name, reading in readings.items():
        if reading.sources:
            drives.setdefault(", ".join(reading.sources), []).append(name)
        else:
            why = "; ".join(dict.fromkeys(reading.absent.values()))
            drives.setdefault(f"runs will not record it: {why}", []).append(name)
    what = "; ".join(f"{', '.join(names)}: {text}" for text, names in drives.items())
    return Check(name="drive health", status="ok", what=what)
