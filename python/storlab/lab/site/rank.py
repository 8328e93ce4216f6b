"""What every rank of a cluster runs: rank 0 keeps time, the others are sites of one client each.

Started as ``python -m storlab.lab.site.rank TASK`` by ``storlab.lab.site.clients``. A rank imports
what its own task needs: a host that starts hundreds of them has to read all of it. It does so
before it joins the others, from when on it may not be silent: a slow file system may take minutes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from storlab.cluster import rank
from storlab.cluster.client import ClientEnd
from storlab.cluster.link import ClientsSilent, Link
from storlab.cluster.order import read_order
from storlab.process.execution import StopRequest

AHEAD = -5


def main() -> None:
    """This process as a rank."""
    do_task = _doer(sys.argv[1])
    link = rank.join()
    if link.is_controller:
        _keep_time(link)
    else:
        with suppress(ClientsSilent):  # rank 0 has gone: there is nobody to tell
            do_task(ClientEnd(link, StopRequest()))


def _keep_time(link: Link) -> None:
    from storlab.cluster.controller import Controller
    from storlab.cluster.task import Order

    # Clients of this machine may take every core of it; whoever keeps time must not wait for one.
    with suppress(OSError):  # only root may
        os.setpriority(os.PRIO_PROCESS, 0, AHEAD)
    if not Controller(link, Order.model_validate_json(read_order(link))).run():
        link.abort()


def _doer(task: str) -> Callable[[ClientEnd], None]:
    """What a client does of such a task. Imports what it takes."""
    if task == "check":
        from storlab.lab.site.check import check

        return check
    from storlab.lab.site.client_task import do_task

    return do_task


if __name__ == "__main__":
    rank.live(main)
