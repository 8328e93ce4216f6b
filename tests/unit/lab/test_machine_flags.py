"""Effects of other users of the machine on a run: flags of every family, no empty result."""

from __future__ import annotations

from typing import Any

import pytest

from storlab.base.units import NS_PER_S
from storlab.model.result import CpuUse, EngineInfo, RunOutcome
from storlab.workloads.common import metrics as common

MS = NS_PER_S // 1000


def outcome(server_ns: int | None = None, **cpu: Any) -> RunOutcome:
    """Return a window of 2 s on 4 cores, of which the run used 1.9 s: 23.75 %."""
    fields = {"user_ns": 1500 * MS, "system_ns": 400 * MS, "cores": 2, "worker_ns": 200 * MS}
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="1"),
        window_start_ns=0,
        window_end_ns=2 * NS_PER_S,
        samples=[],
        totals={},
        cpu=CpuUse.model_validate({**fields, "machine_cores": 4, **cpu}),
        server_cpu=None if server_ns is None else CpuUse(user_ns=server_ns, system_ns=0, cores=4),
    )


def kinds(made: RunOutcome) -> list[str]:
    client = common.client_flag(made)
    found = [*([client] if client else []), *common.machine_flags(made)]
    return [flag.kind for flag in found]


@pytest.mark.parametrize(
    ("machine", "steal", "wait", "flagged"),
    [
        (33.0, 0.0, None, []),
        (34.0, 0.0, None, ["busy-machine"]),
        (97.0, 0.0, None, ["busy-machine"]),
        (35.5, 1.9, 0.0, []),
        (35.5, 2.0, 0.0, ["starved"]),
        (24.0, 0.0, 1.9, []),
        (24.0, None, 2.0, ["starved"]),
        (None, None, None, []),
    ],
)
def test_a_machine_that_others_use_is_flagged_and_is_not_the_clients_bound(
    machine: float | None, steal: float | None, wait: float | None, flagged: list[str]
) -> None:
    made = outcome(
        machine_busy_percent=machine, machine_steal_percent=steal, longest_wait_percent=wait
    )
    assert kinds(made) == flagged


def test_the_busiest_other_programs_are_named_where_they_are_known() -> None:
    made = outcome(machine_busy_percent=60.0)
    (flag,) = common.machine_flags(made)
    assert "(" not in flag.message
    made.details["machine"] = {"programs": {"backup": 84.4, "kworker/u8:2": 7.0}}
    (flag,) = common.machine_flags(made)
    assert "(busiest: backup 84 % of a core, kworker/u8:2 7 % of a core)" in flag.message
    made.details["machine"] = None  # a cluster
    (flag,) = common.machine_flags(made)
    assert "busiest" not in flag.message


def test_a_machine_that_the_run_itself_fills_is_the_clients_bound() -> None:
    assert kinds(outcome(machine_busy_percent=97.0, machine_cores=1)) == ["client-bound"]
    # storlab's own server does not count as another program.
    made = outcome(server_ns=5 * NS_PER_S, machine_busy_percent=93.0)
    assert kinds(made) == ["client-bound"]


def test_both_causes_of_starving_are_said() -> None:
    made = outcome(machine_steal_percent=3.25, longest_wait_percent=41.2)
    (flag,) = common.machine_flags(made)
    assert flag.message.startswith(
        "a worker waited for a core in 41.2 % of the window and this machine's host took 3.25 % of "
        "the cores' time"
    )


@pytest.mark.parametrize(
    ("workers", "machine", "steal", "flagged"),
    [
        (2, 30.0, 0.0, ["starved"]),  # a core for each: only others can be the cause
        (3, 30.0, 0.0, []),
        (3, 33.0, 1.9, []),
        (3, 30.0, 2.0, ["starved"]),
        (3, 34.0, 0.0, ["busy-machine", "starved"]),
        (3, None, 0.0, ["starved"]),  # other load is unknown
    ],
)
def test_workers_that_wait_for_one_another_are_not_starved_by_others(
    workers: int, machine: float | None, steal: float, flagged: list[str]
) -> None:
    made = outcome(
        machine_busy_percent=machine, machine_steal_percent=steal, longest_wait_percent=60.0
    )
    flags = list(common.machine_flags(made, workers))
    assert [flag.kind for flag in flags] == flagged
    text = " ".join(flag.message for flag in flags if flag.kind == "starved")
    assert ("3 workers share 2 cores" in text) == (workers == 3 and "starved" in flagged)
    assert made.cpu is not None
    assert made.cpu.longest_wait_percent == 60.0  # kept in the record


def test_an_old_result_without_these_readings_reads_as_before() -> None:
    fields = {"user_ns": 1, "system_ns": 2, "cores": 3, "machine_busy_percent": 97.0}
    made = outcome()
    made.cpu = CpuUse.model_validate(fields)
    assert made.cpu.machine_cores is None
    assert kinds(made) == ["client-bound"]


@pytest.mark.parametrize(
    ("quota", "throttled", "workers", "flagged"),
    [
        (None, None, 4, []),
        (4.0, 0.0, 4, []),  # 0.95 of 4 cores: far from it
        (1.0, 0.0, 4, ["client-bound"]),
        (1.0, 30.0, 4, ["client-bound", "starved"]),
        (None, 30.0, 4, ["starved"]),  # cluster: each client has its own quota
    ],
)
def test_the_client_is_judged_by_its_quota(
    quota: float | None, throttled: float | None, workers: int, flagged: list[str]
) -> None:
    made = outcome(quota_cores=quota, throttled_percent=throttled, machine_busy_percent=24.0)
    client = common.client_flag(made)
    found = [*([client] if client else []), *common.machine_flags(made, workers)]
    assert [flag.kind for flag in found] == flagged


def test_waits_under_a_quota_are_not_those_that_the_study_asks_for() -> None:
    waiting = {"longest_wait_percent": 40.0, "machine_busy_percent": 24.0}
    assert common.wait_for_each_other(outcome(**waiting).cpu, 4)  # type: ignore[arg-type]
    throttled = outcome(**waiting, quota_cores=1.0, throttled_percent=30.0)
    assert not common.wait_for_each_other(throttled.cpu, 4)  # type: ignore[arg-type]
    assert "starved" in [flag.kind for flag in common.machine_flags(throttled, 4)]
