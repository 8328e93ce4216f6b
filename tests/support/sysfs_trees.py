"""Parts of sysfs as the kernel lays them out, for meters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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


# Writes the counter, with its priority raised where that is permitted, until its input closes. It
# prints a line when it begins.
_COUNT = """
import os, select, sys, time
file, modulus, start_uj, watts = sys.argv[1], *map(float, sys.argv[2:])
try:
    os.setpriority(os.PRIO_PROCESS, 0, -15)
except PermissionError:
    pass
new = os.path.join(os.path.dirname(file), ".energy.new")
begin_ns = time.monotonic_ns()
sys.stdout.write("counting\\n")
sys.stdout.flush()
while not select.select([sys.stdin], [], [], 0.001)[0]:
    counted = (time.monotonic_ns() - begin_ns) * watts / 1e3
    try:  # it may be unplugged at any moment
        with open(new, "w") as written:
            written.write(f"{int((start_uj + counted) % modulus)}\\n")
        os.rename(new, file)
    except FileNotFoundError:
        pass
"""


class RunningCounter:
    """Process that counts the energy of a constant power into a file, like RAPL, until stopped.

    A real counter is never delayed by load. A thread would be, by others that hold the
    interpreter's lock while they wait for a processor.
    """

    def __init__(self, file: Path, watts: float, range_uj: int, start_uj: int = 0) -> None:
        self.file = file
        self._start_uj = start_uj
        values = (range_uj + 1, start_uj, watts)
        self._command = [sys.executable, "-I", "-S", "-c", _COUNT, str(file), *map(str, values)]

    def __enter__(self) -> RunningCounter:
        replace(self.file, self._start_uj)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        assert self._process.stdout.readline()  # the meter must not see a counter that stands still
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
