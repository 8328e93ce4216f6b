"""Facts of drivers, kernel, PCIe, layers and configuration, from kernel-like trees."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from storlab.stores.drives import Drive, Layer, stack
from storlab.stores.pci import (
    Distance,
    PciDevice,
    acs_control,
    device,
    distance,
    gpus,
    normal,
    redirecting_bridges,
)
from storlab.workloads.gpudirect.machine.configuration import configuration, parse
from storlab.workloads.gpudirect.machine.kernel import (
    Driver,
    can_be_locked_bytes,
    has_iommu,
    iommu_words,
    kernel,
    nvidia_driver,
    nvidia_fs_version,
)
from support.pci_trees import CLOSED_DRIVER, GIB, OPEN_DRIVER, PciTree, acs_config

SWITCH = ("pci0000:40", "0000:40:01.1", "0000:41:00.0")


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    return PciTree(tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [(OPEN_DRIVER, Driver("580.65.06", True)), (CLOSED_DRIVER, Driver("550.54.15", False))],
)
def test_the_driver_says_its_version_and_kind(tree: PciTree, text: str, told: Driver) -> None:
    tree.text("proc/driver/nvidia/version", f"{text}\nGCC version:  gcc version 12.2.0")
    assert nvidia_driver(tree.root) == told


def test_without_a_driver_there_is_none(tree: PciTree) -> None:
    assert nvidia_driver(tree.root) is None
    assert nvidia_fs_version(tree.root) is None
    tree.text("proc/driver/nvidia-fs/version", "version: 2.24.3")
    assert nvidia_fs_version(tree.root) == "2.24.3"


@pytest.mark.parametrize("place", ["boot/config-6.8.0-60", "lib/modules/6.8.0-60/config"])
def test_the_kernel_says_whether_it_can_do_p2pdma(tree: PciTree, place: str) -> None:
    tree.text("proc/sys/kernel/osrelease", "6.8.0-60")
    tree.text(place, "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y")
    tree.text("sys/module/nvme_core/parameters/multipath", "Y")
    tree.text("proc/driver/nvidia/params", 'Mobile: 0\nRegistryDwords: "RMForceStaticBar1=1;X=2"')
    told = kernel(tree.root)
    assert (told.has_p2pdma, told.nvme_multipath, told.static_bar1) == (True, True, True)
    assert told.is_new_enough


def test_a_kernel_that_says_nothing_is_not_judged(tree: PciTree) -> None:
    tree.text("proc/sys/kernel/osrelease", "5.15.0-91-generic")
    told = kernel(tree.root)
    assert (told.has_p2pdma, told.nvme_multipath, told.static_bar1) == (None, None, None)
    assert not told.is_new_enough


def test_the_configuration_of_a_kernel_may_be_compressed(tree: PciTree) -> None:
    tree.text("proc/sys/kernel/osrelease", "6.12.1")
    packed = gzip.compress(b"# CONFIG_PCI_P2PDMA is not set\n")
    (tree.root / "proc/config.gz").write_bytes(packed)
    assert kernel(tree.root).has_p2pdma is False


def test_the_iommu(tree: PciTree) -> None:
    tree.text("proc/cmdline", "root=/dev/sda1 iommu=pt intel_iommu=on quiet")
    assert iommu_words(tree.root) == ["iommu=pt", "intel_iommu=on"]
    assert not has_iommu(tree.root)
    tree.text("sys/class/iommu/dmar0/intel-iommu/cap", "1")
    assert has_iommu(tree.root)


def test_limits_of_locked_memory() -> None:
    line = "Max locked memory         {}              {}              bytes"
    assert can_be_locked_bytes(line.format(8388608, 8388608)) == 8 << 20
    assert can_be_locked_bytes(line.format("unlimited", "unlimited")) is None


def test_gpus_are_found_and_their_apertures_read(tree: PciTree) -> None:
    tree.gpu((*SWITCH, "0000:42:00.0", "0000:43:00.0"), bar1=128 * GIB)
    tree.device(("pci0000:00", "0000:00:02.0"), kind="0x030000", vendor="0x102b")
    (found,) = gpus(tree.root)
    assert (found.address, found.bar1_bytes) == ("0000:43:00.0", 128 * GIB)
    assert found.link is not None
    assert found.link.gb_s == pytest.approx(63.0, abs=0.1)


def test_addresses_are_written_in_several_ways() -> None:
    names = ("0000:C1:00.0", "00000000:C1:00.0", ":c1:00.0")
    assert {normal(name) for name in names} == {"0000:c1:00.0"}
    assert normal("10000:01:00.0") == "10000:01:00.0"
    assert normal("GPU-0") is None


@pytest.mark.parametrize(
    ("drive", "node", "told"),
    [
        ((*SWITCH, "0000:42:01.0", "0000:44:00.0"), 0, Distance.SWITCH),
        (("pci0000:40", "0000:40:03.1", "0000:46:00.0"), 0, Distance.HOST_BRIDGE),
        (("pci0000:20", "0000:20:01.1", "0000:21:00.0"), 0, Distance.NODE),
        (("pci0000:c0", "0000:c0:01.1", "0000:c1:00.0"), 1, Distance.SYSTEM),
    ],
)
def test_distances(tree: PciTree, drive: tuple[str, ...], node: int, told: Distance) -> None:
    tree.gpu((*SWITCH, "0000:42:00.0", "0000:43:00.0"))
    tree.nvme(drive, "259:0", node=node)
    first, second = (device(tree.root, name) for name in ("0000:43:00.0", drive[-1]))
    assert first is not None
    assert second is not None
    assert distance(first, second) is distance(second, first) is told


def _pair(tree: PciTree, control: int) -> tuple[PciDevice, PciDevice]:
    tree.device(SWITCH[:2], config=acs_config(0b11101))
    tree.device(SWITCH, config=acs_config(0))
    for bridge in ("0000:42:00.0", "0000:42:01.0"):
        tree.device((*SWITCH, bridge), config=acs_config(control))
    tree.gpu((*SWITCH, "0000:42:00.0", "0000:43:00.0"))
    tree.nvme((*SWITCH, "0000:42:01.0", "0000:44:00.0"), "259:0")
    first, second = (device(tree.root, name) for name in ("0000:43:00.0", "0000:44:00.0"))
    assert first is not None
    assert second is not None
    return first, second


def test_acs_is_looked_at_only_below_where_both_meet(tree: PciTree) -> None:
    """Check that ACS above the common root port is ignored: peer requests stay below it."""
    assert redirecting_bridges(tree.root, *_pair(tree, 0b10001)) == []


def test_acs_that_redirects_is_named(tree: PciTree) -> None:
    found = redirecting_bridges(tree.root, *_pair(tree, 0b11101))
    assert found == ["0000:42:00.0", "0000:42:01.0"]


def test_acs_is_not_known_to_who_may_not_read_it(tree: PciTree) -> None:
    first, second = _pair(tree, 0)
    (tree.root / "sys/bus/pci/devices/0000:42:00.0/config").write_bytes(bytes(64))
    assert redirecting_bridges(tree.root, first, second) is None
    assert acs_control(bytes(64)) == acs_control(bytes(4096)) == 0


def test_a_partition_lies_on_its_drive(tree: PciTree) -> None:
    tree.nvme((*SWITCH[:2], "0000:44:00.0"), "259:1", partition="nvme0n1p1")
    layers, drives = stack(tree.root, "259:1")
    assert layers == ()
    assert drives == (Drive("nvme0n1", "pcie", "0000:44:00.0"),)
    assert drives[0].is_local_nvme


def test_layers_are_walked_down_to_the_drives(tree: PciTree) -> None:
    parts = [
        tree.nvme(("pci0000:40", f"0000:40:0{i}.1", f"0000:4{i}:00.0"), f"259:{i}", f"nvme{i}n1")
        for i in (1, 2)
    ]
    raid = tree.layer("md0", "9:0", parts, md__level="raid0")
    tree.layer("dm-0", "253:0", [raid], dm__uuid="LVM-abcdef")
    layers, drives = stack(tree.root, "253:0")
    assert layers == (Layer("dm-0", "LVM"), Layer("md0", "raid0"))
    assert [drive.pci for drive in drives] == ["0000:41:00.0", "0000:42:00.0"]


def test_a_namespace_behind_multipath_is_on_its_controllers_device(tree: PciTree) -> None:
    pci = tree.device(("pci0000:40", "0000:40:01.1", "0000:41:00.0"), kind="0x010802")
    tree.text("sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/nvme/nvme0/transport", "pcie")
    subsystem = tree.root / "sys/devices/virtual/nvme-subsystem/nvme-subsys0"
    tree.block("259:0", subsystem / "nvme0n1")
    (subsystem / "nvme0").symlink_to(pci / "nvme/nvme0")
    assert stack(tree.root, "259:0")[1] == (Drive("nvme0n1", "pcie", "0000:41:00.0"),)


def test_a_namespace_over_fabrics_has_no_address(tree: PciTree) -> None:
    place = tree.root / "sys/devices/virtual/nvme-fabrics/ctl/nvme0"
    tree.text("sys/devices/virtual/nvme-fabrics/ctl/nvme0/transport", "rdma")
    tree.block("259:0", place / "nvme0n1")
    assert stack(tree.root, "259:0")[1] == (Drive("nvme0n1", "rdma", None),)


CUFILE_JSON = """{
    // read from here
    "logging": { "dir": "/var/log//cufile", "level": "ERROR" },
    "properties": {
            /* of the driver */
            "max_direct_io_size_kb" : 16384, // at once
            "allow_compat_mode": true,
            "use_poll_mode" : false,
            "use_pci_p2pdma": true,
    },
    "block": { "nvme": { "use_pci_p2pdma": false } },
    "fs": { "lustre": { "posix_gds_min_kb": 16 }, "beegfs": { "posix_gds_min_kb": 0 } },
}
"""


def test_the_configuration_may_have_comments(tree: PciTree) -> None:
    tree.text("etc/cufile.json", CUFILE_JSON)
    told = configuration(tree.root, {})
    assert told.path == tree.root / "etc/cufile.json"
    assert (told.allow_compat, told.p2pdma, told.poll_mode) == (True, True, False)
    assert (told.direct_io_kb, told.problem) == (16384, "")
    assert told.nvme_p2pdma is False
    assert told.posix_below_kb == {"lustre": 16}
    assert parse(CUFILE_JSON)["logging"]["dir"] == "/var/log//cufile"


def test_the_environment_comes_before_the_file(tree: PciTree, tmp_path: Path) -> None:
    tree.text("etc/cufile.json", CUFILE_JSON)
    own = tmp_path / "own.json"
    own.write_text('{"properties": {"allow_compat_mode": false}}')
    told = configuration(tree.root, {"CUFILE_ENV_PATH_JSON": str(own)})
    assert (told.path, told.allow_compat, told.p2pdma) == (own, False, None)
    variables = {"CUFILE_ALLOW_COMPAT_MODE": "false", "CUFILE_FORCE_COMPAT_MODE": "1"}
    told = configuration(tree.root, variables)
    assert (told.allow_compat, told.force_compat, told.p2pdma) == (False, True, True)


@pytest.mark.parametrize("content", ["{", "[1]", '{"properties": }'])
def test_a_configuration_that_cannot_be_read_is_told(tree: PciTree, content: str) -> None:
    assert configuration(tree.root, {}).problem == ""
    tree.text("etc/cufile.json", content)
    assert "cufile.json cannot be read" in configuration(tree.root, {}).problem


def test_a_configuration_that_is_named_and_not_there_is_told(tree: PciTree) -> None:
    told = configuration(tree.root, {"CUFILE_ENV_PATH_JSON": "/nowhere/cufile.json"})
    assert "/nowhere/cufile.json, which does not exist" in told.problem
