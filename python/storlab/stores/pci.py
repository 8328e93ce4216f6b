"""PCIe topology from sysfs: devices, links, and how far two devices are apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from storlab.stores.devices import read_fact

_BRIDGE = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NVIDIA = "0x10de"
_DISPLAY = ("0x0300", "0x0302")  # PCI classes of VGA and 3D controllers
_BAR1_LINE = 1  # line of ``resource`` with the aperture through which peers see the GPU's memory
_ACS_CAPABILITY = 0x000D
_EXTENDED = 0x100  # offset of extended capabilities
_REDIRECT = 0b1100  # of ACS control: requests and completions between peers go up to the root
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
# GB/s of one lane per direction, after line coding, by transfer rate in GT/s.
_LANE_GB_S = {2.5: 0.25, 5.0: 0.5, 8.0: 0.985, 16.0: 1.969, 32.0: 3.938, 64.0: 7.563, 128.0: 15.125}


class Distance(IntEnum):
    """Distance between two PCIe devices, by the nearest part of the topology above both."""

    SWITCH = 0  # both below one root port
    HOST_BRIDGE = 1  # different root ports of one host bridge
    NODE = 2  # different host bridges, one NUMA node
    SYSTEM = 3  # different NUMA nodes


@dataclass(frozen=True, slots=True)
class Link:
    """PCIe link of a device: current speed and width, and what device and slot can do."""

    gt_s: float
    width: int
    own_gt_s: float  # maximum of the device; 0 if not reported
    own_width: int
    slot_gt_s: float = 0.0  # maximum of the port above the device; 0 if not reported
    slot_width: int = 0

    @property
    def most_gt_s(self) -> float:
        """Highest transfer rate that both device and slot support."""
        return _least(self.own_gt_s, self.slot_gt_s)

    @property
    def most_width(self) -> int:
        """Largest number of lanes that both device and slot have."""
        return round(_least(self.own_width, self.slot_width))

    @property
    def is_slow(self) -> bool:
        """Whether the transfer rate is below the highest one that both sides support."""
        return self.gt_s < self.most_gt_s

    @property
    def is_narrow(self) -> bool:
        """Whether the link uses fewer lanes than both sides have."""
        return self.width < self.most_width

    @property
    def is_degraded(self) -> bool:
        """Whether the link is slower or narrower than device and slot allow."""
        return self.is_slow or self.is_narrow

    @property
    def is_limited_by_slot(self) -> bool:
        """Whether the device would be faster in another slot."""
        return self.own_gt_s > self.most_gt_s or self.own_width > self.most_width

    @property
    def gb_s(self) -> float:
        """Current bandwidth per direction in GB/s."""
        return _LANE_GB_S.get(self.gt_s, 0.0) * self.width

    @property
    def most_gb_s(self) -> float:
        """Highest bandwidth per direction in GB/s that device and slot allow."""
        return _LANE_GB_S.get(self.most_gt_s, 0.0) * self.most_width

    @property
    def most(self) -> str:
        """Fastest link that device and slot allow, such as ``16 GT/s x4``."""
        return f"{self.most_gt_s:g} GT/s x{self.most_width}"

    def __str__(self) -> str:
        """Format the current link as ``16 GT/s x4``."""
        return f"{self.gt_s:g} GT/s x{self.width}"


def _least(first: float, second: float) -> float:
    """Return the smaller of two maxima, of which 0 stands for one that is not reported."""
    return min(first, second) if first and second else first or second


@dataclass(frozen=True, slots=True)
class PciDevice:
    """PCIe device (function) with its position in the topology."""

    address: str  # such as 0000:41:00.0
    sysfs: Path  # resolved path
    # Addresses from the host bridge to the device: pci0000:40, 0000:40:01.1, ...
    chain: tuple[str, ...]

    @property
    def node(self) -> int | None:
        """NUMA node of the device; None if unknown."""
        number = read_fact(self.sysfs / "numa_node")
        return None if number is None or int(number) < 0 else int(number)

    @property
    def link(self) -> Link | None:
        """Link of the device; None without one, as in most virtual machines."""
        speed, width = _link_numbers(self.sysfs, "current")
        if speed == 0 or width not in _WIDTHS:  # a device that is switched off reads as 63 lanes
            return None
        own = _link_numbers(self.sysfs, "max")
        return Link(speed, width, *own, *_link_numbers(self.sysfs.parent, "max"))

    @property
    def corrected_errors(self) -> int | None:
        """Errors that the device reported as corrected since the machine started (AER).

        None if the kernel does not count them, as without the right to control error reporting.
        """
        lines = (read_fact(self.sysfs / "aer_dev_correctable") or "").splitlines()
        counts = [line.split() for line in lines if line.startswith("TOTAL_ERR_COR ")]
        return int(counts[0][1]) if counts and counts[0][1].isdigit() else None

    @property
    def bar1_bytes(self) -> int | None:
        """Size of a GPU's BAR1, the window in which other devices can access its memory."""
        lines = (read_fact(self.sysfs / "resource") or "").splitlines()
        if len(lines) <= _BAR1_LINE:
            return None
        start, end = (int(word, 16) for word in lines[_BAR1_LINE].split()[:2])
        return end - start + 1 if end > start else None

    @property
    def gives_peer_memory(self) -> bool:
        """Whether the kernel has registered memory of the device for peer-to-peer DMA."""
        return (self.sysfs / "p2pmem").is_dir()

    @property
    def iommu_type(self) -> str | None:
        """Type of the device's IOMMU domain; ``DMA`` and ``DMA-FQ`` translate addresses."""
        return read_fact(self.sysfs / "iommu_group" / "type")


