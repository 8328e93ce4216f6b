"""Describe the machine of a campaign, for ``environment.json``; unreported values are null."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from subprocess import SubprocessError
from typing import Any
from urllib.parse import urlsplit

from storlab import __version__
from storlab.base.clock import utc_now_iso
from storlab.base.errors import StorlabError
from storlab.base.processor import cpu_model
from storlab.contracts.registry import ENGINES, get_engine
from storlab.model.s3 import EMBEDDED, S3Options
from storlab.model.study import StudyBase, Target
from storlab.process.host_memory import host_memory_bytes
from storlab.process.processor_state import idle_states, turbo
from storlab.stores.devices import Device, device_number, read_fact
from storlab.stores.drives import Drive, paths_of, stack_of
from storlab.stores.filesystems import file_system_of
from storlab.stores.zones import Zones

_CORES_ASKED = 8
_LIBRARIES = ("pyarrow", "pydantic", "numpy")


def describe_environment(
    study: StudyBase | None = None, base: Path | None = None
) -> dict[str, Any]:
    """Describe host, CPU, memory, versions, engines, and the drives of the study's targets.

    Args:
        study: Study whose targets to describe; None for no targets.
        base: Directory to which relative paths of the study refer; None for the working directory.

    Returns:
        Content of ``environment.json``; sizes are in bytes.
    """
    targets = [] if study is None else study.target
    return {
        "schema_version": 1,
        "recorded_at": utc_now_iso(),
        "host": socket.gethostname(),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cpu": cpu_facts(),
        "memory": {"total_bytes": host_memory_bytes(), "huge_pages_bytes": _huge_pages_bytes()},
        "clock_source": read_fact(
            Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        ),
        "versions": {
            "storlab": __version__,
            "python": sys.version.split()[0],
            **{name: _library(name) for name in _LIBRARIES},
        },
        "engines": {name: _engine(name) for name in list(ENGINES)},
        "targets": {t.name: target_facts(t, base or Path.cwd()) for t in targets},
    }


def cpu_facts() -> dict[str, Any]:
    """Return CPU model, number of cores, cores usable by this process, and frequency governor."""
    return {
        "model": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "governor": governor(),
        "turbo": turbo(),
        "idle_states": _idle_states(),
    }


def _idle_states() -> list[str] | None:
    """Return the idle states that are not switched off, with their time to wake up; None if none.

    Only some cores are asked, because this is done before each run.
    """
    usable = sorted(os.sched_getaffinity(0))
    asked = usable[:: -(-len(usable) // _CORES_ASKED)]
    states = (state for cpu in asked for state in idle_states(cpu))
    latencies = {state.name: state.latency_us for state in states}
    return [f"{name} {us} us" for name, us in sorted(latencies.items(), key=itemgetter(1))] or None


def governor() -> str | None:
    """Return the frequency governors in use; None if not reported, as in most virtual machines."""
    governors = {
        read_fact(path)
        for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    }
    return ", ".join(sorted(name for name in governors if name)) or None


def target_facts(target: Target, base: Path) -> dict[str, Any]:
    """Describe a target: its drives, or else its file system and the drive that holds it."""
    if target.is_null:
        return {"kind": "null"}
    if target.s3 is not None:
        return _store_facts(target.s3, target.s3_options or S3Options(), base)
    places = [base / location for location in target.locations]
    numbers = [device_number(place) for place in places]
    if all(number is not None for number in numbers):
        drives = [drive_facts(Device(number)) for number in numbers if number is not None]
        return {"kind": "block_device", "drives": drives}
    kind = "directory" if target.directory is not None else "file"
    return {"kind": kind, **_file_system_facts(places[0])}


def _store_facts(address: str, options: S3Options, base: Path) -> dict[str, Any]:
    """Describe an S3 target: address of a remote store, or embedded server's file system."""
    if address.startswith(EMBEDDED):
        directory = base / address.removeprefix(EMBEDDED).strip()
        return {"kind": "s3", "embedded": True, **_file_system_facts(directory)}
    parts = urlsplit(address)
    return {
        "kind": "s3",
        "embedded": False,
        "endpoints": [f"{parts.scheme}://{parts.netloc}", *options.endpoints],
        "bucket": parts.path.strip("/"),
        "addressing": options.addressing,
        "tls": parts.scheme == "https",
        "verify_tls": options.verify_tls if parts.scheme == "https" else None,
        "drives": [],
    }


