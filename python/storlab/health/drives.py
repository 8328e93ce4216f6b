"""Read the health of the drives below a target by the way that suits each: NVMe log or smartctl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from storlab.base.errors import MeterError
from storlab.contracts.details import DriveHealth
from storlab.health.nvme_logs import read_nvme
from storlab.health.reading import COUNTERS, HealthReading
from storlab.health.smartctl import read_smartctl
from storlab.meters.nvme_admin import NvmeAdmin
from storlab.process.temperature import celsius, temperature_files
from storlab.stores.drives import Drive

_AT_ONCE = 8  # drives that are read at the same time; smartctl takes about 50 ms


def read_drive(drive: Drive) -> HealthReading:
    """Read the health of one drive; whatever cannot be read is absent with its reason."""
    device = f"/dev/{drive.name}"
    if not drive.name.startswith("nvme"):
        return read_smartctl(device)
    try:
        with NvmeAdmin.open(device) as admin:
            reading = read_nvme(admin)
    except MeterError as error:
        reading = HealthReading(absent={"log 02h": error.what})
    for link in drive.links[:1]:
        reading.put("link_gt_s", link.gt_s)
        reading.put("link_lanes", link.width)
    for port in drive.pci_devices[:1]:
        reading.put("link_corrected_errors", port.corrected_errors)
    for file in temperature_files(drive.sysfs).values():
        if "temperature_c" not in reading.values:
            reading.put("temperature_c", celsius(file))
        reading.put("temperature_limit_c", celsius(file.with_name("temp1_max")))
    return reading


def read_drives(drives: Iterable[Drive]) -> dict[str, HealthReading]:
    """Read the health of NVMe, SATA and SAS drives at the same time, by name.

    Other drives, such as those of a hypervisor, report none and are left out.
    """
    able = [drive for drive in drives if drive.name.startswith(("nvme", "sd"))]
    if not able:
        return {}
    with ThreadPoolExecutor(_AT_ONCE, "storlab-health") as pool:
        readings = pool.map(read_drive, able)
        return {drive.name: reading for drive, reading in zip(able, readings, strict=True)}


def compared(
    before: Mapping[str, HealthReading],
    after: Mapping[str, HealthReading],
    celsius: Mapping[str, Sequence[tuple[int, float]]],
) -> Iterator[DriveHealth]:
    """Join the readings of each drive before and after a run.

    Args:
        before: Readings before the load, by drive.
        after: Readings after it.
        celsius: Times and temperatures read during the run, by drive.
    """
    for drive, first in before.items():
        last = after.get(drive, HealthReading())
        warmth = [degrees for _, degrees in celsius.get(drive, ())]
        warmth += [r.values["temperature_c"] for r in (first, last) if "temperature_c" in r.values]
        absent = {**first.absent, **last.absent}
        for name in first.values.keys() & last.values.keys() & COUNTERS:
            if last.values[name] < first.values[name]:
                absent[name] = f"went back from {first.values[name]} to {last.values[name]}"
        yield DriveHealth(
            drive=drive,
            source=", ".join(dict.fromkeys([*first.sources, *last.sources])),
            before=first.values,
            after=last.values,
            hottest_c=max(warmth, default=None),
            absent=dict(sorted(absent.items())),
        )
