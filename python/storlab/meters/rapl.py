"""Meter ``rapl``: energy counters of CPU packages and their memory, from powercap in sysfs.

Source: the kernel's ``Documentation/power/powercap``. The file ``energy_uj`` wraps to 0 after
``max_energy_range_uj``. The counters cover processors and memory, not the whole machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from storlab.base.errors import MeterError, StudyError
from storlab.contracts.meter import Discovered
from storlab.meters.common import MidpointTimer, listed, read_number, read_text
from storlab.meters.options import MeterOptions, read_options
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target

BOUNDARY: Boundary = "host"  # unless the study states another
ROOT = Path("/sys")
# Exclude intel-rapl-mmio, because it repeats the same packages.
_ZONE = re.compile(r"intel-rapl:\d+(:\d+)?")
_UJ = 1e-6
_HOW_READ = "run as root, or let this user read energy_uj under /sys/class/powercap"


class RaplOptions(MeterOptions):
    """Fields of a meter with ``kind = "rapl"``."""

    boundary: Boundary = BOUNDARY
    zones: list[str] | None = Field(default=None, min_length=1)  # default: packages and their DRAM


@dataclass(frozen=True, slots=True)
class Zone:
    """RAPL energy counter, such as ``package-0`` or ``package-0/dram``."""

    name: str
    directory: Path
    max_uj: int

    @property
    def file(self) -> Path:
        """Path of the energy counter in sysfs."""
        return self.directory / "energy_uj"

    @property
    def is_default(self) -> bool:
        """Whether the counter, of a package or its memory, is read if the study lists no zones."""
        top, _, inner = self.name.partition("/")
        return top.startswith("package") and inner in ("", "dram")


def zones(root: Path) -> list[Zone]:
    """Return all RAPL counters of this machine.

    A package's counter includes ``core`` and ``uncore`` but not ``dram``; ``psys``, if it exists,
    includes everything.
    """
    base = root / "class" / "powercap"
    try:
        entries = sorted(entry for entry in base.iterdir() if _ZONE.fullmatch(entry.name))
    except OSError:
        return []
    tops = {e.name: read_text(e / "name") or e.name for e in entries}
    domains = []
    for entry in entries:
        parent = entry.name.rpartition(":")[0]
        name = tops[entry.name] if parent not in tops else f"{tops[parent]}/{tops[entry.name]}"
        limit = read_number(entry / "max_energy_range_uj")
        if limit:
            domains.append(Zone(name, entry, limit))
    return domains


class RaplMeter:
    """Meter that reads RAPL energy counters; a failed read raises MeterError."""

    def __init__(self, options: RaplOptions, where: str, root: Path = ROOT) -> None:
        self._options = options
        self._where = where
        self._watch = MidpointTimer()
        self._zones = list(_chosen(zones(root), options, where))
        for zone in self._zones:
            self._read(zone)

    def describe(self) -> list[SensorInfo]:
        """Return one sensor per counter; packages and their memory are added up."""
        return [
            self._options.info(
                sensor=f"rapl:{zone.name}",
                description=f"RAPL {zone.name}: processors and memory, not the whole machine",
                sampling="counter",
                unit="J",
                supply="dc",
                counter_max=zone.max_uj * _UJ,
                quantum=_UJ,
                clock_uncertainty_ns=self._watch.uncertainty_ns,
                whole="rapl" if zone.is_default else f"rapl {zone.name}",
            )
            for zone in self._zones
        ]

    def sample(self) -> list[Reading]:
        """Return the current value of every counter, in J."""
        return [self._read(zone) for zone in self._zones]

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return no readings: all are taken during the run."""
        del outcome
        return []

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _read(self, zone: Zone) -> Reading:
        try:
            text, time_ns = self._watch.read(zone.file.read_text)
            value = int(text)
        except PermissionError:
            raise MeterError(
                self._where, f"this user may not read the counter of {zone.name}", _HOW_READ
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it does not contain a number"
            raise MeterError(
                self._where, f"the counter of {zone.name} cannot be read: {reason}", "see dmesg"
            ) from None
        return Reading(f"rapl:{zone.name}", time_ns, value * _UJ)


def _chosen(domains: list[Zone], options: RaplOptions, where: str) -> Iterator[Zone]:
    if not domains:
        raise MeterError(
            where,
            "this machine has no RAPL counters (virtual machines hide them)",
            "load its driver on a physical machine (modprobe intel_rapl_msr), or remove the meter",
        )
    if options.zones is None and any(zone.is_default for zone in domains):
        yield from (zone for zone in domains if zone.is_default)
        return
    by_name = {zone.name: zone for zone in domains}
    for name in options.zones or by_name:
        if name not in by_name:
            raise StudyError(
                f"{where}.zones", f"there is no zone {name}", f"use some of {listed(by_name)}"
            )
        yield by_name[name]


def discover(root: Path = ROOT) -> list[Discovered]:
    """Return every RAPL counter, and whether this user may read it."""
    discovered = []
    for zone in zones(root):
        readable = os.access(zone.file, os.R_OK)
        how = 'meters = [{ kind = "rapl", boundary = "host" }]'
        if not zone.is_default:
            how = f'meters = [{{ kind = "rapl", boundary = "host", zones = ["{zone.name}"] }}]'
        discovered.append(
            Discovered(
                kind="rapl",
                sensor=f"rapl:{zone.name}",
                available=readable,
                rate="counter, 1 kHz updates",
                accuracy="not stated by the maker",
                privilege="none" if readable else "root",
                how=how if readable else _HOW_READ,
            )
        )
    return discovered or [
        Discovered(
            kind="rapl",
            sensor="rapl",
            available=False,
            rate="counter",
            accuracy="not stated by the maker",
            privilege="root",
            how="no counters in /sys/class/powercap: load the driver on a physical machine "
            "(modprobe intel_rapl_msr, also for AMD)",
        )
    ]


def open_meter(spec: MeterSpec, target: Target) -> RaplMeter:
    """Open the counters (zones) that a study names, or packages and their memory.

    Raises:
        StudyError: A field is wrong, or the boundary is not ``host``.
        MeterError: A counter cannot be read.
    """
    where = f'target "{target.name}": rapl meter'
    options = read_options(RaplOptions, spec, target)
    if options.boundary != "host":
        raise StudyError(
            f"{where}.boundary",
            f"RAPL counts the processors and memory of this host, not the {options.boundary}",
            'set boundary = "host"',
        )
    return RaplMeter(options, where, ROOT)
