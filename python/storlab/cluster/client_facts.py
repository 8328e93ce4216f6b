"""Facts about a client's software and hardware, compared between clients before a measurement."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import storlab
from storlab import __version__, _native
from storlab.base.processor import CPUINFO, cpu_model
from storlab.cluster.task import ClientPlace
from storlab.process.host_memory import host_memory_bytes
from storlab.process.open_files import most_open_files
from storlab.stores.filesystems import (
    FileSystem,
    existing_parent,
    file_system_of,
    mounted_below,
)

_NETWORK = Path("/sys/class/net")
_INFINIBAND = Path("/sys/class/infiniband")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def client_facts(place: ClientPlace) -> dict[str, Any]:
    """Return the facts of this machine as JSON values: sizes in bytes, speeds in bit/s."""
    probed = json.loads(_native.probe())
    return {
        "host": socket.gethostname(),
        "boot": _BOOT_ID.read_text().strip(),  # the same in all containers of a machine
        "storlab": __version__,
        "build": "optimised" if probed["optimised"] else "for tests",
        "native": native_digest(Path(_native.__file__)),
        "code": code_digest(Path(storlab.__file__).parent),
        "io_uring": "" if probed["uring"]["available"] else probed["uring"]["reason"],
        "python": sys.version.split()[0],
        "kernel": platform.release(),
        "cpu_level": cpu_level(),
        "cpu_model": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": host_memory_bytes(),
        "memlock_bytes": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "open_files": most_open_files(),
        "load": os.getloadavg()[0],
        "nics": {name: nic_speed(name) for name in place.data_nics},
        "missing_nics": [name for name in place.data_nics if not nic_exists(name)],
    }


_ENDS = 1 << 20


def native_digest(library: Path) -> str:
    """Return a digest that distinguishes builds of the native library.

    Only the size, the beginning and the end of the file are hashed, because a debug build is large.
    The beginning contains the linker's build id, which is a hash of the whole file.
    """
    with library.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(f"{size} ".encode() + file.read(_ENDS))
        file.seek(max(0, size - _ENDS))
        digest.update(file.read())
    return digest.hexdigest()[:12]


def code_digest(package: Path) -> str:
    """Return a digest of the names and contents of all Python files of a package.

    It detects local changes to the code, which the version number does not show.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package)} {len(content)} ".encode() + content)
    return digest.hexdigest()[:12]


# CPU features of each microarchitecture level of the x86-64 psABI, named as in /proc/cpuinfo.
_LEVELS = {
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx2 bmi1 bmi2 fma f16c movbe abm",
    "x86-64-v2": "sse4_2 ssse3 popcnt cx16 lahf_lm",
}


def cpu_level() -> str:
    """Return the x86-64 level of this CPU (``x86-64-v3``), or the architecture if not x86-64."""
    if platform.machine() != "x86_64":
        return platform.machine()
    text = CPUINFO.read_text(errors="replace")
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    flags = set(line.partition(":")[2].split())
    levels = (level for level, needed in _LEVELS.items() if set(needed.split()) <= flags)
    return next(levels, "x86-64-v1")


def mount_facts(directory: Path, mount: str | None) -> dict[str, Any] | None:
    """Return facts about the file system of a directory, such as type, source and free bytes.

    The result is None if ``mount`` is given and no file system is mounted there: load for a shared
    file system would then go to a local directory of the same name.
    """
    try:
        under = file_system_of(directory) if mount is None else None
        if mount is not None:
            under = mounted_below(directory, Path(mount))
        if under is None:
            return None
        status = os.statvfs(existing_parent(directory))
    except OSError:
        return None
    return {
        "point": under.mount_point,
        "kind": under.kind,
        "source": under.source,
        "options": under.options,
        "total_bytes": status.f_blocks * status.f_frsize,
        "free_bytes": status.f_bavail * status.f_frsize,
        "network": is_network(under),
    }


def is_network(system: FileSystem) -> bool:
    """Return whether a file system is remote, according to its type and source."""
    kind = system.kind
    return ":" in system.source or kind.startswith(
        (
            "nfs",
            "cifs",
            "smb",
            "lustre",
            "ceph",
            "gpfs",
            "beegfs",
            "wekafs",
            "fuse.",
            "9p",
            "orange",
        )
    )


def nic_speed(name: str) -> int | None:
    """Return the speed of a network interface in bit/s; None if unknown, as for virtual ones."""
    try:
        speed = int((_NETWORK / name / "speed").read_text())
    except (OSError, ValueError):
        return None
    return speed * 1_000_000 if speed > 0 else None


def nic_exists(name: str) -> bool:
    """Return whether this machine has a network interface of that name."""
    return (_NETWORK / name).exists()


def nic_bytes(names: list[str]) -> tuple[int, ...]:
    """Return the bytes that each network interface received and sent, including RDMA.

    The kernel's interface counters miss RDMA, so the port's counters are read as well. An
    InfiniBand port counts all traffic, including IP. A RoCE port (Ethernet) counts only RDMA, so
    both counters are added.

    Returns:
        Two numbers per interface: received and sent bytes since boot.

    Raises:
        OSError: An interface does not exist.
    """
    counted: list[int] = []
    for name in names:
        place = _NETWORK / name / "statistics"
        stack = [int((place / direction).read_text()) for direction in ("rx_bytes", "tx_bytes")]
        moved = _port_bytes(name)
        if moved is None:
            counted += stack
        elif moved.ethernet:
            counted += [stack[0] + moved.received, stack[1] + moved.sent]
        else:
            counted += [moved.received, moved.sent]
    return tuple(counted)


class _PortBytes(NamedTuple):
    received: int
    sent: int
    ethernet: bool  # whether the link layer is Ethernet


def _port_bytes(name: str) -> _PortBytes | None:
    """Return the byte counters of an interface's RDMA port, or None if it has no such port."""
    for device in sorted((_NETWORK / name / "device" / "infiniband").glob("*")):
        port = _INFINIBAND / device.name / "ports" / "1"
        with suppress(OSError, ValueError):
            # The counters count units of 4 bytes (InfiniBand Architecture Specification,
            # PortCounters).
            received, sent = (
                4 * int((port / "counters" / counter).read_text())
                for counter in ("port_rcv_data", "port_xmit_data")
            )
            layer = port / "link_layer"
            ethernet = layer.exists() and layer.read_text().strip() == "Ethernet"
            return _PortBytes(received, sent, ethernet)
    return None
