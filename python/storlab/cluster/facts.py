"""What a client is: compared before anything is measured."""

from __future__ import annotations

import json
import os
import platform
import resource
import socket
import sys
from pathlib import Path
from typing import Any

from storlab import __version__, _native
from storlab.base.processor import CPUINFO, cpu_model
from storlab.cluster.task import ClientPlace
from storlab.process.host_memory import host_memory_bytes
from storlab.process.open_files import most_open_files
from storlab.stores.filesystems import FileSystem, file_system_of

_NETWORK = Path("/sys/class/net")
_INFINIBAND = Path("/sys/class/infiniband")


def client_facts(place: ClientPlace) -> dict[str, Any]:
    """Of this machine, as JSON has it: sizes in bytes, speeds in bit/s."""
    return {
        "host": socket.gethostname(),
        "storlab": __version__,
        "build": "optimised" if json.loads(_native.probe())["optimised"] else "for tests",
        "python": sys.version.split()[0],
        "kernel": platform.release(),
        "cpu_level": cpu_level(),
        "cpu_model": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": host_memory_bytes(),
        "memlock_bytes": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "open_files": most_open_files(),
        "load": os.getloadavg()[0],
        "mount": None if place.mount is None else mount_facts(Path(place.mount)),
        "nics": {name: nic_speed(name) for name in place.data_nics},
    }


# Of the x86-64 psABI, by the kernel's names.
_LEVELS = {
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx2 bmi1 bmi2 fma f16c movbe abm",
    "x86-64-v2": "sse4_2 ssse3 popcnt cx16 lahf_lm",
}


def cpu_level() -> str:
    """The level of x86-64 that this processor has; of others their architecture."""
    if platform.machine() != "x86_64":
        return platform.machine()
    text = CPUINFO.read_text(errors="replace")
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    flags = set(line.partition(":")[2].split())
    found = (level for level, needed in _LEVELS.items() if set(needed.split()) <= flags)
    return next(found, "x86-64-v1")


def mount_facts(mount: Path) -> dict[str, Any] | None:
    """The file system that is mounted exactly there; None where nothing is.

    A directory on another file system is not enough: load for a shared system once went to the
    local disk that way.
    """
    try:
        under = file_system_of(mount)
        if os.path.realpath(mount) != under.mount_point:
            return None
        status = os.statvfs(mount)
    except OSError:
        return None
    return {
        "kind": under.kind,
        "source": under.source,
        "options": under.options,
        "total_bytes": status.f_blocks * status.f_frsize,
        "free_bytes": status.f_bavail * status.f_frsize,
        "network": is_network(under),
    }


def is_network(system: FileSystem) -> bool:
    """Whether its data are elsewhere, as far as its kind tells."""
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
    """Bit/s of a network interface; None where the kernel does not tell, as of virtual ones."""
    try:
        speed = int((_NETWORK / name / "speed").read_text())
    except (OSError, ValueError):
        return None
    return speed * 1_000_000 if speed > 0 else None


def nic_exists(name: str) -> bool:
    """Whether this machine has a network interface of that name."""
    return (_NETWORK / name).exists()


def nic_bytes(names: list[str]) -> tuple[int, ...]:
    """Received and sent bytes of each interface, two numbers for each.

    Those of its InfiniBand port where it has one, since RDMA passes the network stack by. Raises
    OSError for one that is not there.
    """
    counted: list[int] = []
    for name in names:
        ports = sorted((_NETWORK / name / "device" / "infiniband").glob("*"))
        counters = [_INFINIBAND / port.name / "ports" / "1" / "counters" for port in ports]
        if counters and counters[0].exists():
            # In units of four bytes: InfiniBand Architecture Specification, PortCounters.
            received, sent = ("port_rcv_data", "port_xmit_data")
            counted += [4 * int((counters[0] / each).read_text()) for each in (received, sent)]
        else:
            place = _NETWORK / name / "statistics"
            counted += [int((place / each).read_text()) for each in ("rx_bytes", "tx_bytes")]
    return tuple(counted)
