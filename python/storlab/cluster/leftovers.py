"""Local processes of an MPI job, and what its library leaves on this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

_MAPPED = re.compile(r"/dev/shm/mpich_shm_[0-9a-f]+_\d+(?= \(deleted\)|$)")  # noqa: S108  (MPICH's)
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


def remove_session(pid: int) -> None:
    """The folder in which an Open MPI that was killed kept its state."""
    folder = Path(tempfile.gettempdir()) / f"ompi.{pid}"
    with suppress(OSError):
        if folder.lstat().st_uid == os.geteuid():
            shutil.rmtree(folder)
