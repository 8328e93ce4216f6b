"""Energy accounts: energy drawn by a target at a workload point, and the data moved with it.

Bytes and joules are summed over the repeats before they are divided. The interval combines the
spread of the repeats with the meter's standard uncertainty. More repeats do not reduce the latter,
because it is common to all of them (GUM, JCGM 100:2008, 5.2 and G.4). The estimator of a ratio of
sums is Cochran's (Sampling Techniques, 2.11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from storlab.analysis.columns import RATES_PER_WATT
from storlab.analysis.dataset import Dataset, RunData
from storlab.analysis.points import page_of
from storlab.analysis.quantiles import normal, student_t
from storlab.analysis.stats import CONFIDENCE, RESOLUTION, around, mean_interval, printable
from storlab.base.units import NS_PER_S, TB_KWH_PER_MB_J
from storlab.model.decision import Interval
from storlab.model.power import Boundary, PowerSummary
from storlab.model.result import Metric, RunRecord
from storlab.power.metrics import idles, net_uncertainty_j
from storlab.power.summary import idle_uncertainty_w, parts_at

WIDEST_FIRST: tuple[Boundary, ...] = ("wall", "host", "enclosure", "device")
WEAKEST_FIRST = ("modelled", "emulated", "published", "declared", "measured")
UNCHANGED_METRICS = ("power_p95_w", "idle_power_w")  # metrics taken from the repeats unchanged
SUMMED = ("power_w", "energy_j")
NO_METER = "no meter"
GONE = "not measured: "  # prefix of a meter's note that gives the reason


@dataclass(frozen=True, slots=True)
class Spread:
    """Estimate with its relative standard uncertainties from the repeats and from the meter."""

    estimate: float
    repeats: float | None  # None with fewer than two repeats
    meter: float | None  # None if the meter's accuracy is not stated
    n: int

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Return the interval from both uncertainties; it has no bounds for a single repeat."""
        if self.repeats is None:
            return Interval(self.estimate, None, None, self.n)
        variance = self.repeats**2 + (self.meter or 0.0) ** 2
        terms = [(self.repeats, self.n - 1)]
        relative = _quantile(confidence, variance, terms) * math.sqrt(variance)
        if self.estimate > 0:
            return around(self.estimate, relative, self.n)
        half = relative * abs(self.estimate)
        return Interval(self.estimate, self.estimate - half, self.estimate + half, self.n)


@dataclass(frozen=True, slots=True)
class RunEnergy:
    """Energy, time, bytes and operations of one run in its measure window (J, s, B)."""

    run_id: str
    energy_j: float
    uncertainty_j: float | None
    net_j: float | None  # energy above idle
    net_uncertainty_j: float | None
    window_s: float
    moved_bytes: float
    operations: float
    read_off: dict[str, float]  # metrics taken unchanged, such as idle_power_w
    # metrics of the workload family, such as the energy of a checkpoint
    own: dict[str, Metric] = field(default_factory=dict)
    divides: bool = True  # False if data moved during only a part of the window


