"""Start and end of a rank's process, which connects to others and ends with its parent."""

from __future__ import annotations

import os
import select
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress

from storlab.base.clock import sleep_s
from storlab.cluster import leftovers
from storlab.cluster.link import Link, connect
from storlab.process.parent_death import die_with_parent

_LOOK_S = 0.5
_GONE = 75  # exit code of a rank whose launcher is gone


def live(work: Callable[[], None]) -> None:
    """Execute the work of a rank, and make sure that the process ends.

    If the work fails, the process exits at once without Python's finalisation, which waits for
    threads and libraries: if that hung, for example on a lost file system, nothing would end the
    process, because Python has stopped the monitoring thread by then. After successful work, the
    kernel kills the process when its parent dies. The process then exits normally, because MPICH
    treats a rank that exits while others still finalise MPI as failed, and kills them.
    """
    end_with_parent()
    try:
        work()
    except BaseException:  # noqa: BLE001 (any error ends this process)
        traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(1)
    die_with_parent()


def join() -> Link:
    """Connect this process to the other ranks, without leaving files in /dev/shm.

    Raises:
        EngineError: See ``link.connect``.
    """
    try:
        return connect()
    finally:
        # The files are mapped by all processes that need them; unlinked, they vanish even after
        # SIGKILL.
        leftovers.remove(leftovers.shared_memory_of(os.getpid()))


def end_with_parent() -> None:
    """End this process as soon as its parent has ended.

    The parent is MPI's process on this host, which ends with mpiexec or the connection to it. The
    monitoring thread waits in the kernel, without CPU time.
    """
    threading.Thread(target=_watch, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    with suppress(OSError):  # polls below if the kernel or container lacks pidfd
        fd = os.pidfd_open(parent)
        if os.getppid() == parent:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll()
    while os.getppid() == parent:
        sleep_s(_LOOK_S)
    leftovers.remove_own_folders()
    os._exit(_GONE)
