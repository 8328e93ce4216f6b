"""Test distribution over parallel processes: cluster tests in one, all others beside them.

A cluster campaign mostly waits, so other tests use the cores meanwhile. But it has the clocks and
timeouts of up to a dozen clients, so the other tests run at lower priority.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from support.mounts import separate_mounts

CLUSTERS = "tests/integration/cluster/"
GUEST = "tests/vm/"
# Niceness: a third of a cluster process's CPU time, and of other users' on a busy machine.
BEHIND = 5


class Lanes(LoadFileScheduling):
    """Scheduler that keeps a file, all cluster files, and all files of the guest in one process."""

    def _split_scope(self, nodeid: str) -> str:
        for folder in (CLUSTERS, GUEST):
            if nodeid.startswith(folder):
                return folder
        return str(super()._split_scope(nodeid))

    def _reschedule(self, node: WorkerController) -> None:
        """Assign files until the process has two tests pending.

        A process starts a test only when the next one is assigned. A replacement process gets none
        before it has reported its collection.
        """
        while (
            node in self.registered_collections
            and not node.shutting_down
            and self._pending_of(self.assigned_work[node]) <= 2
        ):
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test at which a process ended; the remaining tests go to other processes.

        xdist would hand out the crashing test again, which ends the next process too, and files
        without remaining tests, for which a process waits for ever.
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
    """Return the scheduler for ``--dist loadfile``."""
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_sessionstart() -> None:
    """Separate the mounts of parallel processes."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        separate_mounts()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put cluster tests first, because they take longest, and then those of the guest."""
    first = (CLUSTERS, GUEST)
    items.sort(key=lambda item: [not item.nodeid.startswith(folder) for folder in first])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Lower the priority of this process from its first test that is not a cluster test."""
    if "PYTEST_XDIST_WORKER" in os.environ and not item.nodeid.startswith(CLUSTERS):
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, max(BEHIND, nice))
