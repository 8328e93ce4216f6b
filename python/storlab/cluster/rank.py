"""What a rank does first and last: find the others, and end, when its parent has at the latest."""

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
_GONE = 75  # exit code of a rank whose launcher has gone


def live(work: Callable[[], None]) -> None:
    """Do the work of a rank, watched from before it begins until this process has ended.

    Where the work fails the process ends here, without Python's own end, which waits for threads
    and lets libraries put away what they have: what hangs there, as on a file system that has gone,
    nobody would end, since Python has stopped the watching thread by then. After work that is done
    the kernel watches instead. The process then takes its time: one that is quick to go while
    others still take leave of MPI counts as failed for MPICH, which kills them.
    """
    end_with_parent()
    try:
        work()
    except BaseException:  # noqa: BLE001 (whatever it is, this process ends here)
        traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(1)
    die_with_parent()


def join() -> Link:
    """This process connected to the other ranks, and with nothing left behind in /dev/shm.

    Raises EngineError as ``link.connect`` does.
    """
    try:
        return connect()
    finally:
        # Mapped by all that need it: without a name it goes when they do, also by SIGKILL.
        leftovers.remove(leftovers.shared_memory_of(os.getpid()))


def end_with_parent() -> None:
    """From now on this process ends at once when the one that started it has gone.

    That is MPI's own process on this host, which goes when mpiexec or the way to it does. The
    watcher waits in the kernel and uses no CPU time.
    """
    threading.Thread(target=_watch, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    with suppress(OSError):  # a kernel or a container without it: then it is looked for
        fd = os.pidfd_open(parent)
        if os.getppid() == parent:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll()
    while os.getppid() == parent:
        sleep_s(_LOOK_S)
    leftovers.remove_own_folders()
    os._exit(_GONE)
