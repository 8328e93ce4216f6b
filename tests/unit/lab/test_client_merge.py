"""Merged outcomes of clients, with facts about each."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from storlab import _native
from storlab.base.units import NS_PER_MS, NS_PER_S
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import ClientPlace
from storlab.cluster.validity import cluster_flags
from storlab.contracts.details import Details
from storlab.lab.site.client_report import ClientReport, NicBytes
from storlab.lab.site.merge import Client, merge
from storlab.model.latencies import latencies_of
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    Failure,
    OperationTotals,
    RunOutcome,
    Sample,
    VerifyReport,
    sample_row,
)
from storlab.model.samples import summarise_latency
from storlab.model.target import Target
from storlab.workloads.common.proof import medium_proof

ENGINE = EngineInfo(name="native", version="1")


def histogram(*values: int) -> bytes:
    made = _native.Histogram()
    for value in values:
        made.record(value)
    return made.to_v2()


def client(
    name: str,
    *latencies: int,
    start_ns: int = 100 * NS_PER_S,
    offset_ns: int = 0,
    drift_ns: int = 0,
    seconds: int = 3,
    operation: str = "read",
    report: dict[str, Any] | None = None,
    **outcome: Any,
) -> Client:
    """Return a client with equal I/O every second, from ``start_ns`` on the controller's clock."""
    begin = start_ns + offset_ns
    samples = [
        Sample(
            number,
            begin + number * NS_PER_S,
            begin + (number + 1) * NS_PER_S,
            operation,
            len(latencies),
            4096 * len(latencies),
            histogram(*latencies),
            worker_cpu_ns=7,
        )
        for number in range(seconds)
    ]
    totals = OperationTotals(
        operations=seconds * len(latencies),
        bytes=4096 * seconds * len(latencies),
        latency=summarise_latency(histogram(*latencies * seconds)),
        late_operations=1,
        errors={"EIO": 2},
    )
    cpu = CpuUse(user_ns=3, system_ns=4, cores=2, worker_ns=5, machine_busy_percent=40.0)
    given: dict[str, Any] = {
        "status": "finished",
        "engine": ENGINE,
        "window_start_ns": begin,
        "window_end_ns": begin + seconds * NS_PER_S,
        "samples": samples,
        "totals": {operation: totals},
        "cpu": cpu,
        "first_io_late_ns": 1000,
    }
    return Client(
        ClientPlace(name=name, host=f"host-{name}", rank=1),
        ClientReport(outcome=RunOutcome(**given | outcome), **report or {}),
        ClockOffset(offset_ns, 2000),
        ClockOffset(offset_ns + drift_ns, 3000),
    )


def merged(*clients: Client, planned_s: int | None = 3, divided: bool | None = None) -> RunOutcome:
    """Return the merged outcome of clients; without a planned length the work is divided."""
    planned_ns = None if planned_s is None else planned_s * NS_PER_S
    divided = planned_s is None if divided is None else divided
    return merge(clients, NS_PER_S, planned_ns, "block", divided=divided)


def test_the_sum_is_equal_to_its_parts() -> None:
    whole = merged(
        client("a", 1000, 2000),
        client("b", 3000, offset_ns=10**12),
        client("c", 4000, operation="write"),
    )
    assert whole.totals["read"].operations == 9
    assert whole.totals["read"].bytes == 9 * 4096
    assert whole.totals["write"].operations == 3
    assert (whole.totals["read"].late_operations, whole.totals["read"].errors) == (2, {"EIO": 4})
    reads = [sample for sample in whole.samples if sample.operation == "read"]
    assert [sample.latency for sample in reads] == [histogram(1000, 2000, 3000)] * 3
    latency = whole.totals["read"].latency
    assert latency is not None
    assert latency.count == 9
    assert (whole.status, whole.engine) == ("finished", ENGINE)


def counted(read_bytes: int, inside_ns: int, over_ns: int = 3_100_000_000) -> dict[str, int]:
    """Return bytes read at a constant rate of ``read_bytes`` per second."""
    return {
        "read_bytes": read_bytes * over_ns // NS_PER_S,
        "written_bytes": 0,
        "over_ns": over_ns,
        "inside_read_bytes": read_bytes * inside_ns // NS_PER_S,
        "inside_written_bytes": 0,
        "inside_ns": inside_ns,
    }


