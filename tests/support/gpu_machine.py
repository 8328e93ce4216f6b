"""A machine with a GPU and an NVMe drive below one PCIe switch, and its libraries' answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from storlab.contracts.check import Check
from storlab.stores.drives import Drive
from storlab.workloads.gpudirect.details import CuFileTold, GpuReport, LibraryTold
from storlab.workloads.gpudirect.machine.doctor import Machine, examine_machine
from storlab.workloads.gpudirect.machine.memory import Demand
from storlab.workloads.gpudirect.machine.probe import Libraries, Probe
from storlab.workloads.gpudirect.machine.storage import Under
from support.pci_trees import GIB, OPEN_DRIVER, PciTree, acs_config

SWITCH = ("pci0000:40", "0000:40:01.1", "0000:41:00.0")
GPU_PLACE = (*SWITCH, "0000:42:00.0", "0000:43:00.0")
DRIVE_PLACE = (*SWITCH, "0000:42:01.0", "0000:44:00.0")
LIBRARIES = Libraries(cuda=("libcuda.so.1",), cufile=("libcufile.so.0",))
GPU = GpuReport(
    number=0,
    name="NVIDIA H100 NVL",
    pci="0000:43:00.0",
    compute="9.0",
    memory_bytes=94 * GIB,
    free_bytes=90 * GIB,
)
CUFILE = CuFileTold(path="/lib/libcufile.so.0", version="1.15", compat_allowed=True)
FOUND = Probe(
    gpus=(GPU,),
    cuda=LibraryTold(path="libcuda.so.1", version="13.0"),
    cufile=CUFILE,
)
MIB = 1 << 20
DIRECT = Demand(
    "read", "direct", (0,), workers=32, block_size=MIB, worker_bytes=MIB, least_block=MIB
)
DRIVE = Drive("nvme0n1", "pcie", "0000:44:00.0")
XFS = Under("xfs", frozenset({"rw"}), (), (DRIVE,))


def machine_tree(root: Path) -> PciTree:
    """Return the tree of a machine that allows P2PDMA and has no nvidia-fs loaded."""
    tree = PciTree(root)
    tree.text("proc/driver/nvidia/version", OPEN_DRIVER)
    tree.text("proc/driver/nvidia/params", 'RegistryDwords: "RMForceStaticBar1=1;ForceP2P=0"')
    tree.text("proc/sys/kernel/osrelease", "6.8.0-60")
    tree.text("boot/config-6.8.0-60", "CONFIG_PCI_P2PDMA=y")
    tree.text("sys/module/nvme_core/parameters/multipath", "N")
    tree.text("etc/cufile.json", '{"properties": {"use_pci_p2pdma": true}}')
    for place in (SWITCH, GPU_PLACE[:-1], DRIVE_PLACE[:-1]):
        tree.device(place, config=acs_config(0))
    tree.gpu(GPU_PLACE)
    tree.nvme(DRIVE_PLACE, "259:0")
    return tree


def as_machine(tree: PciTree, probed: Probe = FOUND) -> Machine:
    """Replace the machine by that tree, and its libraries by ones with these answers."""
    return Machine(tree.root, {}, lambda _: probed, is_root=True, processor="x86_64")


def rows_of(checks: Sequence[Check]) -> dict[str, Check]:
    """Return doctor's rows by name."""
    return {check.name: check for check in checks}


def machine_rows(tree: PciTree, probed: Probe = FOUND) -> dict[str, Check]:
    """Return doctor's rows about the machine only."""
    return rows_of(examine_machine(LIBRARIES, as_machine(tree, probed)))


def bad_rows(checks: Sequence[Check]) -> dict[str, str]:
    """Return the rows that are not ok, by name."""
    return {check.name: check.what for check in checks if check.status != "ok"}
