"""Rack density: how many targets fit into a rack, and the rack's capacity, power and throughput.

Values per rack multiply one target by a count. They are modelled, because the parts that the
targets would share (network, hosts, cooling) were not measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.dataset import TargetColumn
from storlab.base.units import TB
from storlab.model.decision import Interval
from storlab.model.rack_and_cost import Rack
from storlab.model.study import Target

MONEY = 1000.0  # throughput is given per 1,000 units of currency


@dataclass(frozen=True, slots=True)
class RackFit:
    """Number of copies of one target that fit into the rack, by height and by power.

    A field is None if the fact that it needs is not declared or measured.
    """

    label: str
    capacity_tb: float | None
    rack_units: float | None
    busy_w: float | None  # at the busiest point: the 95th percentile of readings, else the mean
    busy_is_p95: bool
    busy_provenance: str  # provenance of busy_w
    busy_point: str | None  # point whose runs gave busy_w
    boundary: str  # such as "wall (AC)"; empty without power
    idle_w: float | None
    by_height: int | None
    by_power: int | None

    @property
    def count(self) -> int | None:
        """Number of targets that fit into the rack; None if their height is not declared."""
        if self.by_height is None:
            return None
        return self.by_height if self.by_power is None else min(self.by_height, self.by_power)

    @property
    def limit(self) -> str:
        """Constraint that limits the count: height, power or both."""
        if self.by_height is None:
            return ""
        if self.by_power is None:
            return "height"
        if self.by_power == self.by_height:
            return "both"
        return "power" if self.by_power < self.by_height else "height"


def rack_of(comparison: Comparison) -> Rack:
    """Return the study's rack; by default 42 units without a power budget."""
    declared = (store.study.rack for store in comparison.dataset.stores)
    return next((rack for rack in declared if rack is not None), Rack())


def fit(comparison: Comparison, column: TargetColumn) -> RackFit:
    """Calculate how one target fits into the rack."""
    rack, target = rack_of(comparison), column.target
    cells = [row.cells[column.label] for row in comparison.rows.values()]
    accounts = [cell.power for cell in cells if cell.power is not None]
    p95 = [value for a in accounts for value in a.repeats("power_p95_w")]
    mean = [value for a in accounts for value in a.repeats("power_w")]
    idle = [value for a in accounts for value in a.repeats("idle_power_w")]
    complete = len(p95) == len(mean) > 0
    name = "power_p95_w" if complete else "power_w"
    repeats = [(v, c.point_id) for c in cells if c.power for v in c.power.repeats(name)]
    busy, point_id = max(repeats, key=lambda pair: pair[0], default=(None, None))
    words = sorted({a.provenance for a in accounts} - {"measured"})
    budget = rack.power_budget
    return RackFit(
        label=column.label,
        capacity_tb=None if target.capacity is None else target.capacity / TB,
        rack_units=target.rack_units,
        busy_w=busy,
        busy_is_p95=complete,
        busy_provenance=words[0] if words else "measured",
        busy_point=point_id,
        boundary=accounts[0].label if accounts else "",
        idle_w=sum(idle) / len(idle) if idle else None,
        by_height=None if target.rack_units is None else _times(rack.units, target.rack_units),
        by_power=None if budget is None or not busy else _times(budget, busy),
    )


def _times(whole: float, part: float) -> int:
    """Return how often a part fits; a tolerance absorbs rounding, so that 42 / 0.1 gives 420."""
    return math.floor(whole / part * (1 + 1e-12))


def scaled(interval: Interval | None, factor: float | None) -> Interval | None:
    """Multiply an interval by a factor; None if one of them is missing."""
    if interval is None or factor is None:
        return None
    low = None if interval.low is None else interval.low * factor
    high = None if interval.high is None else interval.high * factor
    return replace(interval, estimate=interval.estimate * factor, low=low, high=high)


def per_tb(cell: Cell, target: Target, key: str) -> Interval | None:
    """Return a measured value per TB (10^12 B) of the target's raw capacity."""
    return scaled(cell.values.get(key), None if not target.capacity else TB / target.capacity)


def per_rack_unit(cell: Cell, target: Target, key: str) -> Interval | None:
    """Return a measured value per rack unit of the target."""
    return scaled(cell.values.get(key), None if not target.rack_units else 1 / target.rack_units)


def per_money(cell: Cell, target: Target, key: str) -> Interval | None:
    """Return a measured value per 1,000 currency units of the target's storage price."""
    price = target.storage_price
    return scaled(cell.values.get(key), MONEY / price if price else None)


def costs(target: Target) -> list[tuple[str, float]]:
    """Return the declared costs of servers, network and storage, in the target's currency."""
    cost = target.cost
    if cost is None:
        return []
    parts = (
        ("servers", cost.servers),
        ("network", cost.network),
        ("storage", target.storage_price),
    )
    return [(name, value) for name, value in parts if value is not None]


def whole_cost(target: Target) -> float | None:
    """Return the total declared cost of a target; its price if no parts are declared."""
    parts = [value for _, value in costs(target)]
    return sum(parts) if parts else target.storage_price


def per_usable_tb(cell: Cell, target: Target, key: str) -> Interval | None:
    """Return a measured value per TB of the target's usable capacity."""
    return scaled(cell.values.get(key), None if not target.usable else TB / target.usable)


def cost_per(cell: Cell, target: Target, key: str, factor: float = 1.0) -> Interval | None:
    """Return a target's total cost divided by (measured value x ``factor``)."""
    cost, value = whole_cost(target), cell.values.get(key)
    if cost is None or value is None or value.estimate <= 0:
        return None
    low = None if value.high is None else cost / (value.high * factor)
    high = None if not value.low else cost / (value.low * factor)
    if low is None or high is None:
        low = high = None
    return replace(value, estimate=cost / (value.estimate * factor), low=low, high=high)


def currencies(targets: Sequence[Target]) -> list[str]:
    """Return the currencies in use, in the order of the study."""
    return list(dict.fromkeys(t.currency for t in targets if t.storage_price or costs(t)))
