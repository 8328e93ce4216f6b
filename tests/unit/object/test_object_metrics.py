"""Metrics and flags of object runs: failed requests are in no other figure."""

from __future__ import annotations

from typing import Any

import pytest

from storlab._native import Histogram
from storlab.base.units import NS_PER_S
from storlab.contracts.registry import FAMILIES
from storlab.lab.study.file import parse_study
from storlab.model.point import Point
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    Flag,
    LatencySummary,
    Operation,
    OperationTotals,
    RunOutcome,
    Sample,
)
from storlab.model.study import Target

OBJECT = FAMILIES["object"]
TARGET = Target(name="t", s3="https://store.example/bucket")
MIB = 1 << 20
MIXED = "get_percent = 75\nconcurrency = 6"


def point(lines: str = MIXED) -> Point:
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\ns3 = "https://store.example/bucket"\n'
        f'[[workload]]\nkind = "object"\n{lines}'
    )
    (params,) = study.workload[0].values()
    return Point(
        target="t", workload="w", workload_index=0, kind="object", engine="native", params=params
    )


def histogram(value_ns: int, count: int) -> bytes:
    made = Histogram()
    for _ in range(count):
        made.record(value_ns)
    return made.to_v2()


def summary(count: int, mean_ns: float) -> LatencySummary:
    names = ("min", "p50", "p90", "p99", "p999", "p9999", "max")
    same: dict[str, Any] = {f"{name}_ns": int(mean_ns) for name in names}
    return LatencySummary(count=count, mean_ns=mean_ns, **same)


def totals(count: int, mean_ns: float, moved: int = 0, **errors: int) -> OperationTotals:
    return OperationTotals(
        operations=count,
        bytes=moved,
        latency=summary(count, mean_ns) if count else None,
        errors={kind.replace("_", " "): n for kind, n in errors.items()},
    )


def outcome(**changes: Any) -> RunOutcome:
    """Return 2 s of 600 GETs and 200 PUTs of 1 MiB, at 10 and 30 ms: six in flight."""
    samples = [
        Sample(
            i,
            i * NS_PER_S,
            (i + 1) * NS_PER_S,
            op,
            n,
            n * MIB,
            histogram(latency_ns, n),
            ttfb=histogram(first_ns, n) if first_ns else None,
        )
        for i in range(2)
        for op, n, latency_ns, first_ns in (
            ("get", 300, 10_000_000, 4_000_000),
            ("put", 100, 30_000_000, 0),
        )
    ]
    every: dict[Operation, OperationTotals] = {
        "get": totals(600, 1e7, 600 * MIB),
        "put": totals(200, 3e7, 200 * MIB),
    }
    made = RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="1"),
        window_start_ns=0,
        window_end_ns=2 * NS_PER_S,
        samples=samples,
        totals=every,
        cpu=CpuUse(user_ns=300_000_000, system_ns=100_000_000, cores=2),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def metrics(result: RunOutcome, lines: str = MIXED) -> dict[tuple[str, str], float]:
    found = OBJECT.metrics(point(lines), result)
    assert len({(m.name, m.operation) for m in found}) == len(found)
    return {(m.name, m.operation): m.value for m in found}


def flags(lines: str = MIXED, target: Target = TARGET, **changes: Any) -> dict[str, Flag]:
    found = OBJECT.flags(point(lines), target, outcome(**changes))
    assert len({f.kind for f in found}) == len(found)
    return {f.kind: f for f in found}


def test_rates_are_of_gets_and_puts_and_of_both() -> None:
    found = metrics(outcome())
    assert found["requests_s", "get"] == 300
    assert found["requests_s", "put"] == 100
    assert found["requests_s", "all"] == 400
    assert found["throughput_mb_s", "get"] == pytest.approx(300 * MIB / 1e6)
    assert found["throughput_mb_s", "all"] == pytest.approx(400 * MIB / 1e6)
    assert ("iops", "all") not in found


