"""Intervals that a gate checks against a bound: a value, or its ratio to the baseline.

As in a brief, the interval of a power metric combines the spread of the repeats with the meter's
uncertainty. Ratios across different power boundaries are refused unless the studies accept them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from storlab.analysis.columns import COMMON, NET, RATES_PER_WATT, Column
from storlab.analysis.compare import Cell
from storlab.analysis.efficiency import (
    UNCHANGED_METRICS,
    Account,
    Spread,
    account_of,
    spread_ratio,
    unequal,
)
from storlab.analysis.stats import mean_interval, ratio_interval
from storlab.model.decision import Interval

_ONE_REPEAT = "one repeat has no interval"
_OF_ANY_WORK = {column.name for column in (*COMMON, NET) if column.is_power} | RATES_PER_WATT


@dataclass(frozen=True, slots=True)
class Measured:
    """Interval and repeats of a value that a gate checks; ``reason`` if it has no interval."""

    interval: Interval | None
    reason: str = ""
    values: Sequence[float] = ()
    against: Sequence[float] = ()  # values of the baseline, for a ratio
    meter: float = 0.0  # relative standard uncertainty of the meter, which repeats do not reduce
    boundaries: str = ""  # power boundaries that the ratio crosses: "device against wall"


def measured(cell: Cell, column: Column, confidence: float) -> Measured:
    """Return the interval of one target's value at a point, in the unit of its column."""
    values = cell.repeats(column)
    if not values:
        return Measured(None, cell.why_missing(column))
    spread = _spread(cell.power, column)
    if spread is not None:
        return _known(spread.interval(confidence), _ONE_REPEAT, values, meter=spread.meter or 0.0)
    if column.is_power and column.account_name not in UNCHANGED_METRICS:
        return Measured(None, "some of its runs have no value")
    interval = mean_interval(values, confidence)
    if column.percent is not None:
        interval = interval.around(cell.values[column.key].estimate)
    return _known(interval, _ONE_REPEAT, values)


def ratio(
    cell: Cell, base: Cell | None, column: Column, confidence: float, *, accepted: bool
) -> Measured:
    """Return the interval of the ratio of a target's value to the baseline's at the same point.

    Args:
        cell: Results of the target at the point.
        base: Baseline of the same target and point, if there is one.
        column: Metric to divide.
        confidence: Confidence of the interval.
        accepted: Whether ratios across unequal power boundaries are allowed.
    """
    values = cell.repeats(column)
    if not values:
        return Measured(None, cell.why_missing(column))
    if base is None or not base.planned:
        return Measured(None, "the baseline has no such point")
    account = _counterpart(cell, base) if column.is_power else None
    against = base.repeats(column) if account is None else account.repeats(column.account_name)
    if not against:
        return Measured(None, f"no value of the baseline: {base.why_missing(column)}")
    if min(*values, *against) <= 0:
        return Measured(None, "a value of 0 has no ratio")
    differs = unequal(cell.power, account) if cell.power and account else ""
    if differs and not accepted:
        why = "such a ratio compares different things (accept_unequal_boundaries of both studies)"
        return Measured(None, f"{differs}: {why}", boundaries=differs)
    spreads = _spread(cell.power, column), _spread(account, column)
    why = "one repeat on a side has no interval"
    if spreads[0] is not None and spreads[1] is not None:
        interval = spread_ratio(spreads[0], spreads[1], confidence)
        meter = sum((spread.meter or 0.0) ** 2 for spread in spreads if spread) ** 0.5
        return _known(interval, why, values, against, meter=meter, boundaries=differs)
    if column.is_power and column.account_name not in UNCHANGED_METRICS:
        return Measured(None, "some runs of the target or of the baseline have no value")
    interval = ratio_interval(values, against, confidence)
    here, there = (side.values[column.key].estimate for side in (cell, base))
    interval = interval.around(here / there)
    return _known(interval, why, values, against, boundaries=differs)


def _known(
    interval: Interval,
    reason: str,
    values: Sequence[float],
    against: Sequence[float] = (),
    *,
    meter: float = 0.0,
    boundaries: str = "",
) -> Measured:
    reason = "" if interval.is_known else reason
    return Measured(interval, reason, values, against, meter, boundaries)


def _spread(account: Account | None, column: Column) -> Spread | None:
    return account.spread(column.account_name) if account and column.is_power else None


def _counterpart(cell: Cell, base: Cell) -> Account | None:
    """Return the baseline's energy account, if possible at the power boundary of the results."""
    boundary = None if cell.power is None else cell.power.boundary
    return account_of(base.runs, boundary) or base.power


def partly_missing(cell: Cell, column: Column) -> Iterator[str]:
    """Yield a remark if only some of the runs have a value."""
    runs, known = len(cell.runs), len(cell.repeats(column))
    if 0 < known < runs:
        lost = f": {cell.power.lost}" if column.is_power and cell.power and cell.power.lost else ""
        yield f"{runs - known} of {runs} runs have no value of it{lost}"


def is_due(column: Column, cell: Cell, base: Cell | None, others: Iterable[Cell]) -> bool:
    """Return whether a gate must check a target at a point, even if its value is missing.

    A value that should have been measured is checked too, so that a rule cannot pass because a
    meter failed.

    Args:
        column: Metric of the rule.
        cell: Results of the target at the point.
        base: Baseline of the same target and point, if there is one.
        others: Results of the same workload family whose targets have meters.
    """
    if column.key in cell.values or not cell.measured or cell.repeats(column):
        return True
    if base is not None and column.key in base.values:
        return True
    if not column.is_power:
        return False
    return any(
        column.key in other.values
        and (cell.power is None or (column.name in _OF_ANY_WORK and _divides(cell, other)))
        for other in others
    )


def _divides(cell: Cell, other: Cell) -> bool:
    """Return whether data moved during the entire window in both results, or in neither.

    Otherwise the rates per watt of the two results are not comparable.
    """
    first, second = (
        all(entry.divides for entry in measured.power.entries) if measured.power else True
        for measured in (cell, other)
    )
    return first == second
