"""Helpers that find fio, Chromium and root: skip with a reason, fail under CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import disk_among, fio_version, in_ci, missing, need_program, need_root
from storlab.stores.filesystems import file_system_of
from support.mounts import mounted


def test_ci_is_read_from_the_environment() -> None:
    assert in_ci({"CI": "true"})
    assert in_ci({"CI": "1"})
    assert not in_ci({})
    assert not in_ci({"CI": "false"})


def test_a_missing_component_skips_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="the program no-such-program"):
        need_program("no-such-program")


def test_a_missing_component_fails_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needed under CI: no tape drive"):
        missing("no tape drive")


@pytest.mark.parametrize(
    ("text", "version"),
    [("fio-3.33", (3, 33)), ("fio-3.42-17-gabc", (3, 42)), ("something else", ())],
)
def test_fio_tells_its_version(tmp_path: Path, text: str, version: tuple[int, ...]) -> None:
    program = tmp_path / "fio"
    program.write_text(f"#!/bin/sh\necho {text}\n")
    program.chmod(0o755)
    assert fio_version(program) == version


@pytest.mark.root
def test_a_disk_is_taken_where_temporary_files_lie_in_memory(
    tmp_path: Path, disk_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root("mount")
    assert not file_system_of(disk_path).in_memory
    monkeypatch.setenv("CI", "true")
    with mounted(tmp_path / "memory", "-t", "tmpfs", "none") as memory:
        assert disk_among([memory, disk_path]) == disk_path
        with pytest.raises(pytest.fail.Exception, match="needs a directory on a disk"):
            disk_among([memory])
