"""The live view of all clients together."""

from __future__ import annotations

from dataclasses import asdict

from storlab.lab.site.merge import whole_snapshot
from support.run_records import SNAPSHOT


def test_clients_are_summed_and_their_latencies_put_together() -> None:
    slow = {**asdict(SNAPSHOT), "bytes_s": 1e6, "latency_bins": [[32, 10], [50, 1]]}
    clients = {"c1": asdict(SNAPSHOT), "c2": slow, "c3": {"phase": "prepare"}}
    whole = whole_snapshot({"phase": "load", "clients": clients})
    assert whole.bytes_s == SNAPSHOT.bytes_s + 1e6
    assert whole.note.startswith("slowest c3")
    assert whole.latency_bins == [[30, 1], [32, 100], [41, 9], [50, 1]]


def test_clients_whose_engine_tells_no_rates_have_none_together() -> None:
    silent = {"phase": "measure", "bytes_s": None, "elapsed_ns": 5, "cpu_percent": 40.0}
    whole = whole_snapshot({"phase": "load", "clients": {"c1": silent, "c2": silent}})
    assert (whole.bytes_s, whole.operations_s, whole.cpu_percent) == (None, None, 80.0)
    assert whole.note == "load"


def test_the_slowest_is_judged_by_operations_where_no_bytes_are_moved() -> None:
    clients = {
        name: {"phase": "measure", "bytes_s": 0.0, "operations_s": rate}
        for name, rate in (("c1", 2000.0), ("c2", 1500.0))
    }
    whole = whole_snapshot({"phase": "load", "clients": clients})
    assert whole.note == "slowest c2: 1,500 operations/s"


def test_who_has_done_its_share_moves_nothing_more() -> None:
    """Check that a finished client's last report stays until all have ended."""
    fast = {**asdict(SNAPSHOT), "bytes_s": 1e9, "elapsed_ns": 5, "ended": True}
    slow = {**asdict(SNAPSHOT), "bytes_s": 1e8, "elapsed_ns": 65, "latency_p99_ns": 7}
    clients = {"c1": fast, "c2": slow, "c3": {**slow, "bytes_s": 2e8}}
    whole = whole_snapshot({"phase": "load", "clients": clients})
    assert whole.bytes_s == 3e8
    assert whole.operations_s == 2 * SNAPSHOT.operations_s
    assert whole.latency_p99_ns == 7
    assert whole.cpu_percent == 2 * SNAPSHOT.cpu_percent
    assert whole.latency_bins == [[30, 2], [32, 180], [41, 18]]
    assert whole.note.startswith("slowest c2")
    over = whole_snapshot({"phase": "load", "clients": {"c1": fast, "c2": {**slow, "ended": True}}})
    assert (over.phase, over.elapsed_ns) == ("drain", 65)
    assert (over.bytes_s, over.cpu_percent, over.latency_bins) == (None, None, [])
