"""Metrics and flags of training, from given times."""

from __future__ import annotations

from typing import Any

import pytest

from storlab._native import Histogram
from storlab.contracts.registry import FAMILIES
from storlab.lab.study.file import parse_study
from storlab.model.point import Point
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    LatencySummary,
    OperationTotals,
    RunOutcome,
    Sample,
)
from storlab.model.study import Target
from storlab.workloads.training.metrics import (
    au_configured_percent,
    au_percent,
    au_with_first_percent,
    epochs_of,
)

TRAINING = FAMILIES["training"]
MS = 1_000_000
DIRECT = Target(name="t", directory="d")
BUFFERED = Target(name="t", directory="d", direct=False)
STORE = Target(name="s", s3="https://s3.example.com/bucket")
HUGE = {"host_memory_bytes": 1}  # so that no data set is too small for it


def point(lines: str = "") -> Point:
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "."\n'
        f'[[workload]]\nkind = "training"\n{lines}'
    )
    (params,) = study.workload[0].values()
    return Point(
        target="t", workload="w", workload_index=0, kind="training", engine="e", params=params
    )


def accelerator(steps: int, step_ms: float, first_wait_ms: float, wait_ms: float) -> dict[str, int]:
    """Return an accelerator of equal steps; the first waits ``first_wait_ms``.

    All other steps wait ``wait_ms``.
    """
    compute = round(step_ms * MS)
    first = round(first_wait_ms * MS) + compute
    return {
        "accelerator": 0,
        "steps": steps,
        "start_ns": 7,
        "first_end_ns": 7 + first,
        "end_ns": 7 + first + (steps - 1) * (compute + round(wait_ms * MS)),
        "compute_ns": steps * compute,
        "first_compute_ns": compute,
        "wait_ns": round((first_wait_ms + (steps - 1) * wait_ms) * MS),
        "first_wait_ns": round(first_wait_ms * MS),
        "barrier_ns": 0,
    }


def epoch(*each: dict[str, int], size: int = 10**9, device: int | None = None) -> dict[str, Any]:
    return {
        "number": 1,
        "start_ns": 7,
        "end_ns": max(a["end_ns"] for a in each),
        "bytes": size,
        "samples": sum(a["steps"] for a in each) * 7,
        "device_read_bytes": device,
        "accelerators": list(each),
    }


_READ = LatencySummary(
    count=20,
    mean_ns=100 * MS,
    min_ns=100 * MS,
    p50_ns=100 * MS,
    p90_ns=100 * MS,
    p99_ns=100 * MS,
    p999_ns=100 * MS,
    p9999_ns=100 * MS,
    max_ns=100 * MS,
)


def outcome(*epochs: dict[str, Any], **details: Any) -> RunOutcome:
    wait = Histogram()
    wait.record(5 * MS, 3)
    read = Histogram()
    read.record(100 * MS, 20)
    size = sum(e["bytes"] for e in epochs)
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0"),
        window_start_ns=0,
        window_end_ns=2_000 * MS,
        samples=[
            Sample(0, 0, 2_000 * MS, "read", 20, size, read.to_v2()),
            Sample(0, 0, 2_000 * MS, "step", 3, 0, wait.to_v2()),
        ],
        totals={
            "read": OperationTotals(operations=20, bytes=size, latency=_READ),
            "step": OperationTotals(operations=3, bytes=0),
        },
        cpu=CpuUse(user_ns=100 * MS, system_ns=50 * MS, cores=2),
        details={"epochs": list(epochs), **HUGE, **details},
    )


def named(lines: str, run: RunOutcome) -> dict[tuple[str, str], float]:
    return {(m.name, m.operation): m.value for m in TRAINING.metrics(point(lines), run)}


def kinds(lines: str, run: RunOutcome, target: Target = DIRECT) -> set[str]:
    return {flag.kind for flag in TRAINING.flags(point(lines), target, run)}


