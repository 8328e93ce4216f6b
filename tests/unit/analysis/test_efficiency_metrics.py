"""Metrics of energy, efficiency and density, shared by all workload families."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.contracts.page import Metrics, Operations, Page, Parameters, rate
from storlab.contracts.registry import FAMILIES
from storlab.model.result import (
    Concurrency,
    EngineInfo,
    Metric,
    Operation,
    OperationTotals,
    RunOutcome,
    Span,
)
from storlab.model.study import Target
from storlab.power.metrics import (
    density_metrics,
    energy_metrics,
    idles,
    of_whole_work,
    per_watt_metrics,
)
from storlab.power.summary import BoundaryPower
from storlab.workloads.common.costs import IOPS

S = 1_000_000_000
BLOCK = FAMILIES["block"].page

REQUESTS = rate("requests_s", "requests/s", "requests/s")


def outcome(read: int = 6 * 10**9, written: int = 0, operations: int = 1000) -> RunOutcome:
    totals: dict[Operation, OperationTotals] = {
        "read": OperationTotals(operations=operations, bytes=read),
        "write": OperationTotals(operations=0, bytes=written),
        "sync": OperationTotals(operations=50, bytes=0),
    }
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0"),
        window_start_ns=0,
        window_end_ns=60 * S,
        samples=[],
        totals=totals,
        cpu=None,
    )


def power(energy_j: float = 600.0, **changes: object) -> BoundaryPower:
    fields = {
        "boundary": "device",
        "sensors": ("m",),
        "provenance": "measured",
        "energy_j": energy_j,
        "energy_uncertainty_j": 6.0,
        "duration_s": 60.0,
        "mean_w": energy_j / 60,
        "p95_w": 11.0,
        "peak_w": 12.0,
        "idle_w": 4.0,
        **changes,
    }
    return BoundaryPower(**fields)  # type: ignore[arg-type]


def named(metrics: list[Metric]) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


def test_every_metric_has_its_formula_unit_and_boundary() -> None:
    found = named(energy_metrics(outcome(), [power()], BLOCK))
    assert {name: (m.value, m.unit) for name, m in found.items()} == {
        "power_w": (10, "W"),
        "power_p95_w": (11, "W"),
        "power_peak_w": (12, "W"),
        "energy_j": (600, "J"),
        "energy_wh": (pytest.approx(1 / 6), "Wh"),
        "idle_power_w": (4, "W"),
        "energy_net_j": (360, "J"),
        "efficiency_mb_s_w": (10, "MB/s/W"),
        "efficiency_tb_kwh": (36, "TB/kWh"),
        "efficiency_net_mb_s_w": (pytest.approx(6000 / 360), "MB/s/W"),
        "iops_w": (pytest.approx(1000 / 600), "IOPS/W"),
    }
    assert {m.boundary for m in found.values()} == {"device"}
    assert {m.provenance for m in found.values()} == {"measured"}
    assert found["efficiency_mb_s_w"].uncertainty == pytest.approx(0.1)
    assert found["power_w"].uncertainty == pytest.approx(0.1)


def test_operations_at_the_edges_add_to_the_uncertainty() -> None:
    some = Concurrency(configured=64, implied=100.0)
    found = named(energy_metrics(outcome(), [power(energy_uncertainty_j=1e-9)], BLOCK, some))
    edge = (2**0.5) * 100 / (12**0.5) / 1000
    assert found["efficiency_mb_s_w"].uncertainty == pytest.approx(10 * edge, rel=1e-6)


def test_what_is_not_known_has_no_metric() -> None:
    found = named(energy_metrics(outcome(), [power(idle_w=None, energy_uncertainty_j=None)], BLOCK))
    assert not {"idle_power_w", "energy_net_j", "efficiency_net_mb_s_w"} & set(found)
    assert found["efficiency_mb_s_w"].uncertainty is None
    assert energy_metrics(outcome(), [], BLOCK) == []
    nothing_moved = named(energy_metrics(outcome(read=0, operations=0), [power()], BLOCK))
    assert not {"efficiency_mb_s_w", "iops_w"} & set(nothing_moved)
    assert nothing_moved["energy_j"].value == 600


def test_energy_above_idle_is_as_sure_as_both_that_it_is_made_of() -> None:
    found = named(energy_metrics(outcome(), [power(idle_uncertainty_w=0.5)], BLOCK))
    net = found["energy_net_j"]
    assert net.uncertainty == pytest.approx((6.0**2 + (60 * 0.5) ** 2) ** 0.5)
    assert found["efficiency_net_mb_s_w"].uncertainty == pytest.approx(
        found["efficiency_net_mb_s_w"].value * net.uncertainty / 360
    )
    unstated = named(energy_metrics(outcome(), [power(idle_uncertainty_w=None)], BLOCK))
    assert unstated["energy_net_j"].uncertainty is None


def test_idle_power_above_the_load_gives_no_net_efficiency() -> None:
    found = named(energy_metrics(outcome(), [power(idle_w=20.0)], BLOCK))
    assert found["energy_net_j"].value == -600
    assert "efficiency_net_mb_s_w" not in found


def test_rounding_of_constant_power_is_no_energy_above_idle() -> None:
    constant = power(energy_j=11.82700954 + 2e-15, idle_w=10.0, duration_s=1.182700954)
    found = named(energy_metrics(outcome(), [constant], BLOCK))
    assert found["energy_net_j"].value == 0
    assert "efficiency_net_mb_s_w" not in found


def test_declared_power_makes_declared_metrics_at_its_own_boundary() -> None:
    both = [power(), power(1200.0, boundary="wall", provenance="declared")]
    metrics = energy_metrics(outcome(), both, BLOCK)
    by = {(m.name, m.boundary): m for m in metrics}
    assert by["efficiency_mb_s_w", "device"].value == 10
    assert by["efficiency_mb_s_w", "wall"].value == 5
    assert by["efficiency_mb_s_w", "wall"].provenance == "declared"


def test_density_needs_the_facts_of_the_target() -> None:
    rates = [
        Metric(name="throughput_mb_s", value=1000, unit="MB/s"),
        Metric(name="iops", value=500, unit="1/s"),
        Metric(name="iops", value=1, unit="1/s", operation="read"),
    ]
    bare = Target(name="t", path="null:")
    assert density_metrics(rates, bare, [power()], IOPS) == []
    facts = bare.model_copy(
        update={"capacity": 20 * 10**12, "rack_units": 2.0, "price": 5000.0, "currency": "EUR"}
    )
    found = {
        m.name: (m.value, m.unit, m.provenance) for m in density_metrics(rates, facts, [], IOPS)
    }
    assert found == {
        "throughput_mb_s_tb": (50, "MB/s/TB", "measured"),
        "throughput_mb_s_ru": (500, "MB/s/RU", "measured"),
        "throughput_mb_s_kmoney": (200, "MB/s/kEUR", "measured"),
        "iops_tb": (25, "IOPS/TB", "measured"),
        "iops_ru": (250, "IOPS/RU", "measured"),
        "iops_kmoney": (100, "IOPS/kEUR", "measured"),
        "capacity_tb_ru": (10, "TB/RU", "declared"),
        "capacity_tb_kmoney": (4, "TB/kEUR", "declared"),
    }
    of_power = named(density_metrics([], facts, [power()], IOPS))
    assert of_power["power_w_tb"].value == 0.5
    assert of_power["power_w_ru"].uncertainty == pytest.approx(0.05)
    assert of_power["power_w_ru"].boundary == "device"


@given(st.integers(1, 10**16), st.floats(1e-3, 1e9), st.integers(1, 10**9))
def test_tb_kwh_is_exactly_3_6_times_mb_s_w(size: int, energy_j: float, operations: int) -> None:
    found = named(energy_metrics(outcome(size, 0, operations), [power(energy_j)], BLOCK))
    assert found["efficiency_tb_kwh"].value == 3.6 * found["efficiency_mb_s_w"].value
    throughput = size / 1e6 / 60
    assert found["efficiency_mb_s_w"].value == pytest.approx(throughput / found["power_w"].value)


def test_another_family_counts_its_own_operations_under_its_own_name() -> None:
    """Check that HEAD counts as an operation without bytes, and flushes are excluded."""
    objects = Page(
        operations=Operations(main=("get", "head"), moved=("get",), rate=REQUESTS),
        parameters=Parameters(axes=("concurrency",)),
    )
    made = outcome()
    made.totals = {
        "get": OperationTotals(operations=1000, bytes=6 * 10**9),
        "head": OperationTotals(operations=200, bytes=5 * 10**9),
        "list": OperationTotals(operations=99, bytes=10**9),
    }
    found = {m.name: (m.value, m.unit) for m in energy_metrics(made, [power()], objects)}
    assert found["requests_s_w"] == (2.0, "requests/s/W")
    assert found["efficiency_mb_s_w"] == (10.0, "MB/s/W")
    rate = Metric(name="requests_s", value=20.0, unit="1/s")
    (per_tb,) = density_metrics(
        [rate],
        Target(name="t", s3="http://h/bucket", capacity=10 * 10**12),
        [],
        REQUESTS,
    )
    assert (per_tb.name, per_tb.value, per_tb.unit) == ("requests_s_tb", 2.0, "requests/s/TB")


def test_what_a_family_divides_by_power_keeps_what_it_rests_on() -> None:
    page = FAMILIES["training"].page
    kept = Metric(
        name="accelerators_at_threshold", value=3, unit="1", operation="all", provenance="emulated"
    )
    other = Metric(name="samples_s", value=100, unit="1/s")
    (found,) = per_watt_metrics([kept, other], [power()], page)
    assert (found.name, found.value, found.unit) == ("accelerators_per_watt", 0.3, "1/W")
    assert (found.provenance, found.boundary) == ("emulated", "device")
    counted = kept.model_copy(update={"provenance": "measured"})
    (declared,) = per_watt_metrics([counted], [power(provenance="declared")], page)
    assert declared.provenance == "declared"
    assert per_watt_metrics([kept], [], page) == []
    assert per_watt_metrics([kept], [power()], BLOCK) == []


def test_what_a_family_divides_by_power_is_as_good_as_its_weaker_part() -> None:
    page = Page(
        operations=Operations(main=("read",), moved=("read",), rate=IOPS),
        parameters=Parameters(axes=()),
        metrics=Metrics(per_watt={"fed": "fed_per_watt"}),
    )
    fed = Metric(name="fed", value=3, unit="1", provenance="emulated")
    other = Metric(name="other", value=3, unit="1")
    (found,) = per_watt_metrics([fed, other], [power()], page)
    assert (found.name, found.value, found.unit) == ("fed_per_watt", pytest.approx(0.3), "1/W")
    assert (found.provenance, found.boundary) == ("emulated", "device")
    assert found.uncertainty == pytest.approx(0.3 * 6 / 600)
    assert per_watt_metrics([fed], [power()], BLOCK) == []


def test_pauses_between_stages_belong_to_the_work() -> None:
    run = outcome()
    run.spans = [Span(kind="ingest", name="ingest", start_ns=0, end_ns=50 * S, bytes=1)]
    assert idles(run, FAMILIES["checkpoint"].page)
    assert not idles(run, FAMILIES["preprocess"].page)


def test_a_part_of_the_work_has_no_energy_and_no_efficiency() -> None:
    page = FAMILIES["preprocess"].page
    kinds = (("all", "J"), ("ingest", "J"), ("encode", "J"))
    metrics = [Metric(name="energy_j", value=1.0, unit=unit, operation=o) for o, unit in kinds]
    metrics += [
        Metric(name="efficiency_mb_s_w", value=1.0, unit="MB/s/W"),
        Metric(name="power_w", value=1.0, unit="W"),
    ]
    run = outcome()
    assert of_whole_work(metrics, run, page) == metrics
    run.details["stages"] = [
        {"name": "ingest", "resumed_parts": 3},
        {"name": "encode", "resumed_parts": 0},
    ]
    left = [(m.name, m.operation) for m in of_whole_work(metrics, run, page)]
    assert left == [("energy_j", "encode"), ("power_w", "all")]