def _file_system_facts(place: Path) -> dict[str, Any]:
    under = file_system_of(place)
    device = under.device
    return {
        "file_system": under.kind,
        "mount_point": under.mount_point,
        "mount_options": under.options,
        "in_memory": under.in_memory,
        "drives": [] if device is None else [drive_facts(device)],
    }


def drive_facts(device: Device) -> dict[str, Any]:
    """Return model, firmware, size and queue settings of a drive, from sysfs."""
    try:
        disk = device.whole.sysfs
    except OSError:
        return {"number": device.number}
    zones = Zones.of(device)
    return {
        "name": device.name,
        "model": read_fact(disk / "device" / "model"),
        "vendor": read_fact(disk / "device" / "vendor"),
        "firmware": read_fact(disk / "device" / "firmware_rev")
        or read_fact(disk / "device" / "rev"),
        "serial": read_fact(disk / "serial") or read_fact(disk / "device" / "serial"),
        "size_bytes": device.size_bytes,
        "scheduler": scheduler(disk),
        "rotational": _flag(disk / "queue" / "rotational"),
        "logical_block_bytes": _number(disk / "queue" / "logical_block_size"),
        "physical_block_bytes": _number(disk / "queue" / "physical_block_size"),
        "queue_requests": _number(disk / "queue" / "nr_requests"),
        "max_io_kib": _number(disk / "queue" / "max_sectors_kb"),
        "write_cache": read_fact(disk / "queue" / "write_cache"),
        "zones": None if zones is None else asdict(zones),
        "discard_max_bytes": _number(disk / "queue" / "discard_max_bytes"),
        "loop_backing_file": device.backing_file,
        **_attachment(stack_of(disk)[1]),
    }


def _attachment(drives: Sequence[Drive]) -> dict[str, Any]:
    """Return how the drives of a block device are attached: one value, or a list if they differ."""
    links = [link for drive in drives for link in drive.links]
    return {
        "numa_node": _together(drive.node for drive in drives),
        "transport": _together(d.transport for d in drives if d.transport != "unknown"),
        "pcie_link": _together(map(str, links)),
        "pcie_link_possible": _together(link.most for link in links),
        "iommu": _together(drive.iommu_type for drive in drives),
        "paths": [str(path) for paths in paths_of(drives).values() for path in paths],
    }


def _together(values: Iterable[Any]) -> Any:
    known = list(dict.fromkeys(value for value in values if value is not None))
    return known if len(known) > 1 else known[0] if known else None


def scheduler(disk: Path) -> str | None:
    """Return the active I/O scheduler of a disk, whose name is in brackets in sysfs."""
    text = read_fact(disk / "queue" / "scheduler") or ""
    start, end = text.find("["), text.find("]")
    return text[start + 1 : end] if 0 <= start < end else text or None


def _number(path: Path) -> int | None:
    text = read_fact(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _flag(path: Path) -> bool | None:
    number = _number(path)
    return None if number is None else number != 0


def _huge_pages_bytes() -> int:
    pages = _number(Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")) or 0
    return pages * 2 * 1024 * 1024


def _library(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _engine(name: str) -> dict[str, Any]:
    """Describe an engine; if that fails, return the reason, because other engines may be in use."""
    try:
        return get_engine(name).describe().dump()
    except StorlabError as error:
        return {"name": name, "missing": error.what}
    except (OSError, ValueError, LookupError, TypeError, RuntimeError, SubprocessError) as error:
        what = f"cannot be described: {type(error).__name__}: {error}"
        return {"name": name, "missing": what}