def test_four_steps_hide_the_reading_in_the_first() -> None:
    """Check the caveat for few steps; the reference once printed 98.9 % for a slow epoch."""
    run = outcome(epoch(accelerator(4, 323, first_wait_ms=4_000, wait_ms=3.6)))
    found = named("", run)
    assert found["au_percent", "all"] == pytest.approx(98.9, abs=0.05)
    assert found["au_with_first_percent", "all"] == pytest.approx(100 * 1.292 / 5.303, abs=0.05)
    (flag,) = [f for f in TRAINING.flags(point(), DIRECT, run) if f.kind == "few-steps"]
    assert "98.9 % without and 24.4 % with it" in flag.message


def test_utilisation_averages_accelerators_then_epochs() -> None:
    busy, idle = accelerator(10, 10, 0, 0), accelerator(10, 10, 0, 10)
    run = outcome(epoch(busy, idle), epoch(idle))
    epochs = epochs_of(run)
    assert au_percent(epochs) == pytest.approx((75 + 50) / 2)
    assert au_configured_percent(epochs, 5 * MS) == pytest.approx((75 + 50) / 4)
    assert au_with_first_percent(epochs) == pytest.approx(
        (100 * (1 + 100 / 190) / 2 + 100 / 1.9) / 2
    )


def on_schedule(late_ms: float, waits_ms: float = 0) -> dict[str, int]:
    """Return 11 steps of 10 ms; all but the first wait for their batch, and start late."""
    timed = accelerator(11, 10, 0, waits_ms + late_ms)
    scheduled = round((110 + 10 * waits_ms) * MS)
    return timed | {
        "scheduled_ns": scheduled,
        "first_scheduled_ns": 10 * MS,
        "late_ns": round(11 * late_ms * MS),
    }


def test_late_wake_ups_are_no_part_of_the_corrected_utilisation() -> None:
    lines = "computation_time = 0.01"
    run = outcome(epoch(on_schedule(late_ms=2.5)), accelerator_precedence="normal")
    found = named(lines, run)
    assert found["au_percent", "all"] == pytest.approx(80)
    assert found["au_corrected_percent", "all"] == pytest.approx(100)
    assert found["cadence_late_percent", "all"] == pytest.approx(25)
    (flag,) = [f for f in TRAINING.flags(point(lines), DIRECT, run) if f.kind == "cadence-late"]
    assert "late by 25 % of the compute time" in flag.message
    assert "AU 80 % as measured, 100 % corrected" in flag.message
    assert "readers: normal" in flag.message


def test_batches_that_come_late_are_in_both_utilisations() -> None:
    lines = "computation_time = 0.01"
    run = outcome(epoch(on_schedule(late_ms=0.05, waits_ms=10)))
    found = named(lines, run)
    assert found["au_percent", "all"] == pytest.approx(49.9, abs=0.1)
    assert found["au_corrected_percent", "all"] == pytest.approx(50)
    assert found["cadence_late_percent", "all"] == pytest.approx(0.5)
    assert "cadence-late" not in kinds(lines, run)


def test_an_engine_without_a_schedule_has_no_corrected_utilisation() -> None:
    run = outcome(epoch(accelerator(60, 10, 10, 3)))
    found = named("", run)
    assert ("au_corrected_percent", "all") not in found
    assert ("cadence_late_percent", "all") not in found
    assert "cadence-late" not in kinds("", run)


def test_wake_up_delays_have_a_name_of_their_own() -> None:
    run = outcome(epoch(on_schedule(late_ms=1)))
    delays = Histogram()
    delays.record(MS, 11)
    run.samples.append(Sample(0, 0, 2_000 * MS, "wake", 11, 0, delays.to_v2()))
    run.totals["wake"] = OperationTotals(operations=11, bytes=0)
    found = named("", run)
    assert found["wake_delay_p99_ns", "all"] == pytest.approx(MS, rel=2e-3)
    assert not [key for key in found if key[1] == "wake"]