@dataclass(frozen=True, slots=True)
class Account:
    """Energy and moved data of one target's runs at one workload point and power boundary."""

    boundary: Boundary
    supply: str  # "AC", "DC", or "" if unknown or mixed
    provenance: str
    entries: tuple[RunEnergy, ...]
    runs: int  # finished runs; more than entries if some have no energy
    lost: str  # the meter's reason why a run has no energy; empty if all have
    sensors: tuple[str, ...]
    share_rules: tuple[str, ...]

    @property
    def label(self) -> str:
        """Label of the boundary, such as ``wall (AC)``."""
        return boundary_label(self.boundary, self.supply)

    @property
    def energy_j(self) -> float:
        """Energy of all runs in joules."""
        return math.fsum(e.energy_j for e in self.entries)

    def repeats(self, name: str) -> list[float]:
        """Return the value of a power or efficiency metric in each repeat."""
        if self._divides_nothing(name):
            return []
        return [value for e in self.entries if (value := _of(e, name)) is not None]

    def spread(self, name: str) -> Spread | None:
        """Return a metric over all repeats with its uncertainties.

        None if some repeat lacks the metric, or for data per energy if no data was moved.
        """
        if name in UNCHANGED_METRICS or not self.entries or self._divides_nothing(name):
            return None
        above = [_above(e, name) for e in self.entries]
        below = [_below(e, name) for e in self.entries]
        if any(v is None for v in (*above, *below)):
            return None
        scale = TB_KWH_PER_MB_J if name == "efficiency_tb_kwh" else 1.0
        ratio = ratio_of_sums([v or 0.0 for v in above], [v or 0.0 for v in below])
        if ratio is None:
            return None
        meter = self._meter_of(name)
        return Spread(ratio.estimate * scale, ratio.repeats, meter, ratio.n)

    def value(self, name: str, confidence: float = CONFIDENCE) -> Interval | None:
        """Return a metric with its printable interval; None if it was not measured."""
        values = self.repeats(name)
        if name in UNCHANGED_METRICS:
            return printable(mean_interval(values, confidence), values) if values else None
        spread = self.spread(name)
        if spread is None:
            return None
        meter = normal(0.5 + confidence / 2) * (spread.meter or 0.0)
        return printable(spread.interval(confidence), values, meter)

    def _divides_nothing(self, name: str) -> bool:
        """Return whether a metric is data per energy, but no data was moved (trim, HEAD)."""
        return name in _MOVED and not any(entry.moved_bytes for entry in self.entries)

    def _meter_of(self, name: str) -> float | None:
        """Return the part of a metric's relative standard uncertainty that is due to the meter."""
        own = [entry.own[name] for entry in self.entries if name in entry.own]
        stated = [m.uncertainty for m in own if m.uncertainty is not None]
        if own and len(stated) == len(own) and sum(m.value for m in own) > 0:
            return math.fsum(stated) / math.fsum(m.value for m in own)
        return self.meter_relative(net=name.startswith("efficiency_net"))

    def meter_relative(self, *, net: bool = False) -> float | None:
        """Return the energy's relative standard uncertainty; None if a meter does not state one."""
        uncertainties = [e.net_uncertainty_j if net else e.uncertainty_j for e in self.entries]
        known = [u for u in uncertainties if u is not None]
        total = math.fsum((e.net_j or 0.0) if net else e.energy_j for e in self.entries)
        if len(known) < len(self.entries) or total <= 0:
            return None
        return math.fsum(known) / total


_MOVED = {
    "efficiency_mb_s_w": 1e6,
    "efficiency_tb_kwh": 1e6,
    "efficiency_net_mb_s_w": 1e6,
}


def _above(entry: RunEnergy, name: str) -> float | None:
    if not entry.divides and (name in _MOVED or name in RATES_PER_WATT):
        return None
    if name in _MOVED:
        return entry.moved_bytes / _MOVED[name]
    if name in RATES_PER_WATT:
        return entry.operations
    if name in SUMMED:
        return entry.energy_j
    return entry.own[name].value if name in entry.own else None


def _below(entry: RunEnergy, name: str) -> float | None:
    if name == "power_w":
        return entry.window_s
    if name == "energy_j" or name in entry.own:
        return 1.0
    return entry.net_j if name == "efficiency_net_mb_s_w" else entry.energy_j


def _of(entry: RunEnergy, name: str) -> float | None:
    if name in UNCHANGED_METRICS:
        return entry.read_off.get(name)
    above, below = _above(entry, name), _below(entry, name)
    if above is None or below is None or below <= 0:
        return None
    return above / below * (TB_KWH_PER_MB_J if name == "efficiency_tb_kwh" else 1.0)


def ratio_of_sums(above: Sequence[float], below: Sequence[float]) -> Spread | None:
    """Return the ratio of two sums with its relative standard error; None if the divisor is 0."""
    total = math.fsum(below)
    if not above or total <= 0:
        return None
    n, estimate = len(above), math.fsum(above) / total
    if n < 2 or estimate == 0:
        return Spread(estimate, None if n < 2 else 0.0, None, n)
    left = math.fsum((a - estimate * b) ** 2 for a, b in zip(above, below, strict=True))
    error = math.sqrt(left / (n * (n - 1))) / (total / n)
    return Spread(estimate, max(error / abs(estimate), RESOLUTION), None, n)


