"""Ranks on separate hosts: namespaces with their own clocks and cables, both MPIs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need_mpi, need_root
from storlab.base.clock import monotonic_ns, sleep_s

cluster = pytest.importorskip("support.cluster", reason="the rig of hosts is not in this tree")

ROOT = Path(__file__).parents[3]
LAB = ROOT / "tests" / "support" / "cluster_transport_lab.py"
PATIENCE_NS = 120_000_000_000
GRACE_S = 3.0


@pytest.fixture(scope="module")
def rig() -> Iterator[Any]:
    need_root("nsenter", "ip")
    with cluster.ClusterRig(clients=4, servers=0, visible=(ROOT,)) as rig:
        yield rig


@pytest.fixture
def lab(rig: Any) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Provide a function that starts a lab on the controller."""
    labs = []

    def start_lab(vendor: str, interface: str | None, **asked: Any) -> subprocess.Popen[str]:
        asked |= {
            "mpiexec": str(need_mpi(vendor)),
            "agent": str(rig.agent),
            "interface": interface,
            "hosts": rig.hosts,
            "grace_s": GRACE_S,
        }
        words = rig.command(rig.controller, [sys.executable, LAB, json.dumps(asked)], cwd=ROOT)
        started = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        labs.append(started)
        return started

    yield start_lab
    for started in labs:
        started.kill()
        started.communicate()


def line(lab: subprocess.Popen[str]) -> Any:
    assert lab.stdout is not None
    return json.loads(lab.stdout.readline())


def let_end(lab: subprocess.Popen[str]) -> None:
    assert lab.stdin is not None
    lab.stdin.write("\n")
    lab.stdin.flush()


@pytest.mark.parametrize("interface", ["eth0", None])
@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_offsets_are_those_that_the_clocks_were_given(
    rig: Any, lab: Callable[..., Any], vendor: str, interface: str | None
) -> None:
    order = {"do": "offsets", "by_host": True}
    running = lab(vendor, interface, order=order, wait_for="result", wait_s=60)
    offsets = line(running)
    let_end(running)
    ended = line(running)
    assert offsets is not None, ended["printed"]
    assert list(offsets) == rig.hosts  # in study order: rank 1 is the first host
    for host, (offset_ns, round_trip_ns) in offsets.items():
        error_ns = abs(offset_ns - rig.clock_offset_ns(host))
        assert error_ns <= max(50_000, round_trip_ns / 2), host
    assert ended["code"] == 0, ended["printed"]


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_a_pulled_cable_does_not_keep_the_lab(
    rig: Any, lab: Callable[..., Any], vendor: str
) -> None:
    """Check that the lab ends although Open MPI's mpiexec ignores SIGTERM without a network."""
    running = lab(vendor, "eth0", order={"do": "sleep"}, wait_for="told", wait_s=1)
    told = line(running)
    rig.link("c2", up=False)
    try:
        let_end(running)
        ended = line(running)
    finally:
        rig.link("c2", up=True)
    assert told is not None, ended["printed"]
    assert ended["code"] not in (None, 0)
    deadline_ns = monotonic_ns() + PATIENCE_NS
    while left := [host for host in rig.hosts if rig.pids(host)]:
        assert monotonic_ns() < deadline_ns, left
        sleep_s(0.05)


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_a_killed_lab_leaves_no_rank_on_any_host(
    rig: Any, lab: Callable[..., Any], vendor: str
) -> None:
    running = lab(vendor, "eth0", order={"do": "sleep"}, wait_for="told", wait_s=1)
    assert line(running) is not None
    assert all(rig.pids(host) for host in rig.hosts)
    running.kill()
    deadline_ns = monotonic_ns() + PATIENCE_NS
    while left := [host for host in rig.hosts if rig.pids(host)]:
        assert monotonic_ns() < deadline_ns, left
        sleep_s(0.05)
