"""Which runs count as emulated, and which machines contradict the path's counters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from storlab.model.job import Member
from storlab.stores.drives import Drive, Layer
from storlab.workloads.gpudirect.details import CuFileTold, LibrariesTold, LibraryTold
from storlab.workloads.gpudirect.machine import run_facts, storage
from storlab.workloads.gpudirect.machine.kernel import has_gpu_driver
from storlab.workloads.gpudirect.machine.run_facts import path_obstacles, stand_ins
from storlab.workloads.gpudirect.machine.storage import Under
from support.gpu_machine import DRIVE, XFS
from support.gpu_simulators import simulators
from support.pci_trees import OPEN_DRIVER, PciTree

MEMBER = Member(path="/data/0", name="0", kind="file", size=1 << 20)


def _with(cuda: Path | str, cufile: Path | str | None = None) -> LibrariesTold:
    loaded = None if cufile is None else CuFileTold(path=str(cufile), version="1.15")
    return LibrariesTold(cuda=LibraryTold(path=str(cuda), version="13.0"), cufile=loaded)


@pytest.fixture
def nvidias(tmp_path: Path) -> Path:
    """Write a file that contains the driver's device node name, like every libcuda."""
    path = tmp_path / "libcuda.so.1"
    path.write_bytes(b"\x7fELF\0/dev/nvidiactl\0")
    return path


def test_a_driver_and_libraries_of_nvidia_are_no_stand_ins(tree: PciTree, nvidias: Path) -> None:
    assert stand_ins(_with(nvidias, nvidias), tree.root) == []


def test_without_a_driver_there_is_no_gpu(tmp_path: Path, nvidias: Path) -> None:
    (found,) = stand_ins(_with(nvidias, nvidias), tmp_path / "bare", "h1")
    assert "h1" in found


def test_stand_in_libraries_are_found_beside_a_real_driver(tree: PciTree, nvidias: Path) -> None:
    made = simulators()
    assert len(stand_ins(_with(made.cuda, made.cufile), tree.root)) == 2
    assert len(stand_ins(_with(nvidias, made.cufile), tree.root)) == 1
    assert len(stand_ins(_with(made.cuda), tree.root)) == 1


def test_the_real_libcufile_is_of_nvidia(tree: PciTree, nvidias: Path) -> None:
    found = sorted(Path(sys.prefix).rglob("libcufile.so.0"))
    if not found:
        pytest.skip("the wheel nvidia-cufile is not installed")
    assert stand_ins(_with(nvidias, found[0]), tree.root) == []


def test_a_library_that_cannot_be_read_is_no_evidence(tree: PciTree, tmp_path: Path) -> None:
    assert stand_ins(_with(tmp_path / "gone.so"), tree.root) == []


@pytest.mark.parametrize("place", ["proc/driver/nvidia/version", "sys/module/nvidia/version"])
def test_what_shows_that_a_driver_is_loaded(tmp_path: Path, place: str) -> None:
    assert not has_gpu_driver(tmp_path)
    PciTree(tmp_path).text(place, OPEN_DRIVER)
    assert has_gpu_driver(tmp_path)


def _obstacles(
    monkeypatch: pytest.MonkeyPatch, lies_on: Under, *, by_nvidia_fs: bool = False
) -> Sequence[str]:
    monkeypatch.setattr(run_facts, "under", lambda place, root: lies_on)
    return path_obstacles([MEMBER, MEMBER], by_nvidia_fs=by_nvidia_fs)


def test_local_nvme_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _obstacles(monkeypatch, XFS) == []
    assert _obstacles(monkeypatch, Under("lustre", frozenset(), (), ())) == []


@pytest.mark.parametrize(
    ("lies_on", "by_p2p", "by_nvfs"),
    [
        (Under("xfs", frozenset(), (), (Drive("vda", "pcie", "0000:01:00.0"),)), 1, 1),
        (Under("xfs", frozenset(), (), (Drive("loop0", "loop", None),)), 1, 1),
        (Under("xfs", frozenset(), (), (Drive("nvme1n1", "rdma", None),)), 1, 0),
        (Under("xfs", frozenset(), (Layer("md0", "raid0"),), (DRIVE,)), 1, 0),
        (Under("tmpfs", frozenset(), (), ()), 1, 1),
        (Under("ext4", frozenset({"rw"}), (), (Drive("vda", "pcie", None),)), 1, 1),
        (Under("ext4", frozenset({"rw"}), (), (DRIVE,)), 0, 0),
    ],
)
def test_media_that_no_direct_path_goes_to_are_obstacles(
    monkeypatch: pytest.MonkeyPatch, lies_on: Under, by_p2p: int, by_nvfs: int
) -> None:
    assert len(_obstacles(monkeypatch, lies_on)) == by_p2p
    assert len(_obstacles(monkeypatch, lies_on, by_nvidia_fs=True)) == by_nvfs


def test_a_place_is_followed_to_its_device(tmp_path: Path) -> None:
    """Check that the walk below this test's folder ends, and names only real NVMe drives."""
    lies_on = storage.under(tmp_path)
    found = path_obstacles([MEMBER.model_copy(update={"path": str(tmp_path)})], by_nvidia_fs=False)
    assert bool(found) or all(drive.is_local_nvme for drive in lies_on.drives)
