"""Offered load of open loops, and the points in closed loop from which load levels take their rate.

The rate of a point with a load level is known only when the maximum has been measured: it is that
percentage of the mean rate of the closed-loop runs with the same parameters on the same target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean

from storlab.analysis.points import page_of
from storlab.base.errors import ResultError
from storlab.model.point import PlannedRun, Point
from storlab.model.result import OfferedLoad, RunRecord


def level_of(of: Point | RunRecord) -> float | None:
    """Return the load level of a point in percent of the maximum; None without a load level."""
    level: float | None = of.params.get(page_of(of.kind).load.level)
    return level


def offered_rate(record: RunRecord) -> float | None:
    """Return the rate that a run offered, in operations per second of all clients together.

    None if the run was a closed loop.
    """
    if record.offered is not None:
        return record.offered.rate_s
    rate = record.params.get(page_of(record.kind).load.open_loop)
    return rate * (record.clients or 1) if isinstance(rate, int | float) else None


def maxima_of(points: Collection[Point]) -> dict[str, Point]:
    """Return the point in closed loop that finds the maximum, by id of each with a load level.

    If several engines run it, as in a crosscheck, it is that of the native engine, so that all of
    them offer the same load.
    """
    levels = [point for point in points if level_of(point) is not None]
    closed: dict[str, Point] = {}
    for point in points if levels else ():
        if level_of(point) is None and (point.engine == "native" or _work(point) not in closed):
            closed[_work(point)] = point
    return {point.point_id: closed[_work(point)] for point in levels}


def _work(point: Point) -> str:
    """Return a key that is equal for a point with a load level and those that find its maximum."""
    level = page_of(point.kind).load.level
    params = {name: value for name, value in point.params.items() if name != level}
    return point.model_copy(update={"engine": "", "params": params}).point_id


def with_maxima(points: Collection[Point], every: Collection[Point]) -> list[Point]:
    """Add the points that find the maxima of load levels to a selection from ``every`` point."""
    chosen = {point.point_id for point in points}
    maxima = maxima_of(every)
    wanted = chosen | {maximum.point_id for level, maximum in maxima.items() if level in chosen}
    return [point for point in every if point.point_id in wanted]


def maxima_first(runs: Iterable[PlannedRun], points: Mapping[str, Point]) -> list[PlannedRun]:
    """Put the runs in closed loop that find maxima before all others, and renumber all runs.

    The rates of load levels can then be taken from all repeats of the maximum.
    """
    works = {_work(maximum) for maximum in maxima_of(points.values()).values()}
    first = {
        point_id
        for point_id, point in points.items()
        if works and level_of(point) is None and _work(point) in works
    }
    every = sorted(runs, key=lambda run: run.point_id not in first)
    return [run.model_copy(update={"order": order}) for order, run in enumerate(every)]


def load_of(point: Point, maximum: Sequence[RunRecord]) -> OfferedLoad:
    """Return the load that a point with a load level offers.

    Args:
        point: Point with a load level.
        maximum: Stored runs of the point that finds the maximum.

    Raises:
        ResultError: None of these runs finished.
    """
    key = page_of(point.kind).operations.rate.name
    rates = {
        record.run_id: rate
        for record in maximum
        if record.status == "finished" and (rate := record.metric(key))
    }
    if not rates:
        raise ResultError(
            f"workload {point.workload} on {point.target}",
            "has no rate for its load levels: no run in closed loop finished, so the maximum is "
            "not known",
            "repeat the failed runs: storlab resume DIR --retry-failed",
        )
    mean = fmean(rates.values())
    return same_maximum(point, OfferedLoad(rate_s=0, maximum_s=mean, maximum_runs=[*rates]))


def same_maximum(point: Point, load: OfferedLoad) -> OfferedLoad:
    """Return the load that a point offers if another load level has the given maximum."""
    return load.model_copy(update={"rate_s": load.maximum_s * (level_of(point) or 0.0) / 100})


def at_rate(point: Point, rate_s: float) -> Point:
    """Return a point as an open loop with a rate.

    Args:
        point: Point of a family with an open loop.
        rate_s: Operations per second, of all clients together.
    """
    name = page_of(point.kind).load.open_loop
    params = {**point.params, name: rate_s / (point.clients or 1)}
    return point.model_copy(update={"params": params})
