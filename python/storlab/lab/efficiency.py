"""Power, energy, efficiency and density of a run: the same metrics for every workload family.

Definitions stand in ``docs/method.md``. What was not measured has no metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from storlab.base.energy import mb_per_joule, quotient_uncertainty, tb_per_kwh, wh_from_j
from storlab.lab.power_summary import BoundaryPower
from storlab.model.result import Concurrency, Metric, RunOutcome
from storlab.model.study import Target
from storlab.workloads.common_metrics import bytes_moved, operations_done
from storlab.workloads.page import Page

_TB = 10**12
_KILO = 1_000
_RATE_UNITS = {"iops": "IOPS", "requests_s": "requests/s"}  # the rates that families count by


def energy_metrics(
    outcome: RunOutcome,
    totals: Sequence[BoundaryPower],
    page: Page,
    concurrency: Concurrency | None = None,
) -> list[Metric]:
    """Power, energy and efficiency at every boundary where they were measured or declared.

    ``page`` is the family's: which operations count, and which of them transfer bytes.
    ``concurrency`` tells how many operations straddle the window's edges, for the uncertainty.
    """
    found: list[Metric] = []
    for power in totals:
        found += _power(power)
        found += _efficiency(outcome, power, page, concurrency)
    return found


def density_metrics(
    metrics: Sequence[Metric],
    target: Target,
    totals: Sequence[BoundaryPower] = (),
    rate: str = "iops",
) -> list[Metric]:
    """Throughput and rate per TB, rack unit and 1,000 units of money; power per TB and rack unit.

    Only for facts that the study tells of the target. ``rate`` names the metric that counts
    operations.
    """
    found: list[Metric] = []
    for name in ("throughput_mb_s", rate):
        whole = next((m for m in metrics if (m.name, m.operation) == (name, "all")), None)
        if whole is not None:
            found += _per_fact(name, _RATE_UNITS.get(name, whole.unit), whole, target)
    for power in totals:
        mean = _metric("power_w", power.mean_w, "W", power, power.energy_uncertainty_j)
        if power.energy_uncertainty_j is not None:
            uncertainty = power.energy_uncertainty_j / power.duration_s
            mean = mean.model_copy(update={"uncertainty": uncertainty})
        found += _per_fact("power_w", "W", mean, target, money=False)
    if target.capacity and target.rack_units:
        tb_ru = target.capacity / _TB / target.rack_units
        found.append(
            Metric(name="capacity_tb_ru", value=tb_ru, unit="TB/RU", provenance="declared")
        )
    if target.capacity and target.price:
        tb_money = target.capacity / _TB / (target.price / _KILO)
        unit = f"TB/k{target.currency}"
        found.append(
            Metric(name="capacity_tb_kmoney", value=tb_money, unit=unit, provenance="declared")
        )
    return found


def _power(power: BoundaryPower) -> Iterator[Metric]:
    energy_u = power.energy_uncertainty_j
    mean_u = None if energy_u is None else energy_u / power.duration_s
    yield _metric("power_w", power.mean_w, "W", power, mean_u)
    yield _metric("power_p95_w", power.p95_w, "W", power)
    yield _metric("power_peak_w", power.peak_w, "W", power)
    yield _metric("energy_j", power.energy_j, "J", power, energy_u)
    energy_wh_u = None if energy_u is None else wh_from_j(energy_u)
    yield _metric("energy_wh", wh_from_j(power.energy_j), "Wh", power, energy_wh_u)
    if power.idle_w is not None:
        yield _metric("idle_power_w", power.idle_w, "W", power)
        net_j = power.energy_j - power.idle_w * power.duration_s
        yield _metric("energy_net_j", net_j, "J", power)


def _efficiency(
    outcome: RunOutcome, power: BoundaryPower, page: Page, concurrency: Concurrency | None
) -> Iterator[Metric]:
    moved = bytes_moved(outcome, page.moved)
    operations = operations_done(outcome, page.operations)
    straddling = math.sqrt(2) * ((concurrency.implied or 0.0) if concurrency else 0.0)
    # At each edge the operations in flight are done by some part, uniformly between none and all.
    edge = straddling / math.sqrt(12) / operations if operations else 0.0
    energy = None
    if power.energy_uncertainty_j is not None:
        energy = power.energy_uncertainty_j / power.energy_j

    def uncertainty(value: float) -> float | None:
        return None if energy is None else quotient_uncertainty(value, edge, energy)

    if operations:
        rate_w = operations / power.energy_j
        unit = f"{_RATE_UNITS.get(page.rate, '1/s')}/W"
        yield _metric(f"{page.rate}_w", rate_w, unit, power, uncertainty(rate_w))
    if not moved:
        return
    mb_j = mb_per_joule(moved, power.energy_j)
    tb_kwh = tb_per_kwh(mb_j)
    yield _metric("efficiency_mb_s_w", mb_j, "MB/s/W", power, uncertainty(mb_j))
    yield _metric("efficiency_tb_kwh", tb_kwh, "TB/kWh", power, uncertainty(tb_kwh))
    if power.idle_w is not None:
        net_j = power.energy_j - power.idle_w * power.duration_s
        if net_j > 0:
            yield _metric("efficiency_net_mb_s_w", mb_per_joule(moved, net_j), "MB/s/W", power)


def _metric(
    name: str, value: float, unit: str, power: BoundaryPower, uncertainty: float | None = None
) -> Metric:
    return Metric(
        name=name,
        value=value,
        unit=unit,
        provenance=power.provenance,
        boundary=power.boundary,
        uncertainty=uncertainty,
    )


def _per_fact(
    name: str, unit: str, of: Metric, target: Target, *, money: bool = True
) -> Iterable[Metric]:
    facts = [
        ("tb", "TB", target.capacity and target.capacity / _TB),
        ("ru", "RU", target.rack_units),
    ]
    if money:
        facts.append(("kmoney", f"k{target.currency}", target.price and target.price / _KILO))
    for suffix, per, amount in facts:
        if not amount:
            continue
        yield Metric(
            name=f"{name}_{suffix}",
            value=of.value / amount,
            unit=f"{unit}/{per}",
            provenance=of.provenance,
            boundary=of.boundary,
            uncertainty=None if of.uncertainty is None else of.uncertainty / amount,
        )
