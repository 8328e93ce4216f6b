"""Trees of /proc and /sys with GPUs, NVMe drives and bridges, as the kernel lays them out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from support.sysfs_trees import put

GIB = 1 << 30
OPEN_DRIVER = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root)"
)
CLOSED_DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56"


class PciTree:
    """A machine's tree below a root directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def text(self, place: str, content: str | int) -> None:
        put(self.root / place, content)

    def device(
        self,
        chain: Sequence[str],
        *,
        kind: str = "0x060400",
        vendor: str = "0x8086",
        node: int = 0,
        link: tuple[float, int, float, int] | None = None,
        resource: str | None = None,
        config: bytes | None = None,
    ) -> Path:
        """Add a chain of devices from the host bridge; return the last one."""
        place = self.root / "sys/devices" / Path(*chain)
        put(place / "class", kind)
        put(place / "vendor", vendor)
        put(place / "numa_node", node)
        if link is not None:
            speed, width, most_speed, most_width = link
            put(place / "current_link_speed", f"{speed} GT/s PCIe")
            put(place / "current_link_width", width)
            put(place / "max_link_speed", f"{most_speed} GT/s PCIe")
            put(place / "max_link_width", most_width)
        if resource is not None:
            put(place / "resource", resource)
        if config is not None:
            (place / "config").write_bytes(config)
        self._link(self.root / "sys/bus/pci/devices" / chain[-1], place)
        return place

    def gpu(
        self,
        chain: Sequence[str],
        *,
        node: int = 0,
        bar1: int = 128 * GIB,
        link: tuple[float, int, float, int] = (32.0, 16, 32.0, 16),
    ) -> Path:
        start = 0x200000000000
        lines = ["0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200"]
        lines.append(f"0x{start:016x} 0x{start + bar1 - 1:016x} 0x000000000014220c")
        lines += ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 5
        resource = "\n".join(lines)
        return self.device(
            chain, kind="0x030200", vendor="0x10de", node=node, link=link, resource=resource
        )

    def nvme(
        self,
        chain: Sequence[str],
        number: str,
        name: str = "nvme0n1",
        *,
        node: int = 0,
        link: tuple[float, int, float, int] = (32.0, 4, 32.0, 4),
        partition: str | None = None,
    ) -> Path:
        """Add a namespace; ``number`` is its partition, if any."""
        pci = self.device(chain, kind="0x010802", vendor="0x1344", node=node, link=link)
        controller = pci / "nvme" / name.partition("n1")[0]
        put(controller / "transport", "pcie")
        place = controller / name
        put(place / "size", 2048)
        if partition is not None:
            place /= partition
            put(place / "partition", 1)
        self.block(number, place)
        return place

    def block(self, number: str, place: Path) -> None:
        put(place / "dev", number)
        self._link(self.root / "sys/dev/block" / number, place)

    def layer(self, name: str, number: str, parts: Sequence[Path], **facts: str) -> Path:
        """Add an md or dm device; facts are given as ``md__level="raid0"``."""
        place = self.root / "sys/devices/virtual/block" / name
        for key, value in facts.items():
            put(place / key.replace("__", "/"), value)
        for part in parts:
            self._link(place / "slaves" / part.name, part)
        self.block(number, place)
        return place

    @staticmethod
    def _link(link: Path, place: Path) -> None:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(place)


def acs_config(control: int) -> bytes:
    """Return a bridge's configuration space with one other extended capability before ACS."""
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
    config[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
    config[0x14E:0x150] = control.to_bytes(2, "little")
    return bytes(config)
