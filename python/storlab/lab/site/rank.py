"""What every rank of a cluster runs: rank 0 keeps time, the others are sites of one client each.

Started as ``python -m storlab.lab.site.rank`` by ``storlab.lab.site.clients``. A rank imports what
its own task needs: a host that starts hundreds of them has to read all of it.
"""

from __future__ import annotations

import os
from contextlib import suppress

from storlab.cluster import rank
from storlab.cluster.link import ClientsSilent, Link
from storlab.cluster.order import read_order

AHEAD = -5


def main() -> None:
    """This process as a rank."""
    link = rank.join()
    if link.is_controller:
        _keep_time(link)
    else:
        with suppress(ClientsSilent):  # rank 0 has gone: there is nobody to tell
            _do_task(link)


def _keep_time(link: Link) -> None:
    from storlab.cluster.controller import Controller
    from storlab.cluster.task import Order

    # Clients of this machine may take every core of it; whoever keeps time must not wait for one.
    with suppress(OSError):  # only root may
        os.setpriority(os.PRIO_PROCESS, 0, AHEAD)
    if not Controller(link, Order.model_validate_json(read_order(link))).run():
        link.abort()


def _do_task(link: Link) -> None:
    from storlab.cluster.client import ClientEnd
    from storlab.process.execution import StopRequest

    end = ClientEnd(link, StopRequest())
    if end.order.task == "check":
        from storlab.lab.site.check import check

        check(end)
    else:
        from storlab.lab.site.client_task import do_task

        do_task(end)


if __name__ == "__main__":
    main()
