"""The verdict whether a medium served a run, from counters and lower layers."""

from __future__ import annotations

from typing import Any

import pytest

from storlab.base.units import MB, NS_PER_MS, NS_PER_S
from storlab.model.result import EngineInfo, LatencySummary, OperationTotals, Proof, RunOutcome
from storlab.model.study import Target
from storlab.workloads.common.proof import medium_flags, medium_proof

CLEAN: dict[str, Any] = {"memory": [], "cached": [], "unknown": [], "holes": [], "blank": []}
TARGET = Target(name="t", path="f", size=MB)


def counted(read: float, *, inside: float = 0.9, over: float = 1.1) -> dict[str, Any]:
    """Return a counter of ``read`` MB in the second of the window, at a steady rate."""
    return {
        "read_bytes": round(read * over * MB),
        "over_ns": round(over * NS_PER_S),
        "inside_read_bytes": round(read * inside * MB),
        "inside_ns": round(inside * NS_PER_S),
    }


def judged(
    details: dict[str, Any],
    *,
    window_ns: int = NS_PER_S,
    moved: int = 100 * MB,
    operation: str = "read",
    target: Target = TARGET,
    latency_ns: int = 0,
) -> tuple[Proof | None, set[str]]:
    latency = LatencySummary.model_construct(mean_ns=latency_ns) if latency_ns else None
    totals = OperationTotals(operations=1, bytes=moved)
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0"),
        window_start_ns=0,
        window_end_ns=window_ns,
        samples=[],
        totals={operation: totals.model_copy(update={"latency": latency})},
        cpu=None,
        details=details,
    )
    return medium_proof(target, outcome), {flag.kind for flag in medium_flags(target, outcome)}


def state(proof: Proof | None) -> str | None:
    return None if proof is None else proof.state


def test_an_account_contradicts_nothing_where_another_program_may_do_the_io() -> None:
    served = {**CLEAN, "unknown": ["fuse.bindfs at /mnt is served by a program"]}
    proof, flags = judged({"medium": served, "process": counted(0)})
    assert (state(proof), flags) == ("unproven", {"medium-unproven"})


def test_counters_that_know_of_the_bytes_prove_the_medium() -> None:
    both = {"medium": CLEAN, "device": counted(105), "process": counted(100)}
    assert judged(both) == (Proof(state="proven"), set())
    assert judged({**both, "process": None}) == (Proof(state="proven"), set())
    assert judged({**both, "device": None}) == (Proof(state="proven"), set())


def test_io_of_others_on_the_device_does_not_hide_that_the_load_reached_it_not() -> None:
    proof, flags = judged({"medium": CLEAN, "device": counted(500), "process": counted(70)})
    assert (state(proof), flags) == ("contradicted", {"device-bytes"})


def test_a_counter_that_was_read_long_after_a_short_window_gives_no_verdict() -> None:
    """Check 8 MiB in 3 ms counted over 50 ms, of which a sixteenth would be the run's."""
    counter = {"read_bytes": 8 * MB, "over_ns": 50 * NS_PER_MS}
    details = {"medium": CLEAN, "device": counter, "process": counter}
    proof, flags = judged(details, window_ns=3 * NS_PER_MS, moved=8 * MB)
    assert (state(proof), flags) == ("unproven", {"medium-unproven"})
    none = {**counter, "read_bytes": 0}
    details = {"medium": CLEAN, "device": none, "process": none}
    proof, flags = judged(details, window_ns=3 * NS_PER_MS, moved=8 * MB)
    assert (state(proof), flags) == ("contradicted", {"device-bytes"})


def test_what_was_in_flight_when_the_window_began_may_have_been_counted_before() -> None:
    details = {"medium": CLEAN, "process": counted(80)}
    assert judged(details)[1] == {"device-bytes"}
    assert judged(details, latency_ns=NS_PER_S // 10)[1] == {"medium-unproven"}


def test_without_counters_or_devices_nothing_is_proven() -> None:
    assert state(judged({"medium": CLEAN})[0]) == "unproven"
    unknown = {**CLEAN, "unknown": ["zfs at /tank: not listed"]}
    proof, flags = judged({"medium": unknown, "process": counted(100)})
    assert (state(proof), flags) == ("unproven", {"medium-unproven"})
    assert judged({})[0] is None


@pytest.mark.parametrize(
    ("key", "expected", "flag"),
    [
        ("memory", "contradicted", "page-cache"),
        ("cached", "unproven", "page-cache"),
        ("holes", "contradicted", "never-written"),
        ("blank", "unproven", "never-written"),
    ],
)
def test_what_lies_below_counts_beside_good_counters(key: str, expected: str, flag: str) -> None:
    details = {"medium": {**CLEAN, key: ["this"]}, "process": counted(100)}
    proof, flags = judged(details)
    assert (state(proof), flags) == (expected, {flag})
    if flag == "never-written":  # irrelevant for writes
        details["process"] = {
            name.replace("read_bytes", "written_bytes"): count
            for name, count in counted(100).items()
        } | {"read_bytes": 0}
        assert state(judged(details, operation="write")[0]) == "proven"


def test_buffered_io_is_never_proven() -> None:
    buffered = TARGET.model_copy(update={"direct": False})
    proof, flags = judged({"medium": CLEAN, "process": counted(100)}, target=buffered)
    assert (state(proof), flags) == ("unproven", {"page-cache"})
