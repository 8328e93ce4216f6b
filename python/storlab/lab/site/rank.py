"""Main program of each rank of a cluster: rank 0 is the controller, the others are clients.

``storlab.lab.site.clients`` starts it as ``python -m storlab.lab.site.rank TASK``. A rank imports
only what its task needs, because a host may start hundreds of ranks. It imports before it joins the
other ranks: after that it must answer regularly, but imports from a slow file system may take
minutes.
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
    """Run this process as a rank of the cluster: as controller or as client."""
    do_task = _doer(sys.argv[1])
    link = rank.join()
    if link.is_controller:
        _keep_time(link)
    else:
        with suppress(ClientsSilent):  # rank 0 is gone, so nothing can be reported
            do_task(ClientEnd(link, StopRequest()))


def _keep_time(link: Link) -> None:
    from storlab.cluster.controller import Controller
    from storlab.cluster.task import Order

    # Raise the priority: clients here may use all cores, but the controller must not wait.
    with suppress(OSError):  # only root may raise its priority
        os.setpriority(os.PRIO_PROCESS, 0, AHEAD)
    if not Controller(link, Order.model_validate_json(read_order(link))).run():
        link.abort()


def _doer(task: str) -> Callable[[ClientEnd], None]:
    """Import what a task needs, and return the function that executes it on a client."""
    if task == "check":
        from storlab.lab.site.check import check

        return check
    from storlab.lab.site.client_task import do_task

    return do_task


if __name__ == "__main__":
    rank.live(main)
