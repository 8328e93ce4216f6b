"""Parts of sysfs as the kernel lays them out, for meters."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from storlab.base.clock import monotonic_ns


def put(path: Path, content: str | int) -> None:
    """Write a sysfs file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, content)


def replace(path: Path, content: str | int) -> None:
    """Write a sysfs file atomically in an existing directory."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(f"{content}\n")
    new.rename(path)


def rapl_tree(
    root: Path, packages: int = 1, range_uj: int = 262_143_328_850, start_uj: int = 1_000_000
) -> list[Path]:
    """Create packages with core and dram, psys next to them, and the mmio copy of the first.

    Returns the counters of the packages.
    """
    base = root / "class" / "powercap"
    zones = {"intel-rapl-mmio:0": "package-0", f"intel-rapl:{packages}": "psys"}
    for number in range(packages):
        zones[f"intel-rapl:{number}"] = f"package-{number}"
        zones[f"intel-rapl:{number}:0"] = "core"
        zones[f"intel-rapl:{number}:1"] = "dram"
    for directory, name in zones.items():
        put(base / directory / "name", name)
        put(base / directory / "energy_uj", start_uj)
        put(base / directory / "max_energy_range_uj", range_uj)
    return [base / f"intel-rapl:{number}" / "energy_uj" for number in range(packages)]


def hwmon_tree(root: Path, number: int, chip: str, device: str, **files: str | int) -> Path:
    """Create one hwmon chip with its files."""
    place = root / "class" / "hwmon" / f"hwmon{number}"
    put(place / "name", chip)
    real = root / "devices" / device
    real.mkdir(parents=True, exist_ok=True)
    (place / "device").symlink_to(real)
    for name, content in files.items():
        put(place / name, content)
    return place


class RunningCounter:
    """Thread that counts the energy of a constant power into a file, like RAPL, until stopped.

    A real counter is never delayed by load, so this thread raises its priority if permitted (as
    root); otherwise it would show too little power on a busy machine.
    """

    def __init__(self, file: Path, watts: float, range_uj: int, start_uj: int = 0) -> None:
        self.file = file
        self.watts = watts
        self._modulus = range_uj + 1
        self._start_uj = start_uj
        self._begin_ns = monotonic_ns()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> RunningCounter:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, -15)  # of this thread
        while not self._stop.wait(0.001):
            self._write()

    def _write(self) -> None:
        counted = (monotonic_ns() - self._begin_ns) * self.watts / 1e3
        with contextlib.suppress(FileNotFoundError):  # it may be unplugged at any moment
            replace(self.file, (self._start_uj + int(counted)) % self._modulus)