@pytest.mark.parametrize("counter", ["process", "device"])
def test_counters_of_clients_are_summed_as_rates(counter: str) -> None:
    """Check that counters read at different moments are added as rates."""
    names = {"devices": ["vda"]} if counter == "device" else {}
    whole = merged(
        client("a", 1000, details={counter: {**counted(1000, 2 * NS_PER_S), **names}}),
        client("b", 1000, details={counter: {**counted(4000, NS_PER_S), **names}}),
    )
    found = whole.details[counter]
    assert found["read_bytes"] == 3100 + 12_400
    assert (found["over_ns"], found["inside_ns"]) == (3_100_000_000, NS_PER_S)
    assert found["inside_read_bytes"] == 5000
    if names:
        assert found["devices"] == ["host-a:vda", "host-b:vda"]


@pytest.mark.parametrize("name", ["process", "device", "medium"])
def test_what_one_client_did_not_count_is_not_known_of_all(name: str) -> None:
    known = {"medium": {"memory": []}}.get(name, counted(1000, NS_PER_S) | {"devices": []})
    whole = merged(client("a", 1000, details={name: known}), client("b", 1000))
    assert whole.details[name] is None


def test_proof_of_a_cluster_is_that_of_its_weakest_client() -> None:
    layers = ("memory", "cached", "unknown", "holes", "blank")
    clean: dict[str, list[str]] = {name: [] for name in layers}

    def proof(*clients: tuple[dict[str, list[str]], int]) -> tuple[str, int]:
        """Return clients that read 4,096 B/s each, with lower layers and the kernel's B/s."""
        whole = merged(
            *(
                client(
                    f"c{n}", 1, details={"medium": below, "process": counted(rate, 3 * NS_PER_S)}
                )
                for n, (below, rate) in enumerate(clients)
            )
        )
        found = medium_proof(Target(name="t", path="/d/f"), whole)
        assert found is not None
        return found.state, len(found.reasons)

    unclear = clean | {"cached": ["/dev/loop0 goes through the page cache"]}
    in_memory = clean | {"memory": ["/d lies in tmpfs"]}
    assert proof((clean, 4096), (clean, 4096)) == ("proven", 0)
    assert proof((clean, 4096), (unclear, 4096)) == ("unproven", 1)
    assert proof((unclear, 4096), (unclear, 4096)) == ("unproven", 1), "each clause once"
    assert proof((unclear, 4096), (in_memory, 0)) == ("contradicted", 2)
    assert proof((clean, 4096), (clean, 0)) == ("contradicted", 1)


def test_operations_in_flight_at_the_end_are_those_of_all_clients() -> None:
    def cut(name: str, number: int, longest_ns: int) -> Client:
        one = client(name, 1000)
        apart = {"unfinished_operations": number, "unfinished_longest_ns": longest_ns}
        read = one.outcome.totals["read"].model_copy(update=apart)
        one.outcome.totals["read"] = read
        return one

    read = merged(cut("a", 4, 9000), cut("b", 2, 70_000), client("c", 1000)).totals["read"]
    assert (read.unfinished_operations, read.unfinished_longest_ns) == (6, 70_000)
    assert read.operations == 9


def test_the_window_is_what_all_have_in_common() -> None:
    late = client("b", 1000, start_ns=100 * NS_PER_S + 30 * NS_PER_MS, offset_ns=-(10**10))
    whole = merged(client("a", 1000), late)
    assert whole.window_start_ns == 100 * NS_PER_S + 30 * NS_PER_MS
    assert whole.window_end_ns == 103 * NS_PER_S
    assert whole.cluster is not None
    assert whole.cluster.window_kept == pytest.approx(0.99)
    assert [c.window_share for c in whole.cluster.clients] == [pytest.approx(0.99)] * 2


