"""What doctor says of GPUs on machines of several kinds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from storlab.contracts.check import Check
from storlab.model.point import Point
from storlab.stores.filesystems import FileSystem
from storlab.workloads.gpudirect.details import (
    CuFileTold,
    DirectStorage,
    GpuTold,
    LibraryTold,
    Trouble,
)
from storlab.workloads.gpudirect.machine import storage
from storlab.workloads.gpudirect.machine.doctor import Machine, examine_machine, examine_target
from storlab.workloads.gpudirect.machine.memory import Demand
from storlab.workloads.gpudirect.machine.points import examine_here
from storlab.workloads.gpudirect.machine.probe import Libraries, Probe, read
from storlab.workloads.gpudirect.machine.storage import Drive, Layer, Under
from storlab.workloads.gpudirect.params import GpuDirectParams
from support.pci_trees import CLOSED_DRIVER, GIB, OPEN_DRIVER, PciTree, acs_config

SWITCH = ("pci0000:40", "0000:40:01.1", "0000:41:00.0")
GPU_PLACE = (*SWITCH, "0000:42:00.0", "0000:43:00.0")
DRIVE_PLACE = (*SWITCH, "0000:42:01.0", "0000:44:00.0")
LIBRARIES = Libraries(cuda=("libcuda.so.1",), cufile=("libcufile.so.0",))
GPU = GpuTold(
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


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    """On which P2PDMA is possible, and no nvidia-fs is loaded."""
    tree = PciTree(tmp_path)
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


def _machine(tree: PciTree, found: Probe = FOUND) -> Machine:
    return Machine(tree.root, {}, lambda _: found, is_root=True, processor="x86_64")


def _rows(checks: Sequence[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def _machine_rows(tree: PciTree, found: Probe = FOUND) -> dict[str, Check]:
    return _rows(examine_machine(LIBRARIES, _machine(tree, found)))


def _bad(checks: Sequence[Check]) -> dict[str, str]:
    return {check.name: check.what for check in checks if check.status != "ok"}


def test_a_machine_without_a_gpu_has_one_line(tmp_path: Path) -> None:
    def never(libraries: Libraries) -> Probe:
        raise AssertionError(libraries)

    (row,) = examine_machine(LIBRARIES, Machine(tmp_path, {}, never))
    assert (row.status, "no NVIDIA GPU" in row.what) == ("ok", True)


def test_a_machine_on_which_all_is_well(tree: PciTree) -> None:
    checks = examine_machine(LIBRARIES, _machine(tree))
    assert _bad(checks) == {}
    rows = _rows(checks)
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
    rows = _machine_rows(tree)
    refused = rows["P2PDMA"]
    assert (refused.status, what in refused.what, fix in refused.fix) == ("warning", True, True)
    path = rows["GPU path"]
    assert (path.status, fix in path.fix) == ("warning", True)
    assert "host memory (compatibility mode)" in path.what
    tree.text("proc/driver/nvidia-fs/version", "version: 2.24")
    rows = _machine_rows(tree)
    path = rows["GPU path"]
    assert (path.status, "nvidia-fs" in path.what) == ("ok", True)
    assert rows["P2PDMA"].what.startswith("not possible, and not needed: ")


def test_an_old_gpu_cannot_do_p2pdma(tree: PciTree) -> None:
    old = replace(FOUND, gpus=(GPU.model_copy(update={"compute": "7.5"}),))
    assert "GPU 0 (7.5) is older than Ampere" in _machine_rows(tree, old)["P2PDMA"].what


def test_grace_cannot_do_p2pdma(tree: PciTree) -> None:
    machine = replace(_machine(tree), processor="aarch64")
    assert "Grace" in _rows(examine_machine(LIBRARIES, machine))["P2PDMA"].what


def test_without_compatibility_mode_it_refuses(tree: PciTree) -> None:
    _old_kernel(tree)
    strict = replace(FOUND, cufile=CUFILE.model_copy(update={"compat_allowed": False}))
    assert "refuses to open (5001)" in _machine_rows(tree, strict)["GPU path"].what


def test_forced_compatibility_mode_is_told(tree: PciTree) -> None:
    machine = replace(_machine(tree), environment={"CUFILE_FORCE_COMPAT_MODE": "true"})
    row = _rows(examine_machine(LIBRARIES, machine))["GPU path"]
    assert (row.status, row.what) == ("warning", "host memory: compatibility mode is forced")


def _says(ways: Sequence[str], **parameters: object) -> Probe:
    """A library that tells what it takes, as those of CUDA 13 do."""
    cufile = CUFILE.model_copy(update=parameters)
    return replace(FOUND, cufile=cufile, direct=DirectStorage(nvme=tuple(ways)))


def test_cufile_itself_is_believed_before_its_configuration(tree: PciTree) -> None:
    _not_said(tree)
    rows = _machine_rows(tree, _says(["p2pdma"], p2pdma=True))
    assert rows["GPU path"].what.startswith("direct, by the kernel's P2PDMA, for local NVMe")
    assert (rows["P2PDMA"].status, rows["GPU path"].status) == ("ok", "ok")
    assert "P2PDMA on" in rows["cuFile configuration"].what
    tree.text("etc/cufile.json", '{"properties": {"use_pci_p2pdma": true}}')
    rows = _machine_rows(tree, _says([], p2pdma=False))
    assert (rows["P2PDMA"].status, rows["GPU path"].status) == ("warning", "warning")
    assert "use_pci_p2pdma is false" in rows["P2PDMA"].what
    assert "P2PDMA off" in rows["cuFile configuration"].what


def test_cufile_that_finds_no_way_to_nvme_drives_is_believed(tree: PciTree) -> None:
    rows = _machine_rows(tree, _says([], p2pdma=True))
    assert "cuFile finds no way by it" in rows["P2PDMA"].what
    assert "CUFILE_LOGGING_LEVEL=DEBUG" in rows["P2PDMA"].fix
    assert rows["GPU path"].status == "warning"
    tree.text("proc/driver/nvidia-fs/version", "version: 2.24")
    rows = _machine_rows(tree, _says([], p2pdma=True))
    assert (rows["nvidia-fs"].status, rows["GPU path"].status) == ("warning", "warning")
    assert "DOCA-OFED" in rows["nvidia-fs"].fix
    rows = _machine_rows(tree, _says(["nvfs"], p2pdma=False))
    assert rows["GPU path"].what.startswith("direct, by nvidia-fs, for local NVMe drives")
    assert rows["P2PDMA"].status == "ok"


def test_what_cufile_finds_possible_is_possible_whatever_is_known(tree: PciTree) -> None:
    _dynamic(tree)
    rows = _machine_rows(tree, _says(["p2pdma"], p2pdma=True))
    assert (rows["GPU path"].status, rows["P2PDMA"].status) == ("ok", "ok")
    assert "against what is known: GPU memory is not mapped" in rows["P2PDMA"].what


def test_compatibility_mode_that_cufile_says_is_forced_is_told(tree: PciTree) -> None:
    row = _machine_rows(tree, _says([], compat_forced=True))["GPU path"]
    assert (row.status, row.what) == ("warning", "host memory: compatibility mode is forced")


def test_a_library_that_does_not_count_is_told(tree: PciTree) -> None:
    old = replace(FOUND, cufile=CuFileTold(version="1.14", path="x"))
    row = _machine_rows(tree, old)["proof of path"]
    assert (row.status, "does not count" in row.what) == ("warning", True)
    assert "proof of path" not in _machine_rows(tree)


@pytest.mark.parametrize(("told", "status"), [("Enabled", "ok"), ("Disabled", "warning")])
def test_whether_nvidia_fs_counts_for_it_is_told(tree: PciTree, told: str, status: str) -> None:
    stats = f"NVFS statistics(ver: 4.0)\nIO stats: {told}, peer IO stats: {told}\n"
    tree.text("proc/driver/nvidia-fs/stats", stats)
    row = _machine_rows(tree, replace(FOUND, cufile=CuFileTold(version="1.14")))["proof of path"]
    assert (row.status, "rw_stats_enabled" in row.fix) == (status, status == "warning")


def test_a_gpu_that_is_held_is_an_error_only_for_a_study_that_uses_it(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = Trouble(what="GPU 1 cannot be opened", fix="end what holds it")
    held = replace(FOUND, cuda=LibraryTold(path="libcuda.so.1", version="13.0", error=trouble))
    rows = _target_rows(tree, monkeypatch, XFS, held)
    assert (rows["libcuda"].status, rows["GPU memory"].status) == ("warning", "ok")
    other = replace(held, gpus=(GPU.model_copy(update={"number": 1}),))
    rows = _target_rows(tree, monkeypatch, XFS, other)
    assert (rows["libcuda"].status, "GPU memory" in rows) == ("error", False)


def test_a_probe_that_hangs_is_a_warning_and_for_a_study_an_error(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = Probe(trouble=Trouble(what="no answer within 20 s", fix="look at /proc/modules"))
    assert _machine_rows(tree, hung)["GPU libraries"].status == "warning"
    rows = _target_rows(tree, monkeypatch, XFS, hung)
    assert (rows["libcuda"].status, rows["libcuda"].fix) == ("error", "look at /proc/modules")


def test_an_iommu_that_translates_is_told(tree: PciTree) -> None:
    tree.text("sys/class/iommu/dmar0/x", "1")
    tree.text("proc/cmdline", "iommu=pt")
    assert "passes through (iommu=pt)" in _machine_rows(tree)["IOMMU"].what
    place = tree.root / "sys/devices" / Path(*GPU_PLACE)
    tree.text(str((place / "iommu_group/type").relative_to(tree.root)), "DMA-FQ")
    row = _machine_rows(tree)["IOMMU"]
    assert (row.status, "0000:43:00.0" in row.what) == ("warning", True)


def test_little_locked_memory_is_told(tree: PciTree) -> None:
    tree.text("proc/self/limits", "Max locked memory         65536      65536     bytes")
    machine = replace(_machine(tree), is_root=False)
    assert _rows(examine_machine(LIBRARIES, machine))["GPU memlock"].status == "warning"
    assert "GPU memlock" not in _machine_rows(tree)


def _target(
    tree: PciTree,
    monkeypatch: pytest.MonkeyPatch,
    lies_on: Under,
    found: Probe = FOUND,
    demands: Sequence[Demand] = (DIRECT,),
) -> list[Check]:
    monkeypatch.setattr(storage, "under", lambda place, root: lies_on)
    return examine_target([Path("/data")], demands, LIBRARIES, _machine(tree, found))


def _target_rows(
    tree: PciTree,
    monkeypatch: pytest.MonkeyPatch,
    lies_on: Under,
    found: Probe = FOUND,
    demands: Sequence[Demand] = (DIRECT,),
) -> dict[str, Check]:
    return _rows(_target(tree, monkeypatch, lies_on, found, demands))


def test_a_target_on_which_all_is_well(tree: PciTree, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = _target(tree, monkeypatch, XFS)
    assert _bad(checks) == {}
    rows = _rows(checks)
    assert rows["PCIe distance"].what == "nvme0n1 and GPU 0 meet below one PCIe switch"
    assert rows["ACS"].what == "redirects nothing between them"
    assert rows["nvme0n1 link"].what == "32 GT/s x4 (15.8 GB/s)"


def test_transfers_that_cufile_is_told_to_move_by_posix_are_named(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.text("etc/cufile.json", '{"fs": {"lustre": {"posix_gds_min_kb": 16}}}')
    small = replace(DIRECT, least_block=4096)
    lustre = Under("lustre", frozenset({"rw"}), (), ())
    row = _target_rows(tree, monkeypatch, lustre, demands=[DIRECT, small])["small GPU I/O"]
    assert row.status == "warning"
    assert "below 16KiB on lustre" in row.what
    assert "transfers have 4KiB" in row.what
    assert f"to 0 in {tree.root / 'etc/cufile.json'}" in row.fix
    for demand, place in ((replace(DIRECT, least_block=16384), lustre), (small, XFS)):
        assert "small GPU I/O" not in _target_rows(tree, monkeypatch, place, demands=[demand])


@pytest.mark.parametrize(
    ("options", "status"),
    [({"rw"}, "warning"), ({"data=writeback"}, "warning"), ({"rw", "data=ordered"}, "ok")],
)
def test_ext4_must_say_that_it_is_ordered(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch, options: set[str], status: str
) -> None:
    lies_on = replace(XFS, file_system="ext4", options=frozenset(options))
    assert _target_rows(tree, monkeypatch, lies_on)["GPU file system"].status == status


@pytest.mark.parametrize("usage", ["E:ID_FS_USAGE=filesystem", "E:ID_FS_USAGE=raid", None])
def test_cufile_must_learn_from_udev_what_a_drive_holds(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch, usage: str | None
) -> None:
    """Without it cuFile registers no file: seen in a virtual machine with an H100."""
    mounted = FileSystem("xfs", "/dev/gone", "/", "rw")
    monkeypatch.setattr(storage, "file_system_of", lambda _: mounted)
    monkeypatch.setattr(storage, "_number_of_files", lambda _: os.makedev(259, 0))
    if usage is not None:
        tree.text("run/udev/data/b259:0", f"S:disk/by-id/a\n{usage}\nG:systemd")
    checks = examine_target([tree.root], [DIRECT], LIBRARIES, _machine(tree))
    row = _rows(checks).get("udev")
    if usage == "E:ID_FS_USAGE=filesystem":
        assert row is None
    else:
        assert row is not None
        assert (row.status, "/run/udev/data/b259:0" in row.what) == ("warning", True)
        assert "/run/udev" in row.fix


@pytest.mark.parametrize(
    ("lies_on", "name", "status", "with_nvidia_fs"),
    [
        (replace(XFS, layers=(Layer("md0", "raid0"),)), "GPU layers", "warning", "ok"),
        (replace(XFS, layers=(Layer("md0", "raid5"),)), "GPU layers", "warning", "warning"),
        (replace(XFS, layers=(Layer("dm-0", "LVM"),)), "GPU layers", "warning", "warning"),
        (replace(XFS, drives=(Drive("nvme1n1", "rdma", None),)), "GPU drive", "warning", "ok"),
        (replace(XFS, drives=(Drive("nvme1n1", "tcp", None),)), "GPU drive", "warning", "warning"),
        (replace(XFS, drives=(Drive("sda", "unknown", None),)), "GPU drive", "warning", "warning"),
        (replace(XFS, file_system="btrfs"), "GPU file system", "warning", "warning"),
        (replace(XFS, file_system="nfs4"), "GPU file system", "warning", "warning"),
    ],
)
def test_what_a_direct_path_does_not_go_through(
    tree: PciTree,
    monkeypatch: pytest.MonkeyPatch,
    lies_on: Under,
    name: str,
    status: str,
    with_nvidia_fs: str,
) -> None:
    assert _target_rows(tree, monkeypatch, lies_on)[name].status == status
    tree.text("proc/driver/nvidia-fs/version", "version: 2.24")
    assert _target_rows(tree, monkeypatch, lies_on)[name].status == with_nvidia_fs


def test_a_drive_of_another_node_is_told(tree: PciTree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.nvme(
        ("pci0000:c0", "0000:c0:01.1", "0000:c1:00.0"), "259:1", "nvme1n1", node=1,
        link=(16.0, 2, 32.0, 4),
    )  # fmt: skip
    drives = (DRIVE, Drive("nvme1n1", "pcie", "0000:c1:00.0"))
    rows = _target_rows(tree, monkeypatch, replace(XFS, drives=drives))
    far = rows["PCIe distance"]
    assert (far.status, far.what.startswith("nvme1n1 and GPU 0 meet across NUMA nodes")) == (
        "warning",
        True,
    )
    assert "16 GT/s x2 (3.9 GB/s), and it could 32 GT/s x4" in rows["nvme1n1 link"].what


def test_a_switch_that_redirects_is_told(tree: PciTree, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tree.root / "sys/bus/pci/devices/0000:42:00.0/config"
    place.write_bytes(acs_config(0b01100))
    assert _bad(_target(tree, monkeypatch, XFS)).keys() == {"ACS"}


def test_a_gpu_that_idles_is_not_blamed_for_a_slow_link(tree: PciTree, tmp_path: Path) -> None:
    place = tree.root / "sys/devices" / Path(*GPU_PLACE)
    (place / "current_link_speed").write_text("2.5 GT/s PCIe\n")
    assert "while idle" in _machine_rows(tree)["GPU 0 link"].what
    (place / "current_link_width").write_text("8\n")
    assert _machine_rows(tree)["GPU 0 link"].status == "warning"


@pytest.mark.parametrize(
    ("demand", "needs"),
    [
        (DIRECT, {0: 32 << 20}),
        (replace(DIRECT, gpus=(0, 1), workers=5, worker_bytes=4 * MIB), {0: 12 * MIB, 1: 8 * MIB}),
        (
            replace(DIRECT, gpus=(0, 1), workers=3, pool_bytes=16 * MIB),
            {0: 18 * MIB, 1: 17 * MIB},
        ),
        (replace(DIRECT, gpus=(0, 1, 2), workers=1), {0: 1 << 20, 1: 0, 2: 0}),
        (replace(DIRECT, path="host"), {0: 0}),
    ],
)
def test_what_a_point_takes_of_each_gpu(demand: Demand, needs: dict[int, int]) -> None:
    assert {gpu: demand.bytes_on(gpu) for gpu in needs} == needs


def test_gpu_memory_that_is_too_small_is_an_error_before_any_run(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = replace(DIRECT, label="deep", workers=1024, worker_bytes=128 * MIB)
    rows = _target_rows(tree, monkeypatch, XFS, demands=(DIRECT, deep))
    row = rows["GPU memory"]
    assert row.status == "error"
    assert row.what.startswith("deep: buffers of 1MiB on GPU 0 take 137 GB, and 96.6 GB")
    assert _target_rows(tree, monkeypatch, XFS)["GPU memory"].status == "ok"


def test_buffers_that_a_drive_cannot_see_all_of_are_told(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = tree.root / "sys/devices" / Path(*GPU_PLACE) / "resource"
    small = f"0x{1 << 40:x} 0x{(1 << 40) + (256 << 20) - 1:x} 0x14220c"
    resource.write_text(f"0x0 0x0 0x0\n{small}\n")
    assert "GPU aperture" not in _target_rows(tree, monkeypatch, XFS)
    many = replace(DIRECT, workers=257)
    row = _target_rows(tree, monkeypatch, XFS, demands=(many,))["GPU aperture"]
    assert (row.status, "BAR1 shows 268 MB" in row.what) == ("warning", True)


def test_the_machine_is_asked_with_the_libraries_that_a_study_names(tree: PciTree) -> None:
    def probing(libraries: Libraries) -> Probe:
        return replace(FOUND, cufile=CUFILE.model_copy(update={"path": libraries.cufile[0]}))

    def point(**params: object) -> Point:
        whole = GpuDirectParams.model_validate(params).model_dump()
        return Point(
            target="t", workload="w", workload_index=0, kind="gpudirect", engine="native",
            params=whole,
        )  # fmt: skip

    machine = replace(_machine(tree), probing=probing)
    named = [point(cufile_library=name) for name in ("/a.so", "/b.so", "/a.so")]
    found = [row.what for row in examine_here(named, machine) if row.name == "libcufile"]
    assert found == ["version 1.15, /a.so", "version 1.15, /b.so"]
    (usual,) = (row for row in examine_here((), machine) if row.name == "libcufile")
    assert "/a.so" not in usual.what


def test_a_gpu_that_is_not_there_is_an_error(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _target_rows(tree, monkeypatch, XFS, demands=(replace(DIRECT, gpus=(3,)),))
    assert (rows["GPU"].status, "knows: 0" in rows["GPU"].what) == ("error", True)


@pytest.mark.parametrize(
    ("path", "trouble", "cufile_asked"),
    [("direct", None, True), ("direct", Trouble(what="no GPU"), True), ("bounce", None, False)],
)
def test_the_libraries_are_asked_once_and_cufile_only_where_it_is_needed(
    tree: PciTree,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    trouble: Trouble | None,
    cufile_asked: bool,
) -> None:
    """Without a GPU the probe itself does not open cuFile."""
    asked = []

    def probing(libraries: Libraries) -> Probe:
        asked.append(libraries.cufile)
        return replace(FOUND, trouble=trouble)

    monkeypatch.setattr(storage, "under", lambda place, root: XFS)
    machine = replace(_machine(tree), probing=probing)
    examine_target([Path("/data")], [replace(DIRECT, path=path)], LIBRARIES, machine)
    assert asked == [LIBRARIES.cufile if cufile_asked else ()]


def test_bounce_needs_no_cufile_and_host_nothing(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {
        "details": {
            "gpus": [{"number": 0, "name": "x", "pci": "0000:43:00.0", "compute": "9.0",
                      "memory_bytes": GIB, "free_bytes": GIB, "more": 1}],
            "libraries": {
                "cuda": {"path": "libcuda.so.1", "version": "13.0"},
                "cufile": {"error": {"what": "not found", "fix": "pip install storlab[gpu]"}},
            },
        }
    }  # fmt: skip
    found = read(answer)
    bounce = replace(DIRECT, path="bounce")
    assert _bad(_target(tree, monkeypatch, XFS, found, (bounce,))) == {}
    rows = _target_rows(tree, monkeypatch, XFS, found)
    assert (rows["libcufile"].status, rows["libcufile"].what) == ("error", "not found")
    for other in ("bounce", "host"):
        both = (DIRECT, replace(DIRECT, path=other))
        row = _target_rows(tree, monkeypatch, XFS, found, both)["libcufile"]
        assert row.status == "warning"
        assert row.what == "not found; runs with path = direct will fail"
    host = replace(DIRECT, path="host")
    broken = Probe(trouble=Trouble(what="broken"))
    assert _target(tree, monkeypatch, XFS, broken, (host,)) == []


def test_a_cufile_that_takes_the_probe_down_leaves_the_other_paths(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probing(libraries: Libraries) -> Probe:
        return Probe(trouble=Trouble(what="crashed", fix="look")) if libraries.cufile else FOUND

    monkeypatch.setattr(storage, "under", lambda place, root: XFS)
    machine = replace(_machine(tree), probing=probing)
    both = (DIRECT, replace(DIRECT, path="bounce"))
    rows = _rows(examine_target([Path("/data")], both, LIBRARIES, machine))
    assert (rows["libcufile"].status, rows["libcufile"].fix) == ("warning", "look")
    assert rows["GPU memory"].status == "ok"
    rows = _rows(examine_target([Path("/data")], both[:1], LIBRARIES, machine))
    assert rows["libcuda"].status == "error"