def test_first_byte_is_of_gets_alone() -> None:
    found = metrics(outcome())
    assert found["ttfb_p50_ns", "get"] == pytest.approx(4e6, rel=1e-3)
    assert found["ttfb_mean_ns", "get"] == pytest.approx(4e6, rel=1e-3)
    assert {op for name, op in found if name.startswith("ttfb")} == {"get"}
    strange = outcome()
    strange.samples = [Sample(0, 0, NS_PER_S, "put", 1, 1, histogram(9, 1), ttfb=histogram(5, 1))]
    assert not [key for key in metrics(strange) if key[0].startswith("ttfb")]


def test_latencies_are_of_merged_histograms() -> None:
    found = metrics(outcome())
    assert found["latency_p50_ns", "all"] == pytest.approx(1e7, rel=1e-3)
    assert found["latency_p99_ns", "all"] == pytest.approx(3e7, rel=1e-3)
    assert found["latency_mean_ns", "all"] == pytest.approx(1.5e7, rel=1e-3)


def test_cpu_is_given_per_request_and_per_gigabyte_for_both_sides() -> None:
    server = CpuUse(user_ns=500_000_000, system_ns=500_000_000, cores=2)
    found = metrics(outcome(server_cpu=server))
    assert found["cpu_us_per_request", "all"] == pytest.approx(400_000 / 800)
    assert found["cpu_s_per_gb", "all"] == pytest.approx(0.4 / (800 * MIB / 1e9))
    assert found["server_cpu_s_per_gb", "all"] == pytest.approx(1.0 / (800 * MIB / 1e9))
    assert ("server_cpu_s_per_gb", "all") not in metrics(outcome())
    nothing = outcome(totals={"head": totals(10, 1e6)})
    assert ("cpu_s_per_gb", "all") not in metrics(nothing)


def failing() -> dict[Operation, OperationTotals]:
    return {
        "get": totals(600, 1e7, 600 * MIB, time_out=3),
        "put": totals(200, 3e7, 200 * MIB, SlowDown=12, connection_reset=1),
        "list": totals(0, 0),
    }


def test_what_failed_is_counted_and_is_in_no_rate() -> None:
    found = metrics(outcome(totals=failing()))
    clean = metrics(outcome())
    assert {k: v for k, v in found.items() if not k[0].startswith("error")} == {
        k: v for k, v in clean.items() if not k[0].startswith("error")
    }
    assert (found["errors", "get"], found["errors", "put"], found["errors", "all"]) == (3, 13, 16)
    assert found["error_percent", "put"] == pytest.approx(100 * 13 / 213)
    assert found["error_percent", "all"] == pytest.approx(100 * 16 / 816)
    assert (clean["errors", "all"], clean["error_percent", "all"]) == (0, 0)
    assert ("errors", "list") not in found


def test_errors_are_flagged_by_kind_with_their_share() -> None:
    assert "errors" not in flags()
    message = flags(totals=failing())["errors"].message
    assert message == (
        "16 of 816 requests failed (2 %): 12 SlowDown, 3 time out, 1 connection reset"
    )
    retried = flags(f"{MIXED}\nretries = 3", totals=failing())["errors"].message
    assert retried.startswith("16 of 816 attempts failed")
    many: dict[Operation, OperationTotals] = {
        "get": totals(0, 0, **{f"E{n}": 9 - n for n in range(8)})
    }
    message = flags("", totals=many, samples=[])["errors"].message
    assert (
        message
        == "44 of 44 requests failed (100 %): 9 E0, 8 E1, 7 E2, 6 E3, 5 E4, 9 of other kinds"
    )


def test_a_run_in_which_everything_failed_has_errors_and_no_latency() -> None:
    none = outcome(totals={"get": totals(0, 0, time_out=7)}, samples=[])
    found = metrics(none)
    assert (found["errors", "all"], found["error_percent", "get"]) == (7, 100)
    assert found["requests_s", "all"] == 0
    assert not [name for name, _ in found if name.startswith("latency")]


