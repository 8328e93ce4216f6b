"""doctor on targets that feed GPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from storlab.contracts.check import Check
from storlab.model.point import Point
from storlab.stores.drives import Drive, Layer
from storlab.stores.filesystems import FileSystem
from storlab.workloads.gpudirect.details import LibraryTold, Trouble
from storlab.workloads.gpudirect.machine import storage
from storlab.workloads.gpudirect.machine.doctor import examine_target
from storlab.workloads.gpudirect.machine.memory import Demand
from storlab.workloads.gpudirect.machine.points import examine_here
from storlab.workloads.gpudirect.machine.probe import Libraries, Probe, read
from storlab.workloads.gpudirect.machine.storage import Under
from storlab.workloads.gpudirect.params import GpuDirectParams
from support.gpu_machine import (
    CUFILE,
    DIRECT,
    DRIVE,
    FOUND,
    GPU,
    GPU_PLACE,
    LIBRARIES,
    MIB,
    XFS,
    as_machine,
    bad_rows,
    machine_rows,
    rows_of,
)
from support.pci_trees import GIB, PciTree, acs_config


def _target(
    tree: PciTree,
    monkeypatch: pytest.MonkeyPatch,
    lies_on: Under,
    found: Probe = FOUND,
    demands: Sequence[Demand] = (DIRECT,),
) -> list[Check]:
    monkeypatch.setattr(storage, "under", lambda place, root: lies_on)
    return examine_target([Path("/data")], demands, LIBRARIES, as_machine(tree, found))


def test_a_target_on_which_all_is_well(tree: PciTree, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = _target(tree, monkeypatch, XFS)
    assert bad_rows(checks) == {}
    rows = rows_of(checks)
    assert rows["PCIe distance"].what == "nvme0n1 and GPU 0 meet below one PCIe switch"
    assert rows["ACS"].what == "does not redirect traffic between drive and GPU"


def test_a_gpu_that_is_held_is_an_error_only_for_a_study_that_uses_it(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = Trouble(what="GPU 1 cannot be opened", fix="end what holds it")
    held = replace(FOUND, cuda=LibraryTold(path="libcuda.so.1", version="13.0", error=trouble))
    rows = rows_of(_target(tree, monkeypatch, XFS, held))
    assert (rows["libcuda"].status, rows["GPU memory"].status) == ("warning", "ok")
    other = replace(held, gpus=(GPU.model_copy(update={"number": 1}),))
    rows = rows_of(_target(tree, monkeypatch, XFS, other))
    assert (rows["libcuda"].status, "GPU memory" in rows) == ("error", False)


def test_a_probe_that_hangs_is_a_warning_and_for_a_study_an_error(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = Probe(trouble=Trouble(what="no answer within 20 s", fix="look at /proc/modules"))
    assert machine_rows(tree, hung)["GPU libraries"].status == "warning"
    rows = rows_of(_target(tree, monkeypatch, XFS, hung))
    assert (rows["libcuda"].status, rows["libcuda"].fix) == ("error", "look at /proc/modules")


def test_transfers_that_cufile_is_told_to_move_by_posix_are_named(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.text("etc/cufile.json", '{"fs": {"lustre": {"posix_gds_min_kb": 16}}}')
    small = replace(DIRECT, least_block=4096)
    lustre = Under("lustre", frozenset({"rw"}), (), ())
    row = rows_of(_target(tree, monkeypatch, lustre, demands=[DIRECT, small]))["small GPU I/O"]
    assert row.status == "warning"
    assert "below 16KiB on lustre" in row.what
    assert "some have 4KiB" in row.what
    assert f"to 0 in {tree.root / 'etc/cufile.json'}" in row.fix
    for demand, place in ((replace(DIRECT, least_block=16384), lustre), (small, XFS)):
        assert "small GPU I/O" not in rows_of(_target(tree, monkeypatch, place, demands=[demand]))


@pytest.mark.parametrize(
    ("options", "status"),
    [({"rw"}, "warning"), ({"data=writeback"}, "warning"), ({"rw", "data=ordered"}, "ok")],
)
def test_ext4_must_say_that_it_is_ordered(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch, options: set[str], status: str
) -> None:
    lies_on = replace(XFS, file_system="ext4", options=frozenset(options))
    assert rows_of(_target(tree, monkeypatch, lies_on))["GPU file system"].status == status


@pytest.mark.parametrize("usage", ["E:ID_FS_USAGE=filesystem", "E:ID_FS_USAGE=raid", None])
def test_cufile_must_learn_from_udev_what_a_drive_holds(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch, usage: str | None
) -> None:
    """Check the error without udev data, seen in a virtual machine with an H100."""
    mounted = FileSystem("xfs", "/dev/gone", "/", "rw")
    monkeypatch.setattr(storage, "file_system_of", lambda _: mounted)
    monkeypatch.setattr(storage, "_number_of_files", lambda _: os.makedev(259, 0))
    if usage is not None:
        tree.text("run/udev/data/b259:0", f"S:disk/by-id/a\n{usage}\nG:systemd")
    checks = examine_target([tree.root], [DIRECT], LIBRARIES, as_machine(tree))
    row = rows_of(checks).get("udev")
    if usage == "E:ID_FS_USAGE=filesystem":
        assert row is None
    else:
        assert row is not None
        assert (row.status, "/run/udev/data/b259:0" in row.what) == ("error", True)
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
    assert rows_of(_target(tree, monkeypatch, lies_on))[name].status == status
    tree.text("proc/driver/nvidia-fs/version", "version: 2.24")
    assert rows_of(_target(tree, monkeypatch, lies_on))[name].status == with_nvidia_fs


def test_a_drive_of_another_node_is_told(tree: PciTree, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = ("pci0000:c0", "0000:c0:01.1", "0000:c1:00.0")
    tree.nvme(chain, "259:1", "nvme1n1", node=1)
    drives = (DRIVE, Drive("nvme1n1", "pcie", "0000:c1:00.0"))
    rows = rows_of(_target(tree, monkeypatch, replace(XFS, drives=drives)))
    far = rows["PCIe distance"]
    assert (far.status, far.what.startswith("nvme1n1 and GPU 0 meet across NUMA nodes")) == (
        "warning",
        True,
    )


def test_a_switch_that_redirects_is_told(tree: PciTree, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tree.root / "sys/bus/pci/devices/0000:42:00.0/config"
    place.write_bytes(acs_config(0b01100))
    assert bad_rows(_target(tree, monkeypatch, XFS)).keys() == {"ACS"}


def test_a_gpu_that_idles_is_not_blamed_for_a_slow_link(tree: PciTree, tmp_path: Path) -> None:
    place = tree.root / "sys/devices" / Path(*GPU_PLACE)
    (place / "current_link_speed").write_text("2.5 GT/s PCIe\n")
    assert "while idle" in machine_rows(tree)["GPU 0 link"].what
    (place / "current_link_width").write_text("8\n")
    assert machine_rows(tree)["GPU 0 link"].status == "warning"


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
    rows = rows_of(_target(tree, monkeypatch, XFS, demands=(DIRECT, deep)))
    row = rows["GPU memory"]
    assert row.status == "error"
    assert row.what.startswith("deep: buffers of 1MiB on GPU 0 take 137 GB; 96.6 GB")
    assert rows_of(_target(tree, monkeypatch, XFS))["GPU memory"].status == "ok"


def test_buffers_that_a_drive_cannot_see_all_of_are_told(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = tree.root / "sys/devices" / Path(*GPU_PLACE) / "resource"
    small = f"0x{1 << 40:x} 0x{(1 << 40) + (256 << 20) - 1:x} 0x14220c"
    resource.write_text(f"0x0 0x0 0x0\n{small}\n")
    assert "GPU aperture" not in rows_of(_target(tree, monkeypatch, XFS))
    many = replace(DIRECT, workers=257)
    row = rows_of(_target(tree, monkeypatch, XFS, demands=(many,)))["GPU aperture"]
    assert (row.status, "BAR1 maps only 268 MB" in row.what) == ("warning", True)


def test_the_machine_is_asked_with_the_libraries_that_a_study_names(tree: PciTree) -> None:
    def probing(libraries: Libraries) -> Probe:
        return replace(FOUND, cufile=CUFILE.model_copy(update={"path": libraries.cufile[0]}))

    def point(**params: object) -> Point:
        whole = GpuDirectParams.model_validate(params).model_dump()
        return Point(
            target="t", workload="w", workload_index=0, kind="gpudirect", engine="native",
            params=whole,
        )  # fmt: skip

    machine = replace(as_machine(tree), probing=probing)
    named = [point(cufile_library=name) for name in ("/a.so", "/b.so", "/a.so")]
    found = [row.what for row in examine_here(named, machine) if row.name == "libcufile"]
    assert found == ["version 1.15, /a.so", "version 1.15, /b.so"]
    (usual,) = (row for row in examine_here((), machine) if row.name == "libcufile")
    assert "/a.so" not in usual.what


def test_a_gpu_that_is_not_there_is_an_error(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(_target(tree, monkeypatch, XFS, demands=(replace(DIRECT, gpus=(3,)),)))
    assert (rows["GPU"].status, "GPUs of the CUDA driver: 0" in rows["GPU"].what) == ("error", True)


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
    """Check that the probe runs once and does not open cuFile without a GPU."""
    asked = []

    def probing(libraries: Libraries) -> Probe:
        asked.append(libraries.cufile)
        return replace(FOUND, trouble=trouble)

    monkeypatch.setattr(storage, "under", lambda place, root: XFS)
    machine = replace(as_machine(tree), probing=probing)
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
    assert bad_rows(_target(tree, monkeypatch, XFS, found, (bounce,))) == {}
    rows = rows_of(_target(tree, monkeypatch, XFS, found))
    assert (rows["libcufile"].status, rows["libcufile"].what) == ("error", "not found")
    for other in ("bounce", "host"):
        both = (DIRECT, replace(DIRECT, path=other))
        row = rows_of(_target(tree, monkeypatch, XFS, found, both))["libcufile"]
        assert row.status == "error"
    host = replace(DIRECT, path="host")
    broken = Probe(trouble=Trouble(what="broken"))
    assert _target(tree, monkeypatch, XFS, broken, (host,)) == []


def test_a_cufile_that_takes_the_probe_down_leaves_the_other_paths(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probing(libraries: Libraries) -> Probe:
        return Probe(trouble=Trouble(what="crashed", fix="look")) if libraries.cufile else FOUND

    monkeypatch.setattr(storage, "under", lambda place, root: XFS)
    machine = replace(as_machine(tree), probing=probing)
    both = (DIRECT, replace(DIRECT, path="bounce"))
    rows = rows_of(examine_target([Path("/data")], both, LIBRARIES, machine))
    assert (rows["libcufile"].status, "look" in rows["libcufile"].fix) == ("error", True)
    assert rows["GPU memory"].status == "ok"
    rows = rows_of(examine_target([Path("/data")], both[:1], LIBRARIES, machine))
    assert rows["libcuda"].status == "error"
