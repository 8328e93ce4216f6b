"""Arrange points over time: values, change points, and facts that changed at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from storlab.analysis.changes import change_points, level
from storlab.analysis.columns import COLUMNS, Column, label_of
from storlab.analysis.compare import PLACES
from storlab.analysis.efficiency import boundary_label
from storlab.analysis.environments import Candidate, Difference, between
from storlab.analysis.points import Section, WorkloadPoint, sections_of
from storlab.analysis.stats import RESOLUTION, ratio_interval
from storlab.contracts.registry import FAMILIES
from storlab.history.record import PointRecord, Record, Value, kept_keys
from storlab.model.decision import Decision, Interval
from storlab.words.history import Levels
from storlab.workloads.common.flags import STATE_FLAGS

NEAR = 2  # results around a change that are searched for causes
NEWEST = 2000  # results of a point that are searched for changes


@dataclass(frozen=True, slots=True)
class Campaign:
    """One result directory of a history, with its record."""

    directory: str
    record: Record


@dataclass(frozen=True, slots=True)
class Result:
    """Values of one point in one result directory, with the time of its first run."""

    campaign: Campaign
    point: PointRecord
    time: datetime


class Shift(Decision):
    """Change of one quantity's level over time, as the ratio of the level after to that before.

    It exists only if the test for change points found a change; ``outcome`` is its direction.
    """

    index: int
    """First result of the new level."""
    chance: float
    """Probability that noise alone gives as large a change."""
    before: float
    """Old level."""
    after: float
    """New level."""
    candidates: tuple[Candidate, ...] = Field(exclude=True)
    boundary: str = ""
    """Power boundary of the meter; empty for other quantities."""

    @property
    def column(self) -> Column:
        """Column that describes the quantity: label, unit, and whether less is better."""
        return COLUMNS[PLACES[self.quantity]]

    @property
    def levels(self) -> Levels:
        """Level before and after the change, with their unit."""
        return Levels(self.before, self.after, self.column.unit)

    @property
    def verdict(self) -> Literal["better", "worse", ""]:
        """``better`` or ``worse``; empty if neither more nor less of the quantity is better."""
        if not self.better or self.before == self.after:
            return ""
        return "better" if self.outcome == "better" else "worse"


@dataclass(frozen=True, slots=True)
class Series:
    """One quantity of a point over time; ``places`` are the indices of results with a value."""

    column: Column
    title: str
    places: list[int]
    intervals: list[Interval]  # one per place
    shifts: list[Shift]
    boundary: str = ""  # power boundary; each has a series of its own


@dataclass
class PointHistory:
    """Results of one target at one workload point, in time order."""

    work: WorkloadPoint
    target: str
    section: Section
    results: list[Result]
    series: list[Series] = field(default_factory=list)

    @property
    def where(self) -> str:
        """Text that names the point's parameters, as in the brief."""
        return self.section.where(self.work)

    @property
    def runs(self) -> int:
        """Number of finished runs in all results."""
        return sum(result.point["runs"] for result in self.results)

    @cached_property
    def seconds(self) -> list[float]:
        """Start of each result in seconds since 1970."""
        return [result.time.timestamp() for result in self.results]

    @property
    def headline(self) -> Series | None:
        """Main quantity of the point over time; None if no run finished."""
        return self.series[0] if self.series else None

    @cached_property
    def shifts(self) -> list[Shift]:
        """Changes of level of all quantities, newest first; if equal, the main quantity's first."""
        shifts = [shift for series in self.series for shift in series.shifts]
        return sorted(shifts, key=lambda shift: -shift.index)


@dataclass(frozen=True, slots=True)
class History:
    """Points and result directories that a history site shows."""

    points: list[PointHistory]  # newest change first
    campaigns: list[Campaign]  # newest first


def history_of(records: Mapping[str, Record]) -> History:
    """Build a history from the records of result directories, by directory path.

    Points of several directories belong together if target, workload name, engine and parameters
    are equal.
    """
    campaigns = [Campaign(directory, record) for directory, record in records.items()]
    campaigns.sort(key=lambda c: (_started(c.record), c.directory), reverse=True)
    works: dict[str, WorkloadPoint] = {}
    keys: dict[tuple[str, str, str, str], str] = {}  # cache of workload keys by cheaper identifiers
    by_point: dict[tuple[str, str], list[Result]] = {}
    for campaign in campaigns:
        for point in campaign.record["points"]:
            if point["kind"] not in FAMILIES:
                continue
            alike = (point["point_id"], point["workload"], point["kind"], point["engine"])
            if alike not in keys:
                work = _work(point)
                keys[alike] = works.setdefault(work.key, work).key
            time = _time(point["started_at"] or campaign.record["created_at"])
            results = by_point.setdefault((keys[alike], point["target"]), [])
            results.append(Result(campaign, point, time))
    places = {
        p.key: section for section in sections_of(list(works.values())) for p in section.points
    }
    points = [
        _point(works[key], target, places[key], results)
        for (key, target), results in by_point.items()
    ]
    points.sort(key=_newest_change, reverse=True)
    return History(points, campaigns)


def _started(record: Record) -> datetime:
    starts = [point["started_at"] for point in record["points"] if point["started_at"]]
    return _time(min(starts, default=record["created_at"]))


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _work(point: PointRecord) -> WorkloadPoint:
    return WorkloadPoint(point["workload"], point["kind"], point["engine"], point["params"])


def _newest_change(point: PointHistory) -> tuple[float, float]:
    newest = [point.results[shift.index].time.timestamp() for shift in point.shifts[:1]]
    return (newest[0] if newest else 0.0, point.results[-1].time.timestamp())


