"""What a rank does first and last: find the others, and end, when its parent has at the latest."""

from __future__ import annotations

import os
import select
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from storlab.base.clock import sleep_s
from storlab.cluster import leftovers
from storlab.cluster.link import Link, connect

_LOOK_S = 0.5
_GONE = 75  # exit code of a rank whose launcher has gone


def live(work: Callable[[], None]) -> NoReturn:
    """Do the work of a rank, watched from before it begins, and end this process behind it.

    Without Python's own end, which waits for threads and lets libraries put away what they have:
    what hangs there, as on a file system that has gone, nobody would end. Python has stopped its
    own threads by then, the watching one too.
    """
    end_with_parent()
    code = 1
    try:
        work()
        code = 0
    finally:
        if code:
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


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
    os._exit(_GONE)