def test_one_step_has_no_utilisation_without_the_first() -> None:
    run = outcome(epoch(accelerator(1, 10, 30, 0)))
    found = named("max_steps = 1", run)
    assert ("au_percent", "all") not in found
    assert ("accelerators_at_threshold", "all") not in found
    assert found["au_with_first_percent", "all"] == pytest.approx(25)
    assert "few-steps" in kinds("max_steps = 1", run)
    assert "au-below-threshold" not in kinds("max_steps = 1", run)


def test_rates_waits_and_stalls() -> None:
    run = outcome(
        epoch(accelerator(24, 10, 40, 0)), epoch(accelerator(24, 10, 60, 0)), host_memory_bytes=1
    )
    found = named("", run)
    seconds = (280 + 300) / 1000
    assert found["samples_s", "all"] == pytest.approx(2 * 24 * 7 / seconds)
    assert found["nominal_mb_s", "all"] == pytest.approx(2 * 24 * 7 / seconds * 146.600628)
    assert found["throughput_mb_s", "all"] == pytest.approx(1000)
    assert found["reads_s", "read"] == pytest.approx(10)
    assert found["stall_s", "all"] == pytest.approx(0.1)
    assert found["barrier_s", "all"] == 0
    assert found["step_wait_p99_ns", "all"] == pytest.approx(5 * MS, rel=2e-3)
    assert found["latency_p99_ns", "read"] == pytest.approx(100 * MS, rel=2e-3)
    assert not [key for key in found if key[1] == "step"]
    assert found["cpu_s_per_gb", "all"] == pytest.approx(0.15 / 2)
    assert found["concurrency_effective", "all"] == pytest.approx(20 * 0.1 / 2)
    both = TRAINING.concurrency(point("accelerators = 2"), run)
    assert (both.configured, both.implied) == (8, pytest.approx(1))


def test_the_threshold_decides_what_is_kept() -> None:
    kept = outcome(epoch(*[accelerator(60, 10, 10, 1)] * 3))
    lines = "accelerators = 3\nfiles = 2000"
    found = named(lines, kept)
    assert found["au_percent", "all"] == pytest.approx(90.9, abs=0.05)
    assert found["au_threshold_percent", "all"] == 90
    assert found["accelerators_at_threshold", "all"] == 3
    assert kinds(lines, kept) == {"emulated-accelerators", "data-set-small"}
    lost = outcome(epoch(*[accelerator(60, 10, 10, 3)] * 3))
    assert named(lines, lost)["accelerators_at_threshold", "all"] == 0
    (flag,) = [f for f in TRAINING.flags(point(lines), DIRECT, lost) if f.kind.startswith("au-")]
    assert "AU 76.9 % is below the 90 % of the profile" in flag.message
    assert named('profile = "cosmoflow-h100"', lost)["accelerators_at_threshold", "all"] == 1


def test_provenances() -> None:
    metrics = TRAINING.metrics(point(), outcome(epoch(accelerator(24, 10, 40, 0))))
    by_name = {m.name: m.provenance for m in metrics}
    assert by_name["au_percent"] == by_name["accelerators_at_threshold"] == "emulated"
    assert by_name["au_threshold_percent"] == "published"
    assert by_name["throughput_mb_s"] == by_name["samples_s"] == "measured"
    small = TRAINING.metrics(
        point('profile = "unet3d-small"'), outcome(epoch(accelerator(2, 1, 1, 0)))
    )
    assert {m.name: m.provenance for m in small}["au_threshold_percent"] == "declared"


STEADY = accelerator(24, 10, 40, 0)


def test_reads_after_the_first_epoch_must_come_from_the_device() -> None:
    first = epoch(STEADY, device=10**9)
    cached = outcome(first, epoch(STEADY, device=10**8), epoch(STEADY, device=0))
    assert named("", cached)["device_read_ratio", "all"] == pytest.approx(0.05)
    (flag,) = [f for f in TRAINING.flags(point(), DIRECT, cached) if f.kind == "page-cache"]
    assert "after the first epoch the device read 5 %" in flag.message
    cold = outcome(epoch(STEADY, device=0), epoch(STEADY, device=10**9))
    assert "page-cache" not in kinds("", cold, BUFFERED)  # the device was read, whoever asked
    single = outcome(epoch(STEADY, device=3 * 10**8))
    assert "page-cache" in kinds("", single)


