"""What every rank does first: find the others, and end when its parent has."""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress

from storlab.base.clock import sleep_s
from storlab.cluster import leftovers
from storlab.cluster.link import Link, connect

_LOOK_S = 0.5
_GONE = 75  # exit code of a rank whose launcher has gone


def join() -> Link:
    """This process as a rank: watched, connected, and with nothing left behind in /dev/shm.

    Raises EngineError as ``link.connect`` does.
    """
    end_with_parent()
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
    os._exit(_GONE)
