from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.units import NS_PER_S
from storlab.cluster import leftovers


@pytest.fixture
def segment() -> Iterator[Path]:
    """Provide a file as MPICH leaves behind, mapped by this process."""
    path = Path(f"/dev/shm/mpich_shm_{os.getpid():x}{id(path_of):x}_0")
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        yield path
    path.unlink(missing_ok=True)


def path_of(pid: int) -> Path:
    return Path(f"/proc/{pid}")


def test_only_files_of_mpich_that_the_process_has_mapped_are_removed(segment: Path) -> None:
    other = segment.with_name(f"{segment.name}1")  # of a foreign job
    other.write_bytes(b"")
    try:
        assert leftovers.shared_memory_of(os.getpid()) == {segment}
        leftovers.remove(leftovers.shared_memory_of(os.getpid()))
        assert not segment.exists()
        assert other.exists()
        leftovers.remove({segment})  # already removed
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
        for process in (marked, alike):  # Popen returns before execve is complete
            while not Path(f"/proc/{process.pid}/environ").read_bytes():
                assert process.poll() is None
        assert leftovers.processes_of(-1, "JOB=abc") == [marked.pid]
        assert leftovers.processes_of(alike.pid, "JOB=none") == [alike.pid]
        leftovers.kill([marked.pid])
        marked.wait()
        assert leftovers.processes_of(-1, "JOB=abc") == []
    finally:
        for process in (marked, alike):
            process.kill()
            process.wait()


def test_a_folder_of_a_client_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with leftovers.client_folder() as folder:
        (folder / "work").mkdir()
        leftovers.remove_stale_folders()  # like another client that starts meanwhile
        assert (folder / "work").is_dir()
        assert [entry.name for entry in tmp_path.iterdir()] == [folder.name]
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_client_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys, time\nfrom storlab.cluster import leftovers\n"
        "with leftovers.client_folder() as f:\n print(f, flush=True)\n time.sleep(600)"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None
    folder = Path(child.stdout.readline().decode().strip())
    child.kill()
    child.wait()
    child.stdout.close()
    assert folder.is_dir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    foreign = tmp_path / "storlab-other"
    foreign.mkdir()
    leftovers.remove_stale_folders()
    assert list(tmp_path.iterdir()) == [foreign]


def test_a_client_that_ends_at_once_removes_its_folder(tmp_path: Path) -> None:
    """Check the clean-up if the watcher ends a client because its launcher is gone."""
    code = (
        "import os, sys, time\nfrom storlab.cluster import leftovers, rank\n"
        "rank.end_with_parent()\n"
        "with leftovers.client_folder():\n os.write(1, b'x'); time.sleep(600)"
    )
    parent = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE)\n"
        "assert child.stdout.read(1) == b'x'\nprint(child.pid, flush=True)\nos._exit(0)"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", parent, code]
    ended = subprocess.run(command, env=environment, capture_output=True, check=True)
    pid = int(ended.stdout)
    wait_until(lambda: not path_of(pid).exists() or not list(tmp_path.iterdir()))
    assert list(tmp_path.iterdir()) == []


def wait_until(condition: Callable[[], bool]) -> None:
    end_ns = monotonic_ns() + 60 * NS_PER_S
    while not condition():
        assert monotonic_ns() < end_ns
        sleep_s(0.02)