def test_cpu_times_are_summed_and_shares_are_the_largest() -> None:
    busy = CpuUse(user_ns=30, system_ns=40, cores=4, worker_ns=None, machine_busy_percent=90.0)
    cpu = merged(client("a", 1), client("b", 1)).cpu
    assert cpu is not None
    assert (cpu.user_ns, cpu.system_ns, cpu.cores, cpu.worker_ns) == (6, 8, 4, 10)
    cpu = merged(client("a", 1), client("b", 1, cpu=busy)).cpu
    assert cpu is not None
    assert (cpu.cores, cpu.worker_ns, cpu.machine_busy_percent) == (6, None, 90.0)
    assert merged(client("a", 1), client("b", 1, cpu=None)).cpu is None


def test_cores_that_clients_share_are_counted_once() -> None:
    """Check that clients on one machine do not multiply its cores."""
    use = CpuUse(user_ns=3, system_ns=4, cores=2, worker_ns=5, machine_cores=2)
    local = [client(name, 1, cpu=use) for name in "abc"]
    local = [replace(c, place=c.place.model_copy(update={"host": "localhost"})) for c in local]
    cpu = merged(*local).cpu
    assert cpu is not None
    assert (cpu.cores, cpu.machine_cores, cpu.worker_ns) == (2, 2, 15)
    apart = merged(*local, client("d", 1, cpu=use)).cpu
    assert apart is not None
    assert (apart.cores, apart.machine_cores) == (4, 4)


def test_what_the_engine_wrote_on_each_client_is_kept() -> None:
    raw = {"fio.json": b"{}", "command.txt": b"fio"}
    whole = merged(client("a", 1, raw=raw), client("b", 1, raw={"fio.json": b"{1}"}))
    names = ["a/command.txt", "a/fio.json", "b/fio.json", "clients.parquet"]
    assert sorted(whole.raw) == names
    assert whole.raw["b/fio.json"] == b"{1}"


def test_what_each_client_did_is_kept() -> None:
    nics = {"nic_bytes": NicBytes(50, 375_000_000, 3 * 10**9), "nic_speeds": [10**9], "armed_ns": 9}
    whole = merged(
        client("a", 1000, 3000, offset_ns=5, drift_ns=-2, report=nics),
        client("b", 1000, operation="write", first_io_late_ns=4000),
    )
    assert whole.cluster is not None
    a, b = whole.cluster.clients
    assert (a.name, a.host, a.offset_ns, a.drift_ns, a.round_trip_ns) == (
        "a",
        "host-a",
        5,
        -2,
        3000,
    )
    assert (a.operations, a.bytes, a.bytes_read) == (6, 6 * 4096, 6 * 4096)
    assert (a.bytes_s, a.operations_s, a.latency_mean_ns) == (
        2 * 4096,
        2,
        pytest.approx(2000, 1e-3),
    )
    assert (a.nic_received_bytes, a.nic_sent_bytes, a.armed_ns) == (50, 375_000_000, 9)
    assert a.nic_busy_percent == pytest.approx(100.0)
    assert (b.bytes_read, b.nic_received_bytes, b.nic_busy_percent) == (0, None, None)
    assert whole.cluster.start_skew_ns == 3000
    assert not whole.cluster.nics_seen
    assert whole.first_io_late_ns == 4000


def test_a_client_that_trims_moves_no_bytes() -> None:
    whole = merged(client("a", 1000, operation="trim"), client("b", 1000))
    assert whole.cluster is not None
    trims, reads = whole.cluster.clients
    assert (trims.operations, trims.bytes, trims.bytes_s) == (3, 0, 0)
    assert (reads.operations, reads.bytes, reads.bytes_s) == (3, 3 * 4096, 4096)


def test_flushes_are_in_no_rate_of_a_client() -> None:
    reads = client("a", 1000).report.outcome
    assert reads is not None
    slow = summarise_latency(histogram(9_000_000))
    flushes = OperationTotals(operations=50, bytes=0, latency=slow)
    whole = merged(client("a", 1000, totals={**reads.totals, "sync": flushes}))
    assert whole.cluster is not None
    (single,) = whole.cluster.clients
    assert (single.operations, single.operations_s) == (3, 1)
    assert single.latency_mean_ns == pytest.approx(1000, 1e-3)
    assert single.latency_p99_ns == pytest.approx(1000, 1e-3)


