"""Start a rank's process, connect it to the other ranks, and end it when its parent ends."""

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
    """Execute the work of a rank, and make sure that the process does not outlive its parent.

    If the work fails, the process exits without Python's finalisation. Finalisation waits for
    threads and libraries and could hang, for example on a lost file system; at that time, the
    thread that watches the parent no longer runs.

    After successful work the function returns and the process exits normally: if it exited
    abnormally, MPICH would kill ranks that still finalise MPI. The kernel kills the process if its
    parent dies meanwhile.
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
        EngineError: MPI is missing, or the ranks cannot find one another (``link.connect``).
    """
    try:
        return connect()
    finally:
        # All ranks have mapped the files by now. Once unlinked, the kernel frees them at the end of
        # the processes, even after SIGKILL.
        leftovers.remove(leftovers.shared_memory_of(os.getpid()))


def end_with_parent() -> None:
    """Start a thread that ends this process as soon as its parent has ended.

    The parent is MPI's launcher process on this host, which ends if mpiexec ends or the connection
    to it breaks. The thread waits in the kernel, without CPU time.
    """
    threading.Thread(target=_watch, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    with suppress(OSError):  # without pidfd in the kernel or container, the loop below polls
        fd = os.pidfd_open(parent)
        if os.getppid() == parent:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll()
    while os.getppid() == parent:
        sleep_s(_LOOK_S)
    leftovers.remove_own_folders()
    os._exit(_GONE)
