"""Reading files that others may have replaced, and file names unique across hosts."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from storlab.base import zstd
from storlab.base.files import make_folder, parse_json, read_input, replace_file, temporary_beside


def _refused(path: Path | str, most_bytes: int = 100) -> int:
    with pytest.raises(OSError) as caught:
        read_input(path, most_bytes)
    return caught.value.errno or 0


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    assert read_input(file, 100) == b"x" * 100
    assert _refused(file, 99) == errno.EFBIG
    (tmp_path / "link").symlink_to(file)
    assert read_input(tmp_path / "link") == b"x" * 100
    assert read_input("/proc/self/stat")  # regular, with size 0


@pytest.mark.timeout(60)
def test_what_would_be_waited_for_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert _refused(tmp_path / "pipe") == errno.EINVAL
    assert _refused("/dev/zero") == errno.EINVAL
    assert _refused(tmp_path) == errno.EISDIR
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert _refused(tmp_path / "a") == errno.ELOOP
    assert _refused(tmp_path / ("n" * 300)) == errno.ENAMETOOLONG
    assert _refused("a\0b") == errno.EINVAL


def test_a_refused_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        _refused(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "[" * 100_000, "{"])
def test_json_is_what_the_standard_says(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text.encode())
    assert parse_json(b'{"a": [1.5, null, "NaN"]}') == {"a": [1.5, None, "NaN"]}


def test_no_two_processes_take_the_same_temporary_name(tmp_path: Path) -> None:
    """Check that names differ even for equal process ids on two hosts."""
    long = tmp_path / ("n" * 255)
    names = {temporary_beside(long).name for _ in range(100)}
    assert len(names) == 100
    assert all(len(name.encode()) <= 255 for name in names)
    assert all(os.uname().nodename[:8].replace(".", "-") in name for name in names)
    replace_file(long, b"whole")
    assert long.read_bytes() == b"whole"
    assert [path.name for path in tmp_path.iterdir()] == [long.name]


def test_a_file_is_flushed_before_it_gets_its_name_and_its_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = []

    def fsync(handle: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(handle).st_mode)
        flushed.append((is_directory, (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    replace_file(tmp_path / "file", b"whole")
    assert flushed == [(False, False), (True, True)]


def test_a_folder_of_ours_is_never_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(NotADirectoryError):
            make_folder(tmp_path / name)
    make_folder(tmp_path / "new")
    make_folder(tmp_path / "new")


def test_a_small_file_does_not_unpack_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zstd.packed(b"\0" * 10_000)
    assert zstd.unpacked(bomb) == b"\0" * 10_000
    monkeypatch.setattr(zstd, "MOST_BYTES", 9_999)
    with pytest.raises(ValueError, match="after decompression"):
        zstd.unpacked(bomb)