def device(root: Path, address: str) -> PciDevice | None:
    """Return the PCIe device with an address; None if there is none."""
    name = normal(address)
    place = root / "sys/bus/pci/devices" / (name or "none")
    return _of(place) if name and place.exists() else None


def device_above(sysfs: Path) -> PciDevice | None:
    """Return the PCIe device to which a device belongs, by its resolved sysfs directory."""
    place = next((p for p in (sysfs, *sysfs.parents) if _ADDRESS.fullmatch(p.name)), None)
    return None if place is None else _of(place)


def normal(address: str) -> str | None:
    """Convert a PCI address to the kernel's form.

    CUDA writes it in capital letters, and NVML with eight digits for the domain.
    """
    match = re.fullmatch(r"0*([0-9a-f]*):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", address.lower())
    return None if match is None else f"{match[1]:0>4}:{match[2]}"


def gpus(root: Path) -> list[PciDevice]:
    """Return all NVIDIA GPUs in the order of their PCI addresses."""
    devices = []
    base = root / "sys/bus/pci/devices"
    for place in sorted(base.iterdir()) if base.is_dir() else []:
        kind = read_fact(place / "class") or ""
        if read_fact(place / "vendor") == _NVIDIA and kind.startswith(_DISPLAY):
            devices.append(_of(place))
    return devices


def address_in(sysfs: Path) -> str | None:
    """Return the last PCI address in a resolved sysfs path; None if it contains none."""
    addresses = [part for part in sysfs.parts if _ADDRESS.fullmatch(part)]
    return addresses[-1] if addresses else None


def distance(first: PciDevice, second: PciDevice) -> Distance:
    """Return how far two devices are apart, by what their upstream paths have in common."""
    shared = 0
    for step, others in zip(first.chain[:-1], second.chain[:-1], strict=False):
        if step != others:
            break
        shared += 1
    if shared >= 2:  # host bridge and root port
        return Distance.SWITCH
    if shared == 1:
        return Distance.HOST_BRIDGE
    apart = first.node is not None and second.node is not None and first.node != second.node
    return Distance.SYSTEM if apart else Distance.NODE


def redirecting_bridges(root: Path, first: PciDevice, second: PciDevice) -> list[str] | None:
    """Return bridges between two devices whose ACS sends peer-to-peer traffic to the root complex.

    Bridges above both devices do not matter, as they see peer traffic only if a bridge below sent
    it there. None if the configuration space cannot be read, which requires root.
    """
    bridges = []
    own, other = first.chain[1:-1], second.chain[1:-1]
    for address in (*own, *other):
        if address in own and address in other:
            continue
        place = root / "sys/bus/pci/devices" / address / "config"
        try:
            config = place.read_bytes()
        except OSError:
            return None
        if len(config) <= _EXTENDED:
            return None
        if acs_control(config) & _REDIRECT:
            bridges.append(address)
    return bridges


def acs_control(config: bytes) -> int:
    """Return the control register of Access Control Services; 0 without this capability."""
    offset, steps = _EXTENDED, 0
    while _EXTENDED <= offset <= len(config) - 8 and steps < 64:
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == _ACS_CAPABILITY:
            return int.from_bytes(config[offset + 6 : offset + 8], "little")
        offset, steps = header >> 20 & ~3, steps + 1
    return 0


def _link_numbers(sysfs: Path, which: str) -> tuple[float, int]:
    """Return GT/s and lanes of a device's ``current`` or ``max`` link; 0 if not reported."""
    texts = (read_fact(sysfs / f"{which}_link_{name}") for name in ("speed", "width"))
    speed, width = (re.match(r"\d+(\.\d+)?", text or "") for text in texts)
    return float(speed[0]) if speed else 0.0, int(float(width[0])) if width else 0


def _of(place: Path) -> PciDevice:
    real = place.resolve()
    parts = real.parts
    chain = [part for part in parts if _BRIDGE.fullmatch(part) or _ADDRESS.fullmatch(part)]
    return PciDevice(real.name, real, tuple(chain))
