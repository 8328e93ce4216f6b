"""Fixture of a cluster with six clients, started once per test file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from conftest import need_cluster
from support.cluster import ClusterRig


@pytest.fixture(scope="module")
def rig() -> Iterator[ClusterRig]:
    need_cluster()
    began = time.monotonic()
    with ClusterRig(clients=6, servers=3) as rig:
        sys.stdout.write(f"6 clients and 3 storage hosts up in {time.monotonic() - began:.1f} s\n")
        yield rig
        ending = time.monotonic()
    sys.stdout.write(f"and down in {time.monotonic() - ending:.1f} s\n")
