"""Facts about GPU drivers and the kernel, read from /proc and /sys."""

from __future__ import annotations

import gzip
import os
import re
from dataclasses import dataclass
from pathlib import Path

from storlab.stores.devices import read_fact

P2PDMA_KERNEL = (6, 2)  # first version in which user memory may be peer memory
_STATIC_BAR1 = re.compile(r"RMForceStaticBar1=(0x)?1\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Driver:
    """NVIDIA kernel driver: version, and whether its modules are the open ones."""

    version: str  # such as 560.35.03
    is_open: bool  # whether these are the open kernel modules


@dataclass(frozen=True, slots=True)
class Kernel:
    """Properties of the kernel that P2PDMA depends on; None if unknown."""

    release: str
    has_p2pdma: bool | None  # whether it was built with CONFIG_PCI_P2PDMA
    nvme_multipath: bool | None
    static_bar1: bool | None  # whether the NVIDIA driver maps all GPU memory statically

    @property
    def version(self) -> tuple[int, ...]:
        """Major and minor version; (0, 0) if the release has none."""
        match = re.match(r"(\d+)\.(\d+)", self.release)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    @property
    def is_new_enough(self) -> bool:
        """Whether the kernel is new enough for P2PDMA."""
        return self.version >= P2PDMA_KERNEL


def nvidia_driver(root: Path) -> Driver | None:
    """Return the NVIDIA kernel driver; None if it is not loaded."""
    text = read_fact(root / "proc/driver/nvidia/version")
    if text is None:
        return None
    line = text.splitlines()[0]
    match = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)*)\b", line)
    return Driver(match[1] if match else "of unknown version", "Open Kernel Module" in line)


def has_gpu_driver(root: Path) -> bool:
    """Return whether the kernel has a driver for NVIDIA GPUs.

    It is recognised by files in /proc, by its module, or by its device node, which is enough in a
    sandbox such as gVisor that hides /proc and /sys. WSL has /dev/dxg instead.
    """
    if nvidia_driver(root) is not None or (root / "dev/dxg").is_char_device():
        return True
    if any((root / "sys/module" / name).is_dir() for name in ("nvidia", "nvgpu")):
        return True
    try:
        os.close(os.open(root / "dev/nvidiactl", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return (root / "dev/nvidiactl").is_char_device()


def nvidia_fs_version(root: Path) -> str | None:
    """Return the version of the module nvidia-fs; None if it is not loaded."""
    for place in ("proc/driver/nvidia-fs/version", "sys/module/nvidia_fs/version"):
        text = read_fact(root / place)
        match = re.search(r"\d+(?:\.\d+)+", text or "")
        if match:
            return match[0]
    known = (root / "proc/driver/nvidia-fs", root / "sys/module/nvidia_fs")
    return "of unknown version" if any(place.exists() for place in known) else None


def nvidia_fs_counts(root: Path) -> bool | None:
    """Return whether nvidia-fs counts transfers; None if it is not loaded or does not report it."""
    match = re.search(
        r"\bIO stats: (Enabled|Disabled)", _text(root / "proc/driver/nvidia-fs/stats")
    )
    return None if match is None else match[1] == "Enabled"


def kernel(root: Path) -> Kernel:
    """Return the properties of the running kernel."""
    release = read_fact(root / "proc/sys/kernel/osrelease") or ""
    multipath = read_fact(root / "sys/module/nvme_core/parameters/multipath")
    dwords = re.search(r"^RegistryDwords:(.*)$", _text(root / "proc/driver/nvidia/params"), re.M)
    return Kernel(
        release=release,
        has_p2pdma=_configured(root, release, "CONFIG_PCI_P2PDMA"),
        nvme_multipath=None if multipath is None else multipath in ("Y", "1"),
        static_bar1=None if dwords is None else bool(_STATIC_BAR1.search(dwords[1])),
    )


def iommu_words(root: Path) -> list[str]:
    """Return the IOMMU options on the kernel's command line, such as ``iommu=pt``."""
    words = (read_fact(root / "proc/cmdline") or "").split()
    return [word for word in words if re.match(r"(intel_|amd_)?iommu(\.\w+)?=", word)]


def has_iommu(root: Path) -> bool:
    """Return whether an IOMMU is active."""
    place = root / "sys/class/iommu"
    return place.is_dir() and any(place.iterdir())


def can_be_locked_bytes(limits: str) -> int | None:
    """Read the limit of locked memory in bytes from /proc/PID/limits; None if unlimited."""
    match = re.search(r"^Max locked memory\s+(\d+|unlimited)", limits, re.M)
    return None if match is None or match[1] == "unlimited" else int(match[1])


def _configured(root: Path, release: str, name: str) -> bool | None:
    places = (f"boot/config-{release}", f"lib/modules/{release}/config", "proc/config.gz")
    for place in places:
        text = _text(root / place)
        if text:
            return re.search(rf"^{name}=[ym]$", text, re.M) is not None
    return None


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        plain = gzip.decompress(content) if path.suffix == ".gz" else content
        return plain.decode(errors="replace")
    except (OSError, EOFError):
        return ""
