"""Which of several processes runs which tests: those of clusters in one, and the rest beside it.

A campaign on clients waits most of its time, and so would both cores if nothing ran beside it. But
its clocks and time-outs are those of up to a dozen clients: what runs beside lets it go first.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from support.mounts import separate_mounts

CLUSTERS = "tests/integration/cluster/"
BEHIND = 5  # niceness: a third of the time of a cluster's process, and of others' on a busy machine


class Lanes(LoadFileScheduling):
    """A file in one process, and all files of clusters in the same."""

    def _split_scope(self, nodeid: str) -> str:
        return CLUSTERS if nodeid.startswith(CLUSTERS) else str(super()._split_scope(nodeid))

    def _reschedule(self, node: WorkerController) -> None:
        """A process begins a test only when it knows the next one: it gets files until it does.

        One that takes the place of another gets none before it has told which tests it has.
        """
        while (
            node in self.registered_collections
            and not node.shutting_down
            and self._pending_of(self.assigned_work[node]) <= 2
        ):
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Of a process that has ended: the test it was at, which fails. The others get its rest.

        xdist hands out that test again, which ends the next process, too, and files of which
        nothing is left, for which a process waits for ever.
        """
        left = [
            test for file in self.assigned_work[node].values() for test in file if not file[test]
        ]
        self.assigned_work[node] = {}
        super().remove_node(node)
        for test in left[1:]:
            self.workqueue.setdefault(self._split_scope(test), {})[test] = False
        for other in self.assigned_work:
            self._reschedule(other)
        return left[0] if left else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes | None:
    """Of ``--dist loadfile``."""
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_sessionstart() -> None:
    """Keep the mounts of parallel processes apart."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        separate_mounts()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Clusters take longest: their process begins with them, whatever else it has time for."""
    items.sort(key=lambda item: not item.nodeid.startswith(CLUSTERS))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """This process and what it starts go behind clusters, from its first test that is none."""
    if "PYTEST_XDIST_WORKER" in os.environ and not item.nodeid.startswith(CLUSTERS):
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, max(BEHIND, nice))
