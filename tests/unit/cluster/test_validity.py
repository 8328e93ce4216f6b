"""Thresholds of client flags, tested on both sides, with the client's name."""

from __future__ import annotations

from typing import Any

import pytest

from storlab.base.units import NS_PER_MS
from storlab.cluster.validity import cluster_flags
from storlab.model.cluster import ClientRun, ClusterRun
from storlab.model.result import CpuUse, EngineInfo, RunOutcome
from storlab.workloads.common.metrics import machine_flags


def run(*changes: dict[str, Any], clients: int = 4, **whole: Any) -> ClusterRun:
    """Return a run of clients c1, c2, ... with one changed in turn."""
    made = []
    for number in range(1, clients + 1):
        given: dict[str, Any] = {
            "name": f"c{number}",
            "host": f"c{number}",
            "offset_ns": 10**12,
            "round_trip_ns": 1000,
            "drift_ns": 0,
            "first_io_late_ns": 0,
            "bytes_s": 100.0,
            "bytes_read": 1000,
        }
        made.append(ClientRun(**given | (changes[number - 1] if number <= len(changes) else {})))
    return ClusterRun(clients=made, **{"window_kept": 1.0, **whole})


def kinds(cluster: ClusterRun) -> dict[str, str]:
    return {flag.kind: flag.message for flag in cluster_flags(cluster)}


def test_a_run_without_fault_has_no_flag() -> None:
    assert kinds(run()) == {}
    assert kinds(run(clients=1)) == {}


@pytest.mark.parametrize(
    ("field", "good", "bad", "kind", "told"),
    [
        ("first_io_late_ns", 10 * NS_PER_MS, 10 * NS_PER_MS + 1, "late-start", "c1 (10"),
        ("drift_ns", NS_PER_MS, NS_PER_MS + 1, "clock-unsure", "c1 (1"),
        ("drift_ns", -NS_PER_MS, -NS_PER_MS - 1, "clock-unsure", "c1 (1"),
        ("round_trip_ns", 2 * NS_PER_MS, 2 * NS_PER_MS + 2, "clock-unsure", "c1 (1"),
        ("cpu_percent", 90.0, 90.1, "client-limit", "c1 (CPU 90 %)"),
        ("nic_busy_percent", 90.0, 90.1, "client-limit", "c1 (network 90 %)"),
        ("nic_received_bytes", 950, 949, "client-cache", "c1 (0.95)"),
        ("nic_received_bytes", 950, 0, "client-cache", "c1 (0.00)"),
    ],
)
def test_thresholds(field: str, good: float, bad: float, kind: str, told: str) -> None:
    assert kinds(run({field: good})) == {}
    found = kinds(run({field: bad}))
    assert list(found) == [kind]
    assert told in found[kind]


def test_a_slow_client_is_a_straggler() -> None:
    # The mean includes the client itself: 0.8 = x / ((3 * 100 + x) / 4)
    assert kinds(run({"bytes_s": 75.1})) == {}
    message = kinds(run({"bytes_s": 74.9}))["straggler"]
    assert message == "less than 0.8 of the mean rate: c1 (0.80)"
    assert "c1 (0.08)" in kinds(run({"bytes_s": 6.0}))["straggler"]


def test_where_no_bytes_are_moved_operations_are_the_share() -> None:
    """Check that shares use operations if no bytes are moved (HEAD, LIST, DELETE)."""
    idle = {"bytes_s": 0.0, "bytes_read": 0}
    rest = [idle | {"operations_s": 1000.0}] * 3
    assert kinds(run(idle | {"operations_s": 751.0}, *rest)) == {}
    message = kinds(run(idle | {"operations_s": 60.0}, *rest))["straggler"]
    assert message == "less than 0.8 of the mean rate: c1 (0.08)"
    few = [{"operations_s": 1000.0}] * 3
    assert kinds(run({"operations_s": 1.0}, *few)) == {}


def test_where_nothing_was_moved_nobody_is_slow() -> None:
    assert kinds(run(*[{"bytes_s": 0.0, "bytes_read": 0}] * 4)) == {}


def test_a_client_that_read_nothing_has_no_cache() -> None:
    assert kinds(run({"bytes_read": 0, "nic_received_bytes": 0})) == {}


def test_counters_that_see_nothing_on_any_client_prove_no_cache() -> None:
    """Check that kernel counters blind to DPDK or RDMA do not prove caching."""
    near = {"bytes": 1000, "bytes_read": 1000, "nic_received_bytes": 6, "nic_sent_bytes": 3}
    found = kinds(run(*[near] * 4))
    assert list(found) == ["network-unseen"]
    assert "less than 1 %" in found["network-unseen"]
    some = near | {"nic_received_bytes": 7}
    assert list(kinds(run(some, *[near] * 3))) == ["client-cache"]
    writes = near | {"bytes_read": 0}
    assert list(kinds(run(*[writes] * 4))) == ["network-unseen"]


def test_where_clients_may_cache_they_are_the_reason() -> None:
    near = {"bytes": 1000, "bytes_read": 1000, "nic_received_bytes": 0, "nic_sent_bytes": 0}
    cluster = run(*[near] * 4)
    assert [flag.kind for flag in cluster_flags(cluster, cached=True)] == ["client-cache"]


def test_clients_without_counters_are_not_unseen() -> None:
    unknown = {"bytes": 1000, "bytes_read": 1000, "nic_received_bytes": None}
    assert kinds(run(*[unknown] * 4)) == {}


def test_a_cut_window_names_who_cut_it() -> None:
    assert kinds(run({"window_share": 0.9}, window_kept=0.999)) == {}
    message = kinds(run({}, {"window_share": 0.9}, window_kept=0.9985))["window-cut"]
    assert "99.8%" in message or "99.9%" in message
    assert "c2" in message


def test_what_is_not_known_is_no_fault() -> None:
    unknown = {"first_io_late_ns": None, "cpu_percent": None, "nic_received_bytes": None}
    assert kinds(run(*[unknown] * 4)) == {}


def test_many_are_counted() -> None:
    late = {"first_io_late_ns": 20 * NS_PER_MS}
    message = kinds(run(*[late] * 12, clients=12))["late-start"]
    assert message.startswith("the first I/O started late on c1 (20")
    assert message.endswith("c5 (20 ms) and 7 more")
    busy = {"cpu_percent": 99.0}
    assert kinds(run(*[busy] * 7, clients=7))["client-limit"].endswith("and 2 more")


@pytest.mark.parametrize("clients", [1, 3])
def test_flags_of_several_clients_speak_of_no_one_machine(clients: int) -> None:
    busy = CpuUse(
        user_ns=0, system_ns=0, cores=8, machine_cores=8, machine_busy_percent=90.0,
        machine_steal_percent=20.0,
    )  # fmt: skip
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="1"),
        window_start_ns=0,
        window_end_ns=10**10,
        samples=[],
        totals={},
        cpu=busy,
        cluster=run(clients=clients),
    )
    flags = {flag.kind: flag.message for flag in machine_flags(outcome)}
    assert set(flags) == {"busy-machine", "starved"}
    one = clients == 1
    assert [("this machine" in message) for message in flags.values()] == [one, one]