def test_without_the_speed_of_a_nic_nobody_knows_how_busy_it_was() -> None:
    nics = {"nic_bytes": NicBytes(50, 50, 10**9), "nic_speeds": [10**9, None]}
    whole = merged(client("a", 1, report=nics))
    assert whole.cluster is not None
    assert whole.cluster.clients[0].nic_busy_percent is None
    assert whole.cluster.nics_seen


def test_a_start_that_was_not_told_gives_no_skew() -> None:
    whole = merged(client("a", 1), client("b", 1, first_io_late_ns=None))
    assert whole.cluster is not None
    assert whole.cluster.start_skew_ns is None


def test_a_failure_names_its_client() -> None:
    failure = Failure(message="No space left", errno=28, path="/x")
    whole = merged(
        client("a", 1),
        client("b", 1, status="failed", failure=failure),
        client("c", 1, status="failed", failure=failure),
    )
    assert whole.status == "failed"
    assert whole.failure is not None
    assert whole.failure.message == "b: No space left (and 1 more clients)"
    assert (whole.failure.errno, whole.failure.path) == (28, "/x")
    assert merged(client("a", 1), client("b", 1, status="cancelled")).status == "cancelled"


def test_what_all_say_is_said_once() -> None:
    notes = ["posix threads", "mine"]
    whole = merged(client("a", 1, notes=notes), client("b", 1, notes=["posix threads"]))
    assert whole.notes == ["posix threads", "a: mine"]


def test_findings_of_verification_are_added() -> None:
    report = VerifyReport(checked_blocks=5, bad_blocks={"lost": 1}, examples=[])
    whole = merged(client("a", 1, verify=report), client("b", 1, verify=report))
    assert whole.verify is not None
    assert (whole.verify.checked_blocks, whole.verify.bad_blocks) == (10, {"lost": 2})


def test_bytes_of_devices_are_those_of_all() -> None:
    device = {"device": {"read_bytes": 5, "written_bytes": 1, "devices": ["sda"]}}
    whole = merged(client("a", 1, details=device), client("b", 1, details=device))
    assert whole.details["device"]["read_bytes"] == 10
    assert whole.details["device"]["devices"] == ["host-a:sda", "host-b:sda"]
    assert merged(client("a", 1, details=device), client("b", 1)).details["device"] is None


def test_samples_of_each_client_are_kept_on_one_clock() -> None:
    whole = merged(client("a", 1, offset_ns=10**12), client("b", 1, offset_ns=-(10**9)))
    rows = pq.read_table(io.BytesIO(whole.raw["clients.parquet"])).to_pylist()
    assert [row["client"] for row in rows] == ["a"] * 3 + ["b"] * 3
    assert {row["start_ns"] for row in rows} == {(100 + n) * NS_PER_S for n in range(3)}


def test_no_client_is_no_run() -> None:
    with pytest.raises((ValueError, IndexError)):
        merged()


def test_windows_that_have_nothing_in_common() -> None:
    whole = merged(client("a", 1), client("b", 1, start_ns=200 * NS_PER_S))
    assert whole.cluster is not None
    assert whole.cluster.window_kept == 0
    assert whole.samples == []


def outcome_of(report: ClientReport) -> RunOutcome:
    assert report.outcome is not None
    return report.outcome


def test_a_report_travels_as_it_is() -> None:
    report = client("a", 1000, report={"notes": ["x"]}).report
    rows = [sample_row(sample) for sample in outcome_of(report).samples]
    there = ClientReport.unpack(report.pack())
    assert outcome_of(there).samples == [], "they are a part of their own"
    assert there.take_rows() == rows == report.take_rows()
    assert there == replace(report, outcome=replace(outcome_of(report), samples=[]))
    assert ClientReport.unpack(ClientReport(notes=["y"]).pack()) == ClientReport(notes=["y"])


