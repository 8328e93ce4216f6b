"""The guard on real loop devices: refusals, and proof that nothing was written."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode, GuardError, PreflightError
from storlab.cli.main import main
from storlab.contracts.registry import study_class
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.targets import device_facts
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.study import StudyBase
from storlab.stores.signatures import find_signatures
from support.mounts import flush
from support.udev import named

pytestmark = pytest.mark.root

SIZE = 64 << 20
LOOP_CTL_REMOVE = 0x4C81  # in the kernel's uapi/linux/loop.h


def sh(*command: str | Path) -> str:
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@contextmanager
def loop_device(image: Path, *options: str) -> Iterator[Path]:
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(SIZE)
    device = Path(sh("losetup", "--find", "--show", *options, image))
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", str(device)], check=False)


@contextmanager
def vanished_device(image: Path) -> Iterator[Path]:
    """Return the node of a loop device that no longer exists.

    Its number is high, because the first free one is used next by any other test.
    """
    image.write_bytes(bytes(1 << 20))
    number = 10_000 + os.getpid()
    device = Path(f"/dev/loop{number}")
    sh("losetup", device, image)
    sh("losetup", "--detach", device)
    yield device
    with Path("/dev/loop-control").open() as control:
        fcntl.ioctl(control, LOOP_CTL_REMOVE, number)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return tmp_path / "disk.img"


@pytest.fixture
def device(image: Path) -> Iterator[Path]:
    with loop_device(image) as loop:
        yield loop


def write_mbr(path: Path) -> None:
    """Write a partition table with one Linux partition from 1 MiB to the end."""
    entry = struct.pack("<B3xB3xII", 0, 0x83, 2048, SIZE // 512 - 2048)
    with path.open("r+b") as file:
        file.seek(446)
        file.write(entry + bytes(48) + b"\x55\xaa")


def digest(path: Path, but: slice = slice(0)) -> str:
    """Return a digest of all bytes, or of those outside of ``but``."""
    content = bytearray(path.read_bytes())
    del content[but]
    return hashlib.sha256(content).hexdigest()


def study_for(*paths: Path | str, serial: Path | str | None = None, read: int = 0) -> StudyBase:
    target = {"name": "disk", "paths": [str(p) for p in paths]}
    if serial is not None:
        target["serial"] = str(serial)
    text = f"""
    [study]
    name = "guard"
    [[workload]]
    kind = "block"
    block_size = "4KiB"
    read_percent = {read}
    """
    return study_class().model_validate({**tomllib.loads(text), "target": [target]})


def plan_for(study: StudyBase) -> Plan:
    point = Point(
        target="disk",
        workload="block",
        workload_index=0,
        kind="block",
        engine="native",
        params=study.workload[0].values()[0],
    )
    run = PlannedRun(order=0, repeat=1, point_id=point.point_id)
    return Plan(
        study_name="guard",
        study_sha256="0",
        points={point.point_id: point},
        runs=[run],
        estimated_ns=1,
        bytes_written=0,
        devices={path: device_facts(path) for path in study.target[0].locations},
    )


def guard_for(study: StudyBase, *, consent: bool = False) -> Guard:
    plan = plan_for(study)
    return Guard(study, plan, plan_hash=plan.plan_hash if consent else None)


def refused(
    study: StudyBase,
    reason: str,
    *,
    checked: Path,
    consent: bool = True,
    but: slice = slice(0),
) -> None:
    before = digest(checked, but)
    with pytest.raises(GuardError, match=reason) as caught, guard_for(study, consent=consent):
        pytest.fail("the guard let it pass")
    assert caught.value.exit_code == 5
    assert caught.value.fix
    assert digest(checked, but) == before


def test_a_blank_device_passes_with_its_typed_serial(device: Path, image: Path) -> None:
    before = digest(image)
    with guard_for(study_for(device, serial=image)) as guard:
        (member,) = guard.members["disk"]
        assert member.kind == "block_device"
        assert member.size == SIZE
        assert member.name == str(device)
        assert Path(member.path).stat().st_rdev == device.stat().st_rdev
        with pytest.raises(OSError, match="busy"):
            os.open(device, os.O_RDWR | os.O_EXCL)  # held for the whole campaign
    os.close(os.open(device, os.O_RDWR | os.O_EXCL))
    assert digest(image) == before


def test_a_stable_path_passes_with_the_plan_hash_only(device: Path, image: Path) -> None:
    with named(device, "by-id") as link:
        study = study_for(link)
        refused(study, "needs your consent", checked=image, consent=False)
        with guard_for(study, consent=True) as guard:
            assert guard.members["disk"][0].name == str(link)


def test_a_plain_name_is_refused_even_with_the_plan_hash(device: Path, image: Path) -> None:
    refused(study_for(device), "another device after the next boot", checked=image)


def test_a_wrong_serial_is_refused(device: Path, image: Path) -> None:
    refused(study_for(device, serial="WRONG"), "is not the serial number of", checked=image)


def test_a_stale_plan_hash_is_refused(device: Path, image: Path) -> None:
    study = study_for(device, serial=image)
    with (
        pytest.raises(GuardError, match="review `storlab plan` again"),
        Guard(study, plan_for(study), plan_hash="0123456789abcdef"),
    ):
        pytest.fail("the guard let it pass")


def test_a_link_of_ones_own_is_as_plain_as_the_name_it_hides(
    device: Path, image: Path, tmp_path: Path
) -> None:
    link = tmp_path / "my-disk"
    link.symlink_to(device)
    refused(study_for(link), "another device after the next boot", checked=image)
    with named(device, "by-id") as stable:
        outer = tmp_path / "outer"
        outer.symlink_to(stable)
        refused(study_for(outer), "another device after the next boot", checked=image)


def test_a_mounted_device_is_refused_by_whatever_name(
    device: Path, image: Path, tmp_path: Path
) -> None:
    sh("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    mount_point = tmp_path / "mounted here"
    mount_point.mkdir()
    node, link = tmp_path / "node", tmp_path / "link"
    sh("mount", device, mount_point)
    try:
        (mount_point / "precious").write_text("precious")
        flush(mount_point)
        flush(device)
        os.mknod(node, 0o600 | 0o060000, device.stat().st_rdev)
        link.symlink_to(device)
        for name in (device, node, link):
            refused(study_for(name, serial=image), "mounted on .*mounted here", checked=image)
        assert (mount_point / "precious").read_text() == "precious"
    finally:
        sh("umount", mount_point)


def test_a_mounted_partition_refuses_the_whole_device(image: Path, tmp_path: Path) -> None:
    with image.open("wb") as file:
        file.truncate(SIZE)
    write_mbr(image)
    mount_point = tmp_path / "part"
    mount_point.mkdir()
    with loop_device(image, "--partscan") as loop:
        partition = Path(f"{loop}p1")
        if not partition.exists():  # the kernel does not support this kind of table
            sh("addpart", loop, "1", "2048", str(SIZE // 512 - 2048))
        sh("mkfs.ext4", "-q", partition)
        refused(study_for(loop, serial=image), "is divided into", checked=image)
        sh("mount", partition, mount_point)
        try:
            refused(study_for(loop, serial=image), f"mounted on {mount_point}", checked=image)
            refused(study_for(partition, serial=image), "mounted on", checked=image)
        finally:
            sh("umount", mount_point)


@pytest.mark.parametrize("make", ["mkfs.ext4 -q", "mkswap", "a partition table"])
def test_a_signature_is_refused(device: Path, image: Path, make: str) -> None:
    if make == "a partition table":
        write_mbr(device)
    else:
        sh(*make.split(), device)
    flush(device)
    refused(study_for(device, serial=image), "contains data", checked=image)


def test_our_own_prober_finds_what_blkid_finds(
    device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the built-in checks alone detect the most common file systems."""
    monkeypatch.setattr("storlab.stores.signatures._blkid", lambda fd: [])
    fd = os.open(device, os.O_RDONLY)
    try:
        assert find_signatures(fd, SIZE) == []
        sh("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
        assert find_signatures(fd, SIZE) == ["ext2/ext3/ext4 file system"]
        sh("mkswap", "-f", device)
        assert "swap" in find_signatures(fd, SIZE)
    finally:
        os.close(fd)


EMPTY_MBR = {510: b"\x55\xaa"}


@pytest.mark.parametrize("make", ["mkfs.minix", EMPTY_MBR])
def test_what_only_blkid_sees_is_refused(
    device: Path, image: Path, make: str | dict[int, bytes]
) -> None:
    if isinstance(make, str):
        sh(make, device)
    else:
        with image.open("r+b") as file:
            for offset, mark in make.items():
                file.seek(offset)
                file.write(mark)
    flush(device)
    refused(study_for(device, serial=image), r"contains data: .*\(blkid\)", checked=image)


@pytest.mark.parametrize("place", ["missing", "busybox", "blind"])
def test_nothing_is_called_blank_without_blkid(
    device: Path, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Check that no device counts as blank if blkid is missing, too old, or fails."""
    programs = tmp_path / "bin"
    programs.mkdir()
    if place != "missing":
        says = "BusyBox v1.35.0" if place == "busybox" else "blkid (libblkid 2.38.1)"
        (programs / "blkid").write_text(f'#!/bin/sh\n[ "$1" = -V ] && echo "{says}" || exit 2\n')
        (programs / "blkid").chmod(0o755)
    monkeypatch.setattr("storlab.stores.signatures._PLACES", ())
    monkeypatch.setenv("PATH", str(programs))
    before = digest(image)
    why = "cannot determine whether" if place == "blind" else "is not installed"
    with (
        pytest.raises(PreflightError, match=why) as caught,
        guard_for(study_for(device, serial=image), consent=True),
    ):
        pytest.fail("the guard let it pass")
    assert caught.value.exit_code == 4
    assert digest(image) == before
    with guard_for(study_for(device, read=100)):
        pass  # reading needs no consent


def test_active_swap_is_refused(device: Path, image: Path) -> None:
    sh("mkswap", device, "40")  # KiB; the kernel may put memory after the first page
    activated = subprocess.run(["swapon", str(device)], capture_output=True, text=True, check=False)
    if activated.returncode:
        pytest.skip(f"this kernel gives no swap: {activated.stderr.strip()}")
    try:
        refused(
            study_for(device, serial=image), "swap space", checked=image, but=slice(4096, 40 << 10)
        )
    finally:
        sh("swapoff", device)


def test_a_device_held_by_another_process_is_refused(device: Path, image: Path) -> None:
    fd = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        refused(study_for(device, serial=image), "is in use", checked=image)
    finally:
        os.close(fd)


def test_a_loop_over_the_same_medium_refuses_it(device: Path, image: Path, tmp_path: Path) -> None:
    with loop_device(image) as second:
        refused(study_for(device, serial=image), f"backs {second.name}", checked=image)
    with loop_device(device) as stacked:
        refused(study_for(device, serial=image), f"it backs {stacked.name}", checked=image)


def test_a_vanished_device_is_refused(image: Path, tmp_path: Path) -> None:
    with loop_device(image) as loop:
        gone = tmp_path / "gone"
        os.mknod(gone, 0o600 | 0o060000, loop.stat().st_rdev)
    refused(study_for(gone, serial=image), "no medium|is not the serial number of", checked=image)
    nowhere = tmp_path / "nowhere"
    os.mknod(nowhere, 0o600 | 0o060000, os.makedev(241, 77))
    refused(study_for(nowhere), "device is not connected", checked=image)


def test_the_command_refuses_a_vanished_device_as_the_guard_does(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with vanished_device(image) as device:
        study = tmp_path / "study.toml"
        study.write_text(f"""
        [study]
        name = "gone"
        [[target]]
        name = "disk"
        path = "{device}"
        serial = "{image}"
        size = "16MiB"
        [[workload]]
        kind = "block"
        read_percent = 50
        """)
        assert main(["run", str(study), "--out", str(tmp_path / "out"), "--json"]) == ExitCode.GUARD
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "GuardError"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["/dev/storlab-no-such-disk", "/dev/disk/by-id/storlab-no-such"])
def test_a_missing_device_is_never_created(name: str, image: Path) -> None:
    image.touch()
    refused(study_for(name), "never creates or writes files in", checked=image)
    assert not Path(name).exists()


def test_the_same_device_twice_is_refused(device: Path, image: Path, tmp_path: Path) -> None:
    node = tmp_path / "node"
    os.mknod(node, 0o600 | 0o060000, device.stat().st_rdev)
    with named(device, "by-id") as link:
        refused(study_for(link, f"/dev/disk/../disk/by-id/{link.name}"), "twice", checked=image)
        study = study_for(link, node, read=100)
        with (
            pytest.raises(GuardError, match="the same device or file twice"),
            guard_for(study),
        ):
            pytest.fail("the guard let it pass")


def test_reading_needs_no_consent_and_opens_read_only(device: Path, image: Path) -> None:
    sh("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    before = digest(image)
    with guard_for(study_for(device, read=100)) as guard:
        (hold,) = guard.holds
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(hold.fd, b"x")
        os.close(os.open(device, os.O_RDWR | os.O_EXCL))  # others may still open it
    assert digest(image) == before


def test_another_device_under_the_same_name_is_refused_on_resume(
    device: Path, image: Path, tmp_path: Path
) -> None:
    study = study_for(device, serial=image)
    with guard_for(study) as guard:
        recorded = guard.record()
    with Guard(study, plan_for(study), recorded=recorded):
        pass
    recorded["devices"][str(device)]["size"] += 1
    with (
        pytest.raises(GuardError, match="not the same device"),
        Guard(study, plan_for(study), recorded=recorded),
    ):
        pytest.fail("the guard let it pass")


def test_a_device_smaller_than_the_study_wants_is_named(device: Path, image: Path) -> None:
    study = study_for(device, serial=image)
    big = study.model_copy(
        update={"target": [study.target[0].model_copy(update={"size": SIZE + 4096})]}
    )
    with pytest.raises(PreflightError, match=str(SIZE)), guard_for(big):
        pytest.fail("the guard let it pass")
    os.close(os.open(device, os.O_RDWR | os.O_EXCL))  # released after the refusal


AS_NOBODY = """
import importlib.util, os, pathlib, sys
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parents[2]))
spec = importlib.util.spec_from_file_location("test_guard_loop", sys.argv[1])
module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
guard = module.guard_for(module.study_for(sys.argv[2], read=int(sys.argv[3]), serial=sys.argv[4]))
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    with guard: print("passed")
except module.PreflightError as error:
    print(error, error.exit_code)
"""


@pytest.mark.parametrize("read", [0, 100])
def test_without_root_a_device_is_refused_with_the_remedy(
    device: Path, image: Path, read: int
) -> None:
    before = digest(image)
    command = [sys.executable, "-c", AS_NOBODY, __file__, str(device), str(read), str(image)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "may not be opened by this user" in done.stdout
    assert "group disk" in done.stdout
    assert done.stdout.endswith("4\n")
    assert digest(image) == before
