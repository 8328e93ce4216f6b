"""Local processes of an MPI job, and what its library leaves on this machine."""

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
_SESSION = 3  # fields of /proc/PID/stat after the name: state, parent, group, session


def processes_of(session: int, mark: str) -> list[int]:
    """Pids of all that runs in that session, or has ``mark`` (NAME=value) in its environment.

    Ranks go into sessions of their own, and outlive the launcher; the mark stays with them.
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
    """SIGKILL to each."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def shared_memory_of(pid: int) -> set[Path]:
    """Files of MPICH in /dev/shm that a process has mapped. None of one that has gone."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        matches = (_MAPPED.search(line) for line in lines)
        return {Path(match[0]) for match in matches if match}
    return set()


def remove(files: set[Path]) -> None:
    """Remove files that may be gone already."""
    for file in files:
        with suppress(OSError):
            file.unlink()


@contextmanager
def client_folder() -> Iterator[Path]:
    """Make a temporary folder for one task of a client, and remove it and stale ones of this user.

    A client that is killed leaves its folder. Each folder is locked as long as its owner lives, so
    that the next client on the host tells stale ones by their free locks.
    """
    remove_stale_folders()
    folder = Path(tempfile.mkdtemp(prefix=f"storlab-new-{_FOLDER}"))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under this name only once it is locked: another client may look at it at any moment.
        folder = folder.rename(folder.with_name(folder.name.removeprefix("storlab-new-")))
        _folders.add(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _folders.discard(folder)
        os.close(lock)


def remove_own_folders() -> None:
    """Remove the folders of this process, which is about to end without unwinding."""
    for folder in list(_folders):
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders() -> None:
    """Remove folders of this user's clients whose process has gone."""
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
    """The folder in which an Open MPI that was killed kept its state."""
    folder = Path(tempfile.gettempdir()) / f"ompi.{pid}"
    with suppress(OSError):
        if folder.lstat().st_uid == os.geteuid():
            shutil.rmtree(folder)
