"""Compute power, energy, efficiency and density metrics of a run, for all workload families.

The definitions are in ``docs/method/README.md``. Quantities that were not measured have no metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from storlab.base.energy import mb_per_joule, quotient_uncertainty, tb_per_kwh, wh_from_j
from storlab.base.units import NS_PER_S, TB
from storlab.contracts.details import Details
from storlab.contracts.page import Page, Quantity
from storlab.model.power import Boundary, SpanPower
from storlab.model.result import Concurrency, Metric, RunOutcome, RunRecord, Span
from storlab.model.study import Target
from storlab.power.summary import BoundaryPower, weakest_provenance
from storlab.workloads.common.metrics import bytes_moved, operations_done

MOVING_SHARE = 0.95  # of the window; if data moves in less of it, pauses distort energy per byte
_KILO = 1_000
_PER_WATT = {"1": "1/W", "1/s": "1/J"}  # units whose quotient by W has a simpler name


def energy_metrics(
    outcome: RunOutcome,
    totals: Sequence[BoundaryPower],
    page: Page,
    concurrency: Concurrency | None = None,
) -> list[Metric]:
    """Return power, energy and efficiency metrics for each power boundary (device, host, ...).

    Args:
        outcome: Outcome of the run.
        totals: Power of the target at each boundary.
        page: The workload family's metrics: which operations count, and which transfer bytes.
        concurrency: Operations in flight, from which the uncertainty at the window's edges is
            computed; None if unknown.
    """
    metrics: list[Metric] = []
    for power in totals:
        metrics += _power(power)
        metrics += _efficiency(outcome, power, page, concurrency)
    return metrics


def per_watt_metrics(
    metrics: Sequence[Metric], totals: Sequence[BoundaryPower], page: Page
) -> list[Metric]:
    """Return metrics per watt: those in ``page.metrics.per_watt``, divided by mean power.

    There is one per power boundary. Metrics of single operations are left out, because mean power
    is that of all operations.
    """
    quotients: list[Metric] = []
    for metric in metrics:
        name = page.metrics.per_watt.get(metric.name)
        if name is None or metric.operation != "all":
            continue
        for power in totals:
            value = metric.value / power.mean_w
            relative = None
            if power.energy_uncertainty_j is not None:
                relative = power.energy_uncertainty_j / power.energy_j
            unit = _PER_WATT.get(metric.unit, f"{metric.unit}/W")
            quotient = _metric(
                name,
                value,
                unit,
                power,
                None if relative is None else quotient_uncertainty(value, relative),
            )
            provenance = weakest_provenance([metric.provenance, power.provenance])
            quotients.append(quotient.model_copy(update={"provenance": provenance}))
    return quotients


def idles(outcome: RunOutcome | RunRecord, page: Page) -> bool:
    """Return whether pauses fill so much of the window that energy per byte is misleading.

    That is the case if spans that transfer data cover less than MOVING_SHARE of the window.
    """
    if page.load.whole_window:
        return False
    moving = [span.end_ns - span.start_ns for span in outcome.spans if span.bytes]
    window_ns = outcome.window_end_ns - outcome.window_start_ns
    return bool(moving) and sum(moving) < MOVING_SHARE * window_ns


def of_whole_work(
    metrics: Sequence[Metric], outcome: RunOutcome | RunRecord, page: Page
) -> list[Metric]:
    """Drop time, energy and efficiency metrics of work that was begun before a resume.

    They would cover only the rest of the work, while other metrics cover all of it.
    """
    begun = Details.of(outcome).resumed
    if not begun:
        return list(metrics)

    def is_of_the_rest(metric: Metric) -> bool:
        cost = "energy" in metric.name or metric.name == "span_time_s"
        return metric.operation in ("all", *begun) and (cost or is_efficiency(metric, page))

    return [metric for metric in metrics if not is_of_the_rest(metric)]


def is_efficiency(metric: Metric, page: Page) -> bool:
    """Return whether a metric is an efficiency: work in the window divided by its energy."""
    return metric.name.startswith("efficiency_") or metric.name == f"{page.operations.rate.name}_w"


def span_metrics(spans: Sequence[Span], powers: Sequence[SpanPower]) -> list[Metric]:
    """Return the mean time of each kind of span (epoch, checkpoint), and its mean energy.

    There is one energy per power boundary; the metric's ``operation`` is the kind of span. If the
    energy of a span is unknown, its kind has no mean energy, because short spans would be missing
    from the mean.
    """
    metrics: list[Metric] = []
    for kind in dict.fromkeys(span.kind for span in spans):
        own = [number for number, span in enumerate(spans) if span.kind == kind]
        mean_ns = math.fsum(spans[n].end_ns - spans[n].start_ns for n in own) / len(own)
        time_s = mean_ns / NS_PER_S
        metrics.append(Metric(name="span_time_s", value=time_s, unit="s", operation=kind))
        for boundary in dict.fromkeys(power.boundary for power in powers):
            known = [p for p in powers if p.boundary == boundary and p.span in own]
            if len(known) == len(own):
                metrics += _span_energy(kind, known)
    return metrics


def span_notes(
    spans: Sequence[Span], powers: Sequence[SpanPower], boundaries: Iterable[Boundary]
) -> list[str]:
    """Return notes on kinds of spans whose energy is unknown, although that of the run is known."""
    notes = []
    for boundary in boundaries:
        known = {power.span for power in powers if power.boundary == boundary}
        for kind in dict.fromkeys(span.kind for span in spans):
            own = [number for number, span in enumerate(spans) if span.kind == kind]
            without = [number for number in own if number not in known]
            if without:
                notes.append(
                    f"energy of {kind} at the {boundary} not measured: {len(without):,} of "
                    f"{len(own):,} are too short for the time between readings (raise rate_hz of "
                    "the meter; for declared power, shorten interval of the study)"
                )
    return notes


def _span_energy(kind: str, powers: Sequence[SpanPower]) -> Iterator[Metric]:
    energy_j = math.fsum(power.energy_j for power in powers) / len(powers)
    # Uncertainties are averaged, because the sensor's errors have the same sign in all spans.
    stated = [p.energy_uncertainty_j for p in powers if p.energy_uncertainty_j is not None]
    uncertainty_j = math.fsum(stated) / len(stated) if len(stated) == len(powers) else None
    for name, unit, scale in (("span_energy_j", "J", 1.0), ("span_energy_wh", "Wh", wh_from_j(1))):
        yield Metric(
            name=name,
            value=energy_j * scale,
            unit=unit,
            operation=kind,
            provenance=powers[0].provenance,
            boundary=powers[0].boundary,
            uncertainty=None if uncertainty_j is None else uncertainty_j * scale,
        )


def density_metrics(
    metrics: Sequence[Metric],
    target: Target,
    totals: Sequence[BoundaryPower],
    rate: Quantity,
) -> list[Metric]:
    """Return throughput, rate and power per TB, per rack unit and per 1,000 currency units.

    Power is not divided by price. A fact that the study does not declare gives no metric.

    Args:
        metrics: Metrics of the run.
        target: Target with its declared capacity, rack units and price.
        totals: Power of the target at each power boundary.
        rate: The family's metric of operations per second.
    """
    densities: list[Metric] = []
    for name in ("throughput_mb_s", rate.name):
        whole = next((m for m in metrics if (m.name, m.operation) == (name, "all")), None)
        if whole is not None:
            unit = rate.unit if name == rate.name else whole.unit
            densities += _per_fact(name, unit, whole, target)
    for power in totals:
        mean = _metric("power_w", power.mean_w, "W", power, power.energy_uncertainty_j)
        if power.energy_uncertainty_j is not None:
            uncertainty = power.energy_uncertainty_j / power.duration_s
            mean = mean.model_copy(update={"uncertainty": uncertainty})
        densities += _per_fact("power_w", "W", mean, target, money=False)
    if target.capacity and target.rack_units:
        tb_ru = target.capacity / TB / target.rack_units
        densities.append(
            Metric(name="capacity_tb_ru", value=tb_ru, unit="TB/RU", provenance="declared")
        )
    if target.capacity and target.price:
        tb_money = target.capacity / TB / (target.price / _KILO)
        unit = f"TB/k{target.currency}"
        densities.append(
            Metric(name="capacity_tb_kmoney", value=tb_money, unit=unit, provenance="declared")
        )
    return densities


def _power(power: BoundaryPower) -> Iterator[Metric]:
    energy_u = power.energy_uncertainty_j
    mean_u = None if energy_u is None else energy_u / power.duration_s
    yield _metric("power_w", power.mean_w, "W", power, mean_u)
    if power.p95_w is not None and power.peak_w is not None:
        yield _metric("power_p95_w", power.p95_w, "W", power)
        yield _metric("power_peak_w", power.peak_w, "W", power)
    yield _metric("energy_j", power.energy_j, "J", power, energy_u)
    energy_wh_u = None if energy_u is None else wh_from_j(energy_u)
    yield _metric("energy_wh", wh_from_j(power.energy_j), "Wh", power, energy_wh_u)
    if power.idle_w is not None:
        yield _metric("idle_power_w", power.idle_w, "W", power)
        net_j, net_u = _net_j(power, power.idle_w), _net_uncertainty_j(power)
        yield _metric("energy_net_j", net_j, "J", power, net_u)


def _efficiency(
    outcome: RunOutcome, power: BoundaryPower, page: Page, concurrency: Concurrency | None
) -> Iterator[Metric]:
    moved = bytes_moved(outcome, page.operations.moved)
    operations = operations_done(outcome, page.operations.main)
    straddling = math.sqrt(2) * ((concurrency.implied or 0.0) if concurrency else 0.0)
    # An operation in flight at an edge of the window may have done any part of its work inside the
    # window, with equal probability.
    edge = straddling / math.sqrt(12) / operations if operations else 0.0
    energy = None
    if power.energy_uncertainty_j is not None:
        energy = power.energy_uncertainty_j / power.energy_j

    def uncertainty(value: float) -> float | None:
        return None if energy is None else quotient_uncertainty(value, edge, energy)

    if operations:
        rate_w = operations / power.energy_j
        unit = f"{page.operations.rate.unit}/W"
        yield _metric(f"{page.operations.rate.name}_w", rate_w, unit, power, uncertainty(rate_w))
    if not moved:
        return
    mb_j = mb_per_joule(moved, power.energy_j)
    tb_kwh = tb_per_kwh(mb_j)
    yield _metric("efficiency_mb_s_w", mb_j, "MB/s/W", power, uncertainty(mb_j))
    yield _metric("efficiency_tb_kwh", tb_kwh, "TB/kWh", power, uncertainty(tb_kwh))
    if power.idle_w is not None:
        net_j = _net_j(power, power.idle_w)
        if net_j > 0:
            net, net_u = mb_per_joule(moved, net_j), _net_uncertainty_j(power)
            relative = None if net_u is None else quotient_uncertainty(net, edge, net_u / net_j)
            yield _metric("efficiency_net_mb_s_w", net, "MB/s/W", power, relative)


def _net_j(power: BoundaryPower, idle_w: float) -> float:
    """Return a run's energy above idle in J; exactly 0 if the difference is only rounding."""
    idle_j = idle_w * power.duration_s
    return 0.0 if math.isclose(power.energy_j, idle_j) else power.energy_j - idle_j


def _net_uncertainty_j(power: BoundaryPower) -> float | None:
    """Return the standard uncertainty in J of a run's energy above idle, or None if unknown."""
    return net_uncertainty_j(power.energy_uncertainty_j, power.idle_uncertainty_w, power.duration_s)


def net_uncertainty_j(
    energy_j: float | None, idle_w: float | None, duration_s: float
) -> float | None:
    """Return the standard uncertainty in J of energy above idle.

    The sensor's gain error affects energy and idle energy alike and partly cancels. This is
    ignored, so the result may be too large but not too small.

    Args:
        energy_j: Standard uncertainty of the energy; None if unknown.
        idle_w: Standard uncertainty of idle power; None if unknown.
        duration_s: Duration of the window.

    Returns:
        The uncertainty; None if one of the two is unknown.
    """
    if energy_j is None or idle_w is None:
        return None
    return math.hypot(energy_j, idle_w * duration_s)


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
        ("tb", "TB", target.capacity and target.capacity / TB),
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