def spread_ratio(first: Spread, other: Spread, confidence: float = CONFIDENCE) -> Interval:
    """Return the ratio of two estimates with an interval from the uncertainties of both.

    The interval is computed on a logarithmic scale. A gain error that both estimates share (one
    meter) would cancel, but is not removed: the interval is then wider than necessary.

    Raises:
        ValueError: An estimate is not positive.
    """
    if min(first.estimate, other.estimate) <= 0:
        raise ValueError(f"{first.estimate} / {other.estimate}: both values must be above 0")
    estimate, n = first.estimate / other.estimate, min(first.n, other.n)
    if first.repeats is None or other.repeats is None:
        return Interval(estimate, None, None, n)
    meters = (first.meter or 0.0) ** 2 + (other.meter or 0.0) ** 2
    variance = first.repeats**2 + other.repeats**2 + meters
    terms = [(first.repeats, first.n - 1), (other.repeats, other.n - 1)]
    half = _quantile(confidence, variance, terms) * math.sqrt(variance)
    spread = math.exp(min(half, 700.0))
    return Interval(estimate, estimate / spread, estimate * spread, n)


def _quantile(confidence: float, variance: float, terms: Sequence[tuple[float, int]]) -> float:
    """Return the Student factor at the effective degrees of freedom (Welch and Satterthwaite)."""
    at = 0.5 + confidence / 2
    shares = [(sigma**2 / variance) ** 2 / freedom for sigma, freedom in terms if variance > 0]
    total = math.fsum(shares)
    return student_t(at, 1 / total) if total > 1e-12 else normal(at)


def boundary_label(boundary: str, supply: str) -> str:
    """Return a label such as ``wall (AC)``, or ``wall`` if the supply is unknown."""
    return f"{boundary} ({supply})" if supply else boundary


def unequal(first: Account, other: Account) -> str:
    """Return how the power boundaries of two accounts differ: ``device against wall (AC)``.

    Empty if both meters include the same parts.
    """
    if first.boundary != other.boundary or (
        first.supply and other.supply and first.supply != other.supply
    ):
        return f"{first.label} against {other.label}"
    return ""


def account_of(runs: Sequence[RunData], boundary: Boundary | None) -> Account | None:
    """Collect the energy of finished runs at a power boundary; None if none was metered there."""
    if boundary is None:
        return None
    entries = [e for run in runs if (e := _entry(run.record, boundary)) is not None]
    if not entries:
        return None
    known = {entry.run_id for entry in entries}
    used = [s for r in runs if r.record.run_id in known for s in _summaries(r.record, boundary)]
    words = {
        metric.provenance
        for run in runs
        if (metric := metric_at(run.record, "energy_j", boundary)) is not None
    }
    supplies = {s.info.supply for s in used}
    supply = supplies.pop().upper() if len(supplies) == 1 else ""
    return Account(
        boundary=boundary,
        supply="" if supply == "UNKNOWN" else supply,
        provenance=next((word for word in WEAKEST_FIRST if word in words), "measured"),
        entries=tuple(entries),
        runs=len(runs),
        lost=missing_reason([r for r in runs if r.record.run_id not in known]),
        sensors=tuple(dict.fromkeys(s.info.sensor for s in used)),
        share_rules=tuple(dict.fromkeys(_share(s) for s in used if s.info.share < 1)),
    )


def _share(summary: PowerSummary) -> str:
    rule = f": {summary.info.share_rule}" if summary.info.share_rule else ""
    return f"{100 * summary.info.share:.4g}\u00a0% of {summary.info.sensor}{rule}"


def _entry(record: RunRecord, boundary: Boundary) -> RunEnergy | None:
    energy = metric_at(record, "energy_j", boundary)
    window_s = (record.window_end_ns - record.window_start_ns) / NS_PER_S
    if energy is None or window_s <= 0:
        return None
    net = metric_at(record, "energy_net_j", boundary)
    metrics = (
        (name, metric_at(record, name, boundary)) for name in (*UNCHANGED_METRICS, "power_peak_w")
    )
    page = page_of(record.kind)
    moved = (
        t.bytes for operation, t in record.totals.items() if operation in page.operations.moved
    )
    done = (
        t.operations for operation, t in record.totals.items() if operation in page.operations.main
    )
    return RunEnergy(
        run_id=record.run_id,
        energy_j=energy.value,
        uncertainty_j=energy.uncertainty,
        net_j=None if net is None else net.value,
        net_uncertainty_j=None if net is None else _net_uncertainty_j(record, energy, net),
        window_s=window_s,
        moved_bytes=float(sum(moved)),
        operations=float(sum(done)),
        read_off={name: metric.value for name, metric in metrics if metric is not None},
        own=_own(record, boundary),
        divides=not idles(record, page),
    )