def test_where_nothing_counts_only_direct_io_speaks_against_a_cache() -> None:
    run = outcome(epoch(STEADY), epoch(STEADY))
    assert ("device_read_ratio", "all") not in named("", run)
    assert "page-cache" in kinds("", run, BUFFERED)
    assert "page-cache" not in kinds("", run, DIRECT)
    assert "page-cache" in kinds('edition = "dlio-2.0"', run, DIRECT)
    assert "page-cache" not in kinds('edition = "dlio-2.0-odirect"', run, DIRECT)


def test_a_count_over_the_whole_run_does_where_epochs_have_none() -> None:
    run = outcome(epoch(STEADY), epoch(STEADY), device={"read_bytes": 10**9, "written_bytes": 0})
    assert named("", run)["device_read_ratio", "all"] == pytest.approx(0.5)
    assert "page-cache" in kinds("", run)


def test_a_store_tells_of_itself() -> None:
    run = outcome(epoch(STEADY), epoch(STEADY))
    assert not {"page-cache", "embedded-server"} & kinds("", run, STORE)
    embedded = Target(name="e", s3="embedded:somewhere")
    assert {"page-cache", "embedded-server"} <= kinds("", run, embedded)
    counted = {"read_bytes": 2 * 10**9, "written_bytes": 0}
    cold = outcome(epoch(STEADY), epoch(STEADY), device=counted)
    assert "page-cache" not in kinds("", cold, embedded)  # its device has read it all
    small = outcome(epoch(STEADY), host_memory_bytes=10**12)
    (flag,) = [f for f in TRAINING.flags(point(), STORE, small) if f.kind == "data-set-small"]
    assert "O_DIRECT" not in flag.message


def test_a_data_set_that_memory_holds_is_flagged_with_the_numbers() -> None:
    steps = accelerator(600, 1, 1, 0)

    def messages(target: Target, memory_bytes: int | None) -> list[str]:
        run = outcome(epoch(steps), host_memory_bytes=memory_bytes)
        flags = TRAINING.flags(point("files = 4200"), target, run)
        return [f.message for f in flags if f.kind == "data-set-small"]

    assert messages(BUFFERED, 10**9) == []
    assert messages(BUFFERED, None) == []  # an unknown machine
    (small,) = messages(BUFFERED, 10**12)
    assert "4,200 samples" in small
    assert f"{-(-5 * 10**12 // 146_600_628):,}" in small
    (direct,) = messages(DIRECT, 10**12)
    assert direct.startswith(small)
    assert "O_DIRECT" in direct


def test_a_run_that_never_began_has_no_metrics() -> None:
    run = outcome()
    run.window_end_ns = 0
    run.totals = {}
    run.samples = []
    assert TRAINING.metrics(point(), run) == []
    assert "emulated-accelerators" in kinds("", run)


@pytest.mark.parametrize(("cores", "starved"), [(10, True), (9, False)])
def test_more_threads_than_cores_wait_for_one_another(cores: int, starved: bool) -> None:
    lines = "accelerators = 2\nreader_threads = 4"
    run = outcome(epoch(accelerator(4, 323, 1, 1)))
    run.cpu = CpuUse(user_ns=1, system_ns=1, cores=cores, longest_wait_percent=60.0)
    run.cpu = run.cpu.model_copy(update={"machine_busy_percent": 5.0, "machine_cores": 16})
    assert ("starved" in kinds(lines, run)) is starved
    assert TRAINING.page.load.workers_of(point(lines).params) == 10
    assert TRAINING.page.load.workers_of({**point(lines).params, "profile": "gone.toml"}) == 0