def _point(
    work: WorkloadPoint, target: str, section: Section, results: list[Result]
) -> PointHistory:
    results.sort(key=lambda result: (result.time, result.campaign.directory))
    point = PointHistory(work, target, section, results)
    steps = _Steps(target, work.engine, results)
    for key in kept_keys(work.page):
        column = COLUMNS[PLACES[key]]
        for boundary, places in _by_boundary(results, key).items():
            intervals = [_interval(results[place].point["values"][key]) for place in places]
            shifts = [
                shift.model_copy(update={"boundary": boundary})
                for shift in _shifts(column, places, intervals, steps)
            ]
            at = f" at the {boundary}" if boundary else ""
            title = label_of(work.page, column, whole=True) + at
            point.series.append(Series(column, title, places, intervals, shifts, boundary))
    return point


def _by_boundary(results: Sequence[Result], key: str) -> dict[str, list[int]]:
    """Return the indices of results with a value of a quantity, by power boundary and supply.

    The key is a label such as "wall (AC)", and "" for quantities without a boundary. If a value's
    supply is unknown, that of the others at its boundary is assumed, provided they agree.
    """
    values = [(place, result.point["values"].get(key)) for place, result in enumerate(results)]
    measured = [
        (place, value.get("boundary", ""), value.get("supply", ""))
        for place, value in values
        if value is not None
    ]
    supplies: dict[str, set[str]] = {}
    for _, boundary, supply in measured:
        supplies.setdefault(boundary, set()).update({supply} - {""})
    places: dict[str, list[int]] = {}
    for place, boundary, supply in measured:
        known = supplies[boundary]
        label = boundary_label(boundary, next(iter(known)) if len(known) == 1 else supply)
        places.setdefault(label, []).append(place)
    return places


def _interval(value: Value) -> Interval:
    return Interval(value["estimate"], value["low"], value["high"], len(value["runs"]))


def _shifts(
    column: Column, places: Sequence[int], intervals: Sequence[Interval], steps: _Steps
) -> Iterator[Shift]:
    newest = places[-NEWEST:]
    values = [interval.estimate for interval in intervals[-NEWEST:]]
    changes = change_points(values)
    ends = [0, *(change.index for change in changes), len(values)]
    for change, start, end in zip(changes, ends, ends[2:], strict=False):
        before, after = values[start : change.index], values[change.index : end]
        means = level(before), level(after)
        ratio = ratio_interval(after, before) if min(*before, *after) > 0 else None
        if ratio is not None and abs(ratio.estimate - 1) < RESOLUTION:
            continue  # smaller than the resolution of a value
        place = newest[change.index]
        evidence = tuple(steps.around(place, newest[change.index - 1]))
        grew = means[1] > means[0]
        yield Shift(
            quantity=column.key,
            better=column.better,
            sides=("after", "before"),
            outcome="better" if grew == (column.better != "less") else "worse",
            interval=ratio,
            index=place,
            chance=change.chance,
            before=means[0],
            after=means[1],
            candidates=evidence,
        )


class _Steps:
    """Changes of facts, such as the kernel version, between consecutive results of a point."""

    def __init__(self, target: str, engine: str, results: Sequence[Result]) -> None:
        self._facts = list(_facts_of(target, engine, results))
        self._changes: dict[int, list[Difference]] = {}

    @cached_property
    def _counts(self) -> Counter[str]:
        steps = range(1, len(self._facts))
        return Counter(change.field for place in steps for change in self._at(place))

    def _at(self, place: int) -> list[Difference]:
        if place not in self._changes:
            before, after = self._facts[place - 1], self._facts[place]
            same = before is after or not before or not after
            self._changes[place] = [] if same else between(after, before)
        return self._changes[place]

    def around(self, place: int, last_before: int) -> Iterator[Candidate]:
        """Yield changed facts that may have caused a change of level, most likely ones first.

        Facts that changed nearest in time come first; of equally near ones, those that change
        rarely.

        Args:
            place: Index of the first result of the new level.
            last_before: Index of the last result of the old level; results in between may lack the
                quantity.
        """
        near: dict[str, Candidate] = {}
        steps = range(max(1, last_before + 1 - NEAR), min(len(self._facts), place + NEAR + 1))
        for step in steps:
            offset = step - place if step > place else min(0, step - last_before - 1)
            for difference in self._at(step):
                name = difference.field
                candidate = Candidate(difference, offset, self._counts[name] - 1)
                if name not in near or abs(offset) < abs(near[name].offset):
                    near[name] = candidate
        yield from sorted(near.values(), key=lambda c: (abs(c.offset), c.elsewhere))


def _facts_of(target: str, engine: str, results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """Yield for each result the facts that concern one target and engine; empty if imported.

    Flags on the state of drives and machine are facts, too. Equal facts of consecutive results are
    the same object, so that they compare fast.
    """
    last: tuple[Any, ...] = ()
    facts: dict[str, Any] = {}
    for result in results:
        record, flags = result.campaign.record, STATE_FLAGS.intersection(result.point["flags"])
        if (record["facts"], flags) != last:
            last = record["facts"], flags
            facts = {} if record["imported"] else dict(_own(target, engine, record["facts"]))
            if facts:
                facts |= {kind: "yes" if kind in flags else "no" for kind in STATE_FLAGS}
        yield facts


def _own(target: str, engine: str, facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    of_target, of_engine = f"targets.{target}.", f"engines.{engine}."
    for path, value in facts.items():
        if path.startswith(of_target):
            yield path.removeprefix(of_target), value
        elif path.startswith(of_engine):
            yield f"engine.{path.removeprefix(of_engine)}", value
        elif not path.startswith(("targets.", "engines.")):
            yield path, value