def _net_uncertainty_j(record: RunRecord, energy: Metric, net: Metric) -> float | None:
    """Return the uncertainty of the energy above idle in joules.

    If a run of an older version lacks the uncertainty, it is computed from the meters' accuracy.
    """
    if net.uncertainty is not None or net.boundary is None:
        return net.uncertainty
    idle_w = idle_uncertainty_w(parts_at(record.power, net.boundary))
    window_s = (record.window_end_ns - record.window_start_ns) / NS_PER_S
    return net_uncertainty_j(energy.uncertainty, idle_w, window_s)


def _own(record: RunRecord, boundary: Boundary) -> dict[str, Metric]:
    """Return the power-based quantities that the workload family defines itself, by name."""
    metrics: dict[str, Metric] = {}
    for quantity in page_of(record.kind).metrics.quantities:
        name = quantity.name if quantity.operation == "all" else quantity.key
        if quantity.power and name not in (*SUMMED, *_MOVED):
            metric = metric_at(record, quantity.name, boundary, quantity.operation)
            metrics |= {} if metric is None else {name: metric}
    return metrics


def metric_at(
    record: RunRecord, name: str, boundary: Boundary, operation: str = "all"
) -> Metric | None:
    """Return a run's metric at a power boundary; None if the run does not have it."""
    for metric in record.metrics:
        if (metric.name, metric.operation, metric.boundary) == (name, operation, boundary):
            return metric
    return None


def _summaries(record: RunRecord, boundary: Boundary) -> list[PowerSummary]:
    return [s for s in parts_at(record.power, boundary) if s.energy_j is not None]


def missing_reason(runs: Sequence[RunData]) -> str:
    """Return why these runs have no energy value: the meters' notes, or that no meter exists."""
    if not runs:
        return ""
    notes = [note for run in runs for s in run.record.power for note in s.notes]
    why = [note.removeprefix(GONE) for note in notes if note.startswith(GONE)] or notes
    if why:
        return "; ".join(dict.fromkeys(why))
    return "the meter gave no reading" if any(r.record.power for r in runs) else NO_METER


def choose_boundaries(dataset: Dataset) -> dict[str, Boundary | None]:
    """Choose the power boundary (device, enclosure, host, wall) to show for each target.

    It is the boundary that the runs report, if that is the same for all targets. Otherwise it is
    the widest one at which all metered targets were measured. Without such a common boundary, each
    target keeps the one that its runs report.
    """
    known: dict[str, list[Boundary]] = {column.label: [] for column in dataset.targets}
    for run in dataset.all_runs():
        headline = run.record.power_boundary
        metered_at = [m.boundary for m in run.record.metrics if m.name == "energy_j" and m.boundary]
        for boundary in sorted(metered_at, key=lambda b, h=headline: b != h):  # type: ignore[misc]
            if boundary not in known[run.target]:
                known[run.target].append(boundary)
    metered = [boundaries for boundaries in known.values() if boundaries]
    common = [b for b in WIDEST_FIRST if metered and all(b in boundaries for boundaries in metered)]
    headlines = {boundaries[0] for boundaries in metered}
    agreed = headlines.pop() if len(headlines) == 1 else next(iter(common), None)
    return {
        label: (agreed or boundaries[0]) if boundaries else None
        for label, boundaries in known.items()
    }


def headline_boundaries(dataset: Dataset) -> dict[str, Boundary | None]:
    """Return the power boundary that each target's runs report; None without a meter."""
    headlines: dict[str, Boundary | None] = {column.label: None for column in dataset.targets}
    for run in dataset.all_runs():
        headlines[run.target] = headlines[run.target] or run.record.power_boundary
    return headlines