def test_a_report_that_has_travelled_is_merged_as_one_that_has_not() -> None:
    def given(*, travelled: bool, planned_s: int | None) -> RunOutcome:
        clients = [client("a", 1000, 5000, seconds=2), client("b", 70_000, offset_ns=10**9)]
        for each in clients if travelled else []:
            samples = each.outcome.samples
            each.report.latencies = latencies_of(sample.latency for sample in samples)
            object.__setattr__(each, "report", ClientReport.unpack(each.report.pack()))
        return merged(*clients, planned_s=planned_s)

    for planned_s in (2, None):
        here = given(travelled=False, planned_s=planned_s)
        assert given(travelled=True, planned_s=planned_s) == here


def test_damaged_rows_are_said_to_be_damaged() -> None:
    there = ClientReport.unpack(client("a", 1000).report.pack())
    there.rows = there.rows[:-3]
    with pytest.raises(ValueError, match="damaged"):
        there.take_rows()


@pytest.mark.parametrize("content", [b"", b"not compressed", ClientReport().pack()[:-3]])
def test_a_damaged_report_is_said_to_be_damaged(content: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        ClientReport.unpack(content)


def test_fixed_work_ends_with_the_last_client_and_the_first_is_told_beside_it() -> None:
    """Check the end times of first and last client with clocks that differ by hours."""
    short = client("a", 1000, seconds=2, offset_ns=10**13)
    long = client("b", 1000, 2000, seconds=4, start_ns=100 * NS_PER_S + NS_PER_S // 2)
    whole = merged(short, long, planned_s=None).cluster
    assert whole is not None
    assert [c.done_ns for c in whole.clients] == [2 * NS_PER_S, 4 * NS_PER_S + NS_PER_S // 2]
    # Two operations of one client in 2 s, and three of the other in its 1.5 s.
    assert whole.bytes_s_till_first_done == pytest.approx((2 + 3) * 4096 / 2)


def test_windows_that_end_by_their_bytes_are_held_against_the_longest() -> None:
    """Check that windows that end by bytes are not compared with the study's runtime."""
    together = merged(client("a", 1000), client("b", 1000), planned_s=None, divided=False).cluster
    assert together is not None
    assert together.window_kept == 1.0
    assert not together.divided
    assert [run.done_ns for run in together.clients] == [None, None]
    assert cluster_flags(together, cached=True) == []
    slower = client("b", 1000, seconds=4)
    apart = merged(client("a", 1000), slower, planned_s=None, divided=False)
    assert apart.cluster is not None
    assert apart.cluster.window_kept == 0.75
    assert apart.totals["read"].operations == 6
    assert [f.kind for f in cluster_flags(apart.cluster, cached=True)] == ["window-cut"]


def test_without_fixed_work_or_others_nothing_is_done_first() -> None:
    timed = merged(client("a", 1000), client("b", 1000)).cluster
    assert timed is not None
    assert [c.done_ns for c in timed.clients] == [None, None]
    assert timed.bytes_s_till_first_done is None
    alone = merged(client("a", 1000), planned_s=None).cluster
    assert alone is not None
    assert alone.clients[0].done_ns == 3 * NS_PER_S
    assert alone.bytes_s_till_first_done is None


def test_a_stand_in_on_any_client_is_one_of_the_whole() -> None:
    real, unreal = {"stand_ins": []}, {"stand_ins": ["no driver on host-b"]}
    whole = merged(client("a", 1, details=real), client("b", 1, details=unreal))
    assert whole.details["stand_ins"] == ["no driver on host-b"]
    assert not merged(client("a", 1, details=real), client("b", 1)).details["stand_ins"]


def test_the_drives_of_all_clients_are_kept_with_their_clients_names() -> None:
    health = [{"drive": "nvme0n1", "before": {"throttles": 1}, "after": {"throttles": 2}}]
    whole = merged(client("a", 1, details={"health": health}), client("b", 1, details={}))
    (drive,) = Details.of(whole).health
    assert (drive.drive, drive.grown("throttles")) == ("a: nvme0n1", 1)
    assert "health" not in merged(client("a", 1), client("b", 1)).details