def test_a_wrong_body_is_flagged_as_such() -> None:
    assert "verify-failed" not in flags(totals=failing())
    bad: dict[Operation, OperationTotals] = {
        "get": totals(98, 1e7, 98 * MIB, wrong_body=1, short_body=1),
        "put": totals(33, 1e7),
    }
    message = flags(totals=bad)["verify-failed"].message
    assert message == "some of 100 GETs returned other data than had been written: 1 wrong body"
    named = {"error_examples": {"wrong body": "get of pool-1/0000/00000007: at 4096"}}
    message = flags(totals=bad, details=named)["verify-failed"].message
    assert message.endswith("1 wrong body; get of pool-1/0000/00000007: at 4096")


def test_a_body_that_ended_with_its_connection_is_an_error_and_no_damage() -> None:
    cut: dict[Operation, OperationTotals] = {
        "get": totals(97, 1e7, 97 * MIB, short_body=1, connection_closed=2)
    }
    found = flags(totals=cut)
    assert "1 short body" in found["errors"].message
    assert "verify-failed" not in found


def test_an_empty_window_has_no_metrics() -> None:
    assert metrics(outcome(window_end_ns=0)) == {}
    assert OBJECT.concurrency(point(), outcome(window_end_ns=0)).implied is None


def test_concurrency_follows_from_littles_law() -> None:
    concurrency = OBJECT.concurrency(point(), outcome())
    assert concurrency.configured == 6
    assert concurrency.implied == pytest.approx(6)
    lanes = OBJECT.concurrency(point("concurrency_per_operation = { get = 4, put = 5 }"), outcome())
    assert lanes.configured == 9
    assert metrics(outcome())["concurrency_effective", "all"] == pytest.approx(6)


@pytest.mark.parametrize(("concurrency", "flagged"), [(6, False), (7, True), (5, True)])
def test_a_run_is_flagged_when_concurrency_is_off(concurrency: int, flagged: bool) -> None:
    found = flags(f"get_percent = 75\nconcurrency = {concurrency}")
    assert ("concurrency-mismatch" in found) == flagged
    assert not any("failed" in flag.message for flag in found.values())


def test_where_requests_failed_the_mismatch_says_that_they_are_missing() -> None:
    found = flags("get_percent = 75\nconcurrency = 9", totals=failing())
    assert "failed requests are not included" in found["concurrency-mismatch"].message


def test_an_open_loop_is_judged_by_its_rate_and_not_by_concurrency() -> None:
    open_loop = "get_percent = 75\nconcurrency = 4\nrate_requests"
    assert "concurrency-mismatch" not in flags(f"{open_loop} = 400")
    assert "open-loop-behind" not in flags(f"{open_loop} = 400")
    assert "open-loop-behind" in flags(f"{open_loop} = 500")
    poisson = f'arrival = "poisson"\n{open_loop}'  # 800 in 2 s are 3 sigma below 437 per second
    assert "open-loop-behind" not in flags(f"{poisson} = 437")
    assert "open-loop-behind" in flags(f"{poisson} = 460")


def test_what_is_in_flight_at_the_end_of_a_short_window_is_not_behind() -> None:
    lines = "get_percent = 75\nrate_requests = 400\nconcurrency"  # 800 are due, and 1 % is 8

    def late(operations: int, puts: int = 200) -> dict[str, OperationTotals]:
        gets = totals(600, 1e7).model_copy(update={"late_operations": operations})
        return {"get": gets, "put": totals(puts, 3e7)}

    assert "open-loop-behind" not in flags(f"{lines} = 16", totals=late(24, 176))
    assert "open-loop-behind" in flags(f"{lines} = 16", totals=late(24, 175))
    assert "open-loop-behind" in flags(f"{lines} = 16", totals=late(25, 176))
    message = flags(f"{lines} = 16", totals=late(25, 176))["open-loop-behind"].message
    assert message.startswith(
        "388 of 400 operations per second were completed, and 25 that were due"
    )
    message = flags(f"{lines} = 16", totals=late(25, 201))["open-loop-behind"].message
    assert message == "25 that were due in the window of 2 s ended after it"


