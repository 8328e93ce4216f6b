"""Local processes of an MPI job, and files that MPI leaves on this machine."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MAPPED = re.compile(r"/dev/shm/mpich_shm_[0-9a-f]+_\d+(?= \(deleted\)|$)")  # noqa: S108  (MPICH's)
_FOLDER = "storlab-client-"
_folders: set[Path] = set()  # of this process
_SESSION = 3  # index in /proc/PID/stat after the name: state, parent, group, session


def processes_of(session: int, mark: str) -> list[int]:
    """Return processes of a session, or with ``mark`` (NAME=value) in their environment.

    Ranks create sessions of their own and may outlive the launcher, but they keep the mark.
    """
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                marked = mark.encode() in (entry / "environ").read_bytes().split(b"\0")
                if fields[0] != "Z" and (int(fields[_SESSION]) == session or marked):
                    processes.append(int(entry.name))
    return processes


def kill(pids: list[int]) -> None:
    """Send SIGKILL to each process."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def shared_memory_of(pid: int) -> set[Path]:
    """Return MPICH's files in /dev/shm that a process has mapped; empty if it is gone."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        matches = (_MAPPED.search(line) for line in lines)
        return {Path(match[0]) for match in matches if match}
    return set()


def remove(files: set[Path]) -> None:
    """Remove files, some of which may not exist any more."""
    for file in files:
        with suppress(OSError):
            file.unlink()


@contextmanager
def client_folder() -> Iterator[Path]:
    """Create a temporary folder for one task of a client, and remove it and stale ones at the end.

    A killed client leaves its folder. Each folder is locked while its owner lives, so that the next
    client on the host recognises this user's stale folders by their free locks.
    """
    remove_stale_folders()
    folder = Path(tempfile.mkdtemp(prefix=f"storlab-new-{_FOLDER}"))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Renamed only after it is locked, because another client may check it at any time.
        folder = folder.rename(folder.with_name(folder.name.removeprefix("storlab-new-")))
        _folders.add(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _folders.discard(folder)
        os.close(lock)


def remove_own_folders() -> None:
    """Remove the folders of this process, which is about to exit without unwinding."""
    for folder in list(_folders):
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders() -> None:
    """Remove folders of this user's clients whose process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError):
            if folder.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)


def remove_session(pid: int) -> None:
    """Remove the state folder of a killed Open MPI."""
    folder = Path(tempfile.gettempdir()) / f"ompi.{pid}"
    with suppress(OSError):
        if folder.lstat().st_uid == os.geteuid():
            shutil.rmtree(folder)
