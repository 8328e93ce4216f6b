from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlab.cluster import leftovers


@pytest.fixture
def segment() -> Iterator[Path]:
    """A file as MPICH leaves it behind, mapped by this process."""
    path = Path(f"/dev/shm/mpich_shm_{os.getpid():x}{id(path_of):x}_0")
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        yield path
    path.unlink(missing_ok=True)


def path_of(pid: int) -> Path:
    return Path(f"/proc/{pid}")


def test_only_files_of_mpich_that_the_process_has_mapped_are_removed(segment: Path) -> None:
    other = segment.with_name(f"{segment.name}1")  # of somebody else's job
    other.write_bytes(b"")
    try:
        assert leftovers.shared_memory_of(os.getpid()) == {segment}
        leftovers.remove(leftovers.shared_memory_of(os.getpid()))
        assert not segment.exists()
        assert other.exists()
        leftovers.remove({segment})  # gone already
    finally:
        other.unlink()


def test_a_process_that_has_gone_has_nothing(segment: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not path_of(ended.pid).exists()
    assert leftovers.shared_memory_of(ended.pid) == set()


def test_processes_are_found_by_mark_and_by_session() -> None:
    marked = subprocess.Popen(["sleep", "600"], env={"JOB": "abc"}, start_new_session=True)
    alike = subprocess.Popen(["sleep", "600"], env={"JOB": "abcd"}, start_new_session=True)
    try:
        assert leftovers.processes_of(-1, "JOB=abc") == [marked.pid]
        assert leftovers.processes_of(alike.pid, "JOB=none") == [alike.pid]
        leftovers.kill([marked.pid])
        marked.wait()
        assert leftovers.processes_of(-1, "JOB=abc") == []
    finally:
        for process in (marked, alike):
            process.kill()
            process.wait()