@pytest.mark.parametrize(
    ("lines", "gets", "puts", "off"),
    [
        # 10,000 requests, half of them GETs: 4 sigma are 200, and 6 are in flight.
        ("get_percent = 50\nconcurrency = 6", 5_205, 4_795, False),
        ("get_percent = 50\nconcurrency = 6", 5_210, 4_790, True),
        ("get_percent = 50\nconcurrency = 6", 4_790, 5_210, True),
        ("get_percent = 100\nconcurrency = 6", 9_999, 1, True),
        ("concurrency_per_operation = { get = 3, put = 3 }", 9_000, 1_000, False),
    ],
)
def test_a_mix_that_chance_does_not_explain_is_flagged(
    lines: str, gets: int, puts: int, off: bool
) -> None:
    counted = {"get": totals(gets, 1e6), "put": totals(puts, 1e6)}
    found = flags(lines, totals=counted)
    assert ("mix-off" in found) == off


def test_failed_requests_count_for_the_mix() -> None:
    counted = {"get": totals(4_000, 1e6, time_out=1_000), "put": totals(5_000, 1e6)}
    assert "mix-off" not in flags("get_percent = 50\nconcurrency = 6", totals=counted)


def test_how_bodies_were_signed_stands_beside_the_numbers() -> None:
    assert "payload-mode" not in flags()
    assert "streaming" in flags(f'{MIXED}\npayload = "streaming"')["payload-mode"].message
    assert "payload-mode" not in flags('payload = "signed"')  # GETs have no body


def test_the_embedded_server_is_never_taken_for_a_product() -> None:
    assert not {"embedded-server", "page-cache"} & set(flags())
    embedded = flags(target=Target(name="t", s3="embedded:somewhere"))
    assert "share this machine's cores" in embedded["embedded-server"].message
    assert "page cache" in embedded["page-cache"].message


def test_a_certificate_that_nobody_checked_is_flagged() -> None:
    options = {"s3": "https://store.example/bucket", "s3_options": {"verify_tls": False}}
    found = flags(target=Target.model_validate({"name": "t", **options}))
    assert "tls-unverified" in found
    plain = {"s3": "http://store.example/bucket", "s3_options": {"verify_tls": False}}
    assert "tls-unverified" not in flags(target=Target.model_validate({"name": "t", **plain}))
    assert "tls-unverified" not in flags()


def test_a_busy_client_and_the_engines_notes_are_flagged() -> None:
    busy = CpuUse(user_ns=3_800_000_000, system_ns=0, cores=2)
    found = flags(cpu=busy, notes=["one", "two"])
    assert "95 %" in found["client-bound"].message
    assert found["engine-note"].message == "one; two"


def test_a_kind_that_was_asked_for_and_never_came_has_the_rate_0() -> None:
    """Check that a requested kind without requests has rate 0, so that totals agree."""
    only_gets = outcome(totals={"get": totals(600, 1e7, 600 * MIB)})
    only_gets.samples = [sample for sample in only_gets.samples if sample.operation == "get"]
    found = metrics(only_gets)
    assert found["throughput_mb_s", "put"] == found["requests_s", "put"] == 0
    assert found["throughput_mb_s", "get"] == found["throughput_mb_s", "all"]
    assert ("latency_mean_ns", "put") not in found
    assert ("throughput_mb_s", "head") not in found
    assert ("throughput_mb_s", "put") not in metrics(only_gets, "get_percent = 100")


@pytest.mark.parametrize(("threads", "starved"), [(2, True), (3, False)])
def test_more_threads_than_cores_wait_for_one_another(threads: int, starved: bool) -> None:
    cpu = CpuUse(user_ns=300_000_000, system_ns=0, cores=2, longest_wait_percent=60.0)
    cpu = cpu.model_copy(update={"machine_busy_percent": 5.0, "machine_cores": 4})
    lines = f"{MIXED}\nthreads = {threads}"
    assert ("starved" in flags(lines, cpu=cpu)) is starved
    assert OBJECT.page.load.workers_of(point(lines).params) == threads
    assert OBJECT.page.load.workers_of(point().params) == 0  # as many as there are cores
