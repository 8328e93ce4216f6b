"""doctor on GPUs of several kinds of machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from storlab.workloads.gpudirect.details import CuFileTold, DirectStorage
from storlab.workloads.gpudirect.machine.doctor import Machine, examine_machine
from storlab.workloads.gpudirect.machine.probe import Libraries, Probe
from support.gpu_machine import (
    CUFILE,
    FOUND,
    GPU,
    GPU_PLACE,
    LIBRARIES,
    as_machine,
    bad_rows,
    machine_rows,
    rows_of,
)
from support.pci_trees import CLOSED_DRIVER, PciTree


def test_a_machine_without_a_gpu_has_one_line(tmp_path: Path) -> None:
    def never(libraries: Libraries) -> Probe:
        raise AssertionError(libraries)

    (row,) = examine_machine(LIBRARIES, Machine(tmp_path, {}, never))
    assert (row.status, "no NVIDIA GPU" in row.what) == ("ok", True)


def test_a_machine_on_which_all_is_well(tree: PciTree) -> None:
    checks = examine_machine(LIBRARIES, as_machine(tree))
    assert bad_rows(checks) == {}
    rows = rows_of(checks)
    assert rows["GPU driver"].what == "NVIDIA 580.65.06, open kernel modules"
    assert rows["GPU path"].what == "direct, by the kernel's P2PDMA, for local NVMe drives"
    assert "NVIDIA H100 NVL, compute 9.0, 96.6 GB of 101 GB free" in rows["GPU 0"].what
    assert "compatibility mode allowed" in rows["cuFile configuration"].what
    assert "16KiB" in rows["small GPU I/O"].what


def _old_kernel(tree: PciTree) -> None:
    tree.text("proc/sys/kernel/osrelease", "5.15.0-91")


def _multipath(tree: PciTree) -> None:
    tree.text("sys/module/nvme_core/parameters/multipath", "Y")


def _dynamic(tree: PciTree) -> None:
    tree.text("proc/driver/nvidia/params", 'RegistryDwords: ""')


def _closed(tree: PciTree) -> None:
    tree.text("proc/driver/nvidia/version", CLOSED_DRIVER)


def _unbuilt(tree: PciTree) -> None:
    tree.text("boot/config-6.8.0-60", "CONFIG_PCI=y")


def _refused(tree: PciTree) -> None:
    tree.text("etc/cufile.json", '{"properties": {"use_pci_p2pdma": false}}')


def _not_said(tree: PciTree) -> None:
    tree.text("etc/cufile.json", '{"properties": {"allow_compat_mode": true}}')


def _refused_for_nvme(tree: PciTree) -> None:
    told = {"use_pci_p2pdma": True}
    both = {"properties": told, "block": {"nvme": {"use_pci_p2pdma": False}}}
    tree.text("etc/cufile.json", json.dumps(both))


@pytest.mark.parametrize(
    ("spoil", "what", "fix"),
    [
        (_old_kernel, "kernel 5.15.0-91", "Linux 6.2"),
        (_multipath, "nvme_core multipath=Y", "nvme_core.multipath=N"),
        (_dynamic, "static BAR1", "RMForceStaticBar1=1"),
        (_closed, "proprietary kernel modules", "open ones"),
        (_unbuilt, "CONFIG_PCI_P2PDMA", "run one that has it"),
        (_refused, "use_pci_p2pdma is false", "set use_pci_p2pdma to true"),
        (_not_said, "use_pci_p2pdma is false by default", "set use_pci_p2pdma to true"),
        (_refused_for_nvme, "block.nvme.use_pci_p2pdma is false", "under block.nvme"),
    ],
)
def test_what_p2pdma_lacks_is_named(
    tree: PciTree, spoil: Callable[[PciTree], None], what: str, fix: str
) -> None:
    spoil(tree)
    rows = machine_rows(tree)
    refused = rows["P2PDMA"]
    assert (refused.status, what in refused.what, fix in refused.fix) == ("warning", True, True)
    path = rows["GPU path"]
    assert (path.status, fix in path.fix) == ("warning", True)
    assert "host memory (compatibility mode)" in path.what
    tree.text("proc/driver/nvidia-fs/version", "version: 2.24")
    rows = machine_rows(tree)
    path = rows["GPU path"]
    assert (path.status, "nvidia-fs" in path.what) == ("ok", True)
    assert rows["P2PDMA"].what.startswith("not possible, and not needed: ")


def test_an_old_gpu_cannot_do_p2pdma(tree: PciTree) -> None:
    old = replace(FOUND, gpus=(GPU.model_copy(update={"compute": "7.5"}),))
    assert "GPU 0 (7.5) is older than Ampere" in machine_rows(tree, old)["P2PDMA"].what


def test_grace_cannot_do_p2pdma(tree: PciTree) -> None:
    machine = replace(as_machine(tree), processor="aarch64")
    assert "Grace" in rows_of(examine_machine(LIBRARIES, machine))["P2PDMA"].what


def test_without_compatibility_mode_it_refuses(tree: PciTree) -> None:
    _old_kernel(tree)
    strict = replace(FOUND, cufile=CUFILE.model_copy(update={"compat_allowed": False}))
    assert "cannot be opened (5001)" in machine_rows(tree, strict)["GPU path"].what


def test_forced_compatibility_mode_is_told(tree: PciTree) -> None:
    machine = replace(as_machine(tree), environment={"CUFILE_FORCE_COMPAT_MODE": "true"})
    row = rows_of(examine_machine(LIBRARIES, machine))["GPU path"]
    assert (row.status, row.what) == ("warning", "host memory: compatibility mode is forced")


def _says(ways: Sequence[str], **parameters: object) -> Probe:
    """Return a library that lists what it supports, as in CUDA 13."""
    cufile = CUFILE.model_copy(update=parameters)
    return replace(FOUND, cufile=cufile, direct=DirectStorage(nvme=tuple(ways)))


def test_cufile_itself_is_believed_before_its_configuration(tree: PciTree) -> None:
    _not_said(tree)
    rows = machine_rows(tree, _says(["p2pdma"], p2pdma=True))
    assert rows["GPU path"].what.startswith("direct, by the kernel's P2PDMA, for local NVMe")
    assert (rows["P2PDMA"].status, rows["GPU path"].status) == ("ok", "ok")
    assert "P2PDMA on" in rows["cuFile configuration"].what
    tree.text("etc/cufile.json", '{"properties": {"use_pci_p2pdma": true}}')
    rows = machine_rows(tree, _says([], p2pdma=False))
    assert (rows["P2PDMA"].status, rows["GPU path"].status) == ("warning", "warning")
    assert "use_pci_p2pdma is false" in rows["P2PDMA"].what
    assert "P2PDMA off" in rows["cuFile configuration"].what


def test_cufile_that_finds_no_way_to_nvme_drives_is_believed(tree: PciTree) -> None:
    rows = machine_rows(tree, _says([], p2pdma=True))
    assert "cuFile cannot reach NVMe drives by it" in rows["P2PDMA"].what
    assert "CUFILE_LOGGING_LEVEL=DEBUG" in rows["P2PDMA"].fix
    assert rows["GPU path"].status == "warning"
    tree.text("proc/driver/nvidia-fs/version", "version: 2.24")
    rows = machine_rows(tree, _says([], p2pdma=True))
    assert (rows["nvidia-fs"].status, rows["GPU path"].status) == ("warning", "warning")
    assert "DOCA-OFED" in rows["nvidia-fs"].fix
    rows = machine_rows(tree, _says(["nvfs"], p2pdma=False))
    assert rows["GPU path"].what.startswith("direct, by nvidia-fs, for local NVMe drives")
    assert rows["P2PDMA"].status == "ok"


def test_what_cufile_finds_possible_is_possible_whatever_is_known(tree: PciTree) -> None:
    _dynamic(tree)
    rows = machine_rows(tree, _says(["p2pdma"], p2pdma=True))
    assert (rows["GPU path"].status, rows["P2PDMA"].status) == ("ok", "ok")
    assert "known obstacles: GPU memory is not mapped" in rows["P2PDMA"].what


def test_compatibility_mode_that_cufile_says_is_forced_is_told(tree: PciTree) -> None:
    row = machine_rows(tree, _says([], compat_forced=True))["GPU path"]
    assert (row.status, row.what) == ("warning", "host memory: compatibility mode is forced")


def test_a_library_that_does_not_count_is_told(tree: PciTree) -> None:
    old = replace(FOUND, cufile=CuFileTold(version="1.14", path="x"))
    row = machine_rows(tree, old)["proof of path"]
    assert (row.status, "does not count" in row.what) == ("warning", True)
    assert "proof of path" not in machine_rows(tree)


@pytest.mark.parametrize(("told", "status"), [("Enabled", "ok"), ("Disabled", "warning")])
def test_whether_nvidia_fs_counts_for_it_is_told(tree: PciTree, told: str, status: str) -> None:
    stats = f"NVFS statistics(ver: 4.0)\nIO stats: {told}, peer IO stats: {told}\n"
    tree.text("proc/driver/nvidia-fs/stats", stats)
    row = machine_rows(tree, replace(FOUND, cufile=CuFileTold(version="1.14")))["proof of path"]
    assert (row.status, "rw_stats_enabled" in row.fix) == (status, status == "warning")


def test_an_iommu_that_translates_is_told(tree: PciTree) -> None:
    tree.text("sys/class/iommu/dmar0/x", "1")
    tree.text("proc/cmdline", "iommu=pt")
    assert "passes through (iommu=pt)" in machine_rows(tree)["IOMMU"].what
    place = tree.root / "sys/devices" / Path(*GPU_PLACE)
    tree.text(str((place / "iommu_group/type").relative_to(tree.root)), "DMA-FQ")
    row = machine_rows(tree)["IOMMU"]
    assert (row.status, "0000:43:00.0" in row.what) == ("warning", True)


def test_little_locked_memory_is_told(tree: PciTree) -> None:
    tree.text("proc/self/limits", "Max locked memory         65536      65536     bytes")
    machine = replace(as_machine(tree), is_root=False)
    assert rows_of(examine_machine(LIBRARIES, machine))["GPU memlock"].status == "warning"
    assert "GPU memlock" not in machine_rows(tree)
