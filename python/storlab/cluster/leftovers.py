"""Find and remove an MPI job's local processes, and the files that MPI leaves behind."""

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
_folders: set[Path] = set()  # existing client folders of this process
_SESSION = 3  # index in /proc/PID/stat after the name: state, parent, group, session


def processes_of(session: int, mark: str) -> list[int]:
    """Return the ids of processes that are in a session or have ``mark`` in their environment.

    Ranks may start a session of their own and outlive the launcher, but they inherit the mark.

    Args:
        session: Id of the launcher's session.
        mark: Environment variable as ``NAME=value``.
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
    """Return MPICH's files in /dev/shm that a process has mapped; empty if it has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        matches = (_MAPPED.search(line) for line in lines)
        return {Path(match[0]) for match in matches if match}
    return set()


def remove(files: set[Path]) -> None:
    """Remove files; a file that is already gone is no error."""
    for file in files:
        with suppress(OSError):
            file.unlink()


@contextmanager
def client_folder() -> Iterator[Path]:
    """Yield a temporary folder for one task of a client, and remove it at the end.

    A killed client leaves its folder behind. Each client locks its folder, so an unlocked folder of
    the same user is stale: the next client on the host removes it.
    """
    remove_stale_folders()
    folder = Path(tempfile.mkdtemp(prefix=f"storlab-new-{_FOLDER}"))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Rename only after locking: other clients remove unlocked folders that have the final name.
        folder = folder.rename(folder.with_name(folder.name.removeprefix("storlab-new-")))
        _folders.add(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _folders.discard(folder)
        os.close(lock)


def remove_own_folders() -> None:
    """Remove this process's client folders, before an exit that skips ``finally`` blocks."""
    for folder in list(_folders):
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders() -> None:
    """Remove this user's client folders that no running client has locked."""
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
    """Remove the session folder that a killed Open MPI launcher left in the temporary directory."""
    folder = Path(tempfile.gettempdir()) / f"ompi.{pid}"
    with suppress(OSError):
        if folder.lstat().st_uid == os.geteuid():
            shutil.rmtree(folder)
