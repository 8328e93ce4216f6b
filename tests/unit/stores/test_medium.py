"""Layers below a path, on real mounts and loop devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import missing, need_root
from storlab.stores.devices import Device, device_number
from storlab.stores.filesystems import file_system_of
from storlab.stores.medium import Medium, medium_of
from support.mounts import loop_device, make_image, mounted, sh

SIZE = 32 << 20
BTRFS_SIZE = 128 << 20  # its minimum


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """Return a directory on a disk: memory has no device below it."""
    return disk_path


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


def _direct_loop(stack: ExitStack, place: Path) -> Path:
    """Return a loop device with direct I/O over an image."""
    image = make_image(place / "image", SIZE)
    device = stack.enter_context(loop_device(image, "--direct-io=on"))
    if Path(f"/sys/block/{device.name}/loop/dio").read_text().strip() != "1":
        pytest.skip(f"no direct I/O from a loop device to a file in {place}")
    return device


def _device(path: Path) -> Device:
    number = device_number(path)
    assert number is not None
    return Device(number)


def _overlay(stack: ExitStack, place: Path, lower: Path, upper: Path) -> Path:
    for folder in (upper / "u", upper / "w"):
        folder.mkdir(exist_ok=True)
    options = f"lowerdir={lower},upperdir={upper}/u,workdir={upper}/w"
    return stack.enter_context(mounted(place / "merged", "-t", "overlay", "-o", options, "overlay"))


def test_memory_is_no_device(tmp_path: Path, stack: ExitStack) -> None:
    need_root("mount")
    for kind in ("tmpfs", "ramfs"):
        place = stack.enter_context(mounted(tmp_path / kind, "-t", kind, "none"))
        found = medium_of(place / "new")
        assert (found.devices, len(found.memory)) == ((), 1)


def test_a_loop_device_tells_whether_it_goes_past_the_page_cache(
    tmp_path: Path, stack: ExitStack
) -> None:
    need_root("losetup", "mkfs.ext4")
    direct = _direct_loop(stack, tmp_path)
    assert medium_of(direct) == Medium(devices=(_device(direct),))
    cached = stack.enter_context(loop_device(make_image(tmp_path / "other", SIZE)))
    found = medium_of(cached)
    assert found.devices == (_device(cached),)
    assert len(found.cached) == 1
    mount = stack.enter_context(mounted(tmp_path / "mount", cached))
    assert medium_of(mount / "file") == found


def test_what_a_loop_device_is_made_of_is_looked_at_too(tmp_path: Path, stack: ExitStack) -> None:
    need_root("losetup")
    memory = stack.enter_context(mounted(tmp_path / "memory", "-t", "tmpfs", "none"))
    (memory / "image").write_bytes(bytes(SIZE))
    inner = stack.enter_context(loop_device(memory / "image"))
    outer = stack.enter_context(loop_device(inner, "--direct-io=on"))
    found = medium_of(outer)
    assert found.devices == (_device(outer),)
    assert len(found.memory) == 1
    assert any(inner.name in text for text in found.cached)


def test_an_overlay_leads_to_the_layer_that_holds_the_file(
    tmp_path: Path, stack: ExitStack
) -> None:
    need_root("losetup", "mkfs.ext4")
    device = _direct_loop(stack, tmp_path)
    disk = stack.enter_context(mounted(tmp_path / "disk", device))
    memory = stack.enter_context(mounted(tmp_path / "memory", "-t", "tmpfs", "none"))
    (disk / "old").write_bytes(b"old")
    (disk / "changed").write_bytes(b"old")
    merged = _overlay(stack, tmp_path, disk, memory)
    (merged / "changed").write_bytes(b"new")
    (merged / "folder").mkdir()
    on_disk = Medium(devices=(_device(device),))
    assert file_system_of(merged / "old").kind == "overlay"
    assert medium_of(merged / "old") == on_disk
    for name in ("changed", "new", "folder/new", "folder"):
        assert len(medium_of(merged / name).memory) == 1
    below = stack.enter_context(mounted(tmp_path / "bind", "--bind", merged / "folder"))
    assert len(medium_of(below / "new").memory) == 1


def test_an_overlay_whose_layers_are_out_of_sight_says_so(tmp_path: Path, stack: ExitStack) -> None:
    need_root("mount")
    memory = stack.enter_context(mounted(tmp_path / "memory", "-t", "tmpfs", "none"))
    (memory / "l").mkdir()
    (memory / "l" / "old").write_bytes(b"old")
    merged = _overlay(stack, tmp_path, memory / "l", memory)
    with mounted(tmp_path / "memory", "-t", "tmpfs", "none"):  # over the layers
        for name in ("old", "new"):
            found = medium_of(merged / name)
            assert (found.devices, found.memory, len(found.unknown)) == ((), (), 1)


@pytest.mark.parametrize("profile", ["single", "raid1"])
def test_btrfs_leads_to_all_of_its_devices(tmp_path: Path, stack: ExitStack, profile: str) -> None:
    need_root("losetup", "mkfs.btrfs")
    if not Path("/dev/btrfs-control").exists():
        pytest.skip("needs btrfs in the kernel (/dev/btrfs-control)")
    devices = []
    for name in ("first", "second"):
        with (tmp_path / name).open("wb") as image:
            image.truncate(BTRFS_SIZE)
        devices.append(stack.enter_context(loop_device(tmp_path / name, "--direct-io=on")))
    sh("mkfs.btrfs", "-q", "-d", profile, "-m", profile, *devices)
    sh("btrfs", "device", "scan", *devices)
    mount = stack.enter_context(mounted(tmp_path / "mount", devices[0]))
    sh("btrfs", "subvolume", "create", mount / "volume")
    for place in (mount / "new", mount / "volume" / "new"):
        found = medium_of(place)
        assert set(found.devices) == {_device(device) for device in devices}
        assert found.memory + found.unknown == ()


def test_a_file_system_served_by_a_program_says_so(tmp_path: Path, stack: ExitStack) -> None:
    need_root("fuse2fs", "mkfs.ext4")
    if not Path("/dev/fuse").exists():
        missing("needs FUSE (/dev/fuse)")
    image, mount = make_image(tmp_path / "image", SIZE), tmp_path / "mount"
    mount.mkdir()
    sh("fuse2fs", image, mount)
    stack.callback(sh, "umount", mount)
    found = medium_of(mount / "new")
    assert (found.devices, len(found.unknown)) == ((), 1)
    assert "program" in found.unknown[0]


def test_file_systems_without_a_device_say_why(tmp_path: Path) -> None:
    for place in ("/proc", "/sys"):
        found = medium_of(Path(place))
        assert (found.devices, len(found.unknown)) == ((), 1)
