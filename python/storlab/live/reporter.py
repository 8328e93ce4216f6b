"""Collect the reports of a running campaign, and publish them to the live page once per second."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from typing_extensions import override

from storlab.analysis.dips import LEAST_INTERVALS, find_dips
from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.units import NS_PER_MS, NS_PER_S
from storlab.contracts.registry import FAMILIES
from storlab.contracts.reporter import Gauge, Reporter
from storlab.lab.run.progress import Names, rate_unit
from storlab.live.feed import MOMENT, MOST_MOMENTS, MOST_RUNS, Feed
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import RunRecord, Snapshot
from storlab.process.defect import DEFECTS
from storlab.workloads.common.metrics import FLUSH

PERIOD_S = 1.0
SHADES = 9
SHADING = 0.4
Held = Callable[[RunRecord], Mapping[str, Sequence[tuple[float, float]]]]
"""Function that returns when each kind of flag applied in a stored run, in s of its window."""
MOVED = {"read": "device_read_s", "written": "device_written_s"}


class FeedReporter(Reporter):
    """Reporter that stores each report without delay; a thread publishes them to the feed."""

    def __init__(
        self, feed: Feed, names: Names, held: Held | None = None, period_s: float = PERIOD_S
    ) -> None:
        self._feed = feed
        self._names = names
        self._held_of = held
        # Runs with flags; the times at which the flags applied have not been read yet.
        self._flagged = deque[tuple[int, RunRecord]]()
        self._held: dict[int, dict[str, list[list[int]]]] = {}
        self._period_s = period_s
        # Latest snapshot, with the run to which it belongs.
        self._snapshot: tuple[dict[str, Any] | None, Snapshot] | None = None
        self._read: Callable[[], Sequence[Gauge]] = tuple
        self._counts = {"planned": 0, "done": 0, "failed": 0}
        self._left_ns = self._expected_ns = 0
        self._run: dict[str, Any] | None = None
        self._target = self._phase = ""  # of the current or else the last run
        self._started_ns = 0
        self._counted: tuple[int, dict[tuple[str, str, str], float]] = (0, {})
        self._course = _Course()
        self._step: dict[str, Any] | None = None
        self._wall_ns = wall_at_ns(0)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, name="storlab-live", daemon=True)

    def __enter__(self) -> FeedReporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        news = self._when_flags_held()
        self._feed.news(stage="concludes", run=None, step=None, phase="", left_s=0.0, **news)

    @override
    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        self._left_ns = left_ns
        self._counts |= {"planned": runs, "done": done}
        self._feed.news(**self._counts, earlier=done, left_s=left_ns / NS_PER_S)

    @override
    def step(self, text: str, total: float | None = None) -> None:
        self._run = self._snapshot = None  # a run whose target vanished ends without a record
        self._step = {"text": text, "done": 0.0, "total": total}
        self._feed.news(step=dict(self._step), stage="prepares", run=None, phase="")

    @override
    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        if self._step is not None:
            self._step["done"] = done
        self._snapshot = None if snapshot is None else (None, snapshot)

    @override
    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:
        self._step = self._snapshot = None
        self._started_ns, self._expected_ns = monotonic_ns(), expected_ns
        self._target, self._phase = point.target, ""
        self._course = self._course.next(has_dips=not FAMILIES[point.kind].fixed_work)
        self._run = {
            "id": run.run_id,
            "number": run.order,
            "target": point.target,
            "workload": point.workload,
            "name": self._names(run, point),
            "unit": rate_unit(point.kind),
            "expected_s": expected_ns / NS_PER_S,
            "at_ms": self._wall_ms(),
        }
        self._feed.news(run=self._run, step=None, stage="runs")

    @override
    def run_progress(self, snapshot: Snapshot) -> None:
        self._snapshot = (self._run, snapshot)

    @override
    def run_ended(self, record: RunRecord) -> None:
        run, self._run, self._snapshot, self._phase = self._run, None, None, ""
        self._left_ns = max(0, self._left_ns - self._expected_ns)
        self._counts["done"] += 1
        self._counts["failed"] += record.status == "failed"
        name, number = ("", None) if run is None else (run["name"], run["number"])
        row = run_row(record, name, number)
        if record.flags and number is not None:
            self._flagged.append((number, record))
        self._feed.run_ended(row, **self._counts, run=None, phase="", left_s=self._left_s())

    @override
    def gauges(self, read: Callable[[], Sequence[Gauge]]) -> None:
        self._read = read

    @override
    def note(self, text: str) -> None:
        self._feed.note(text)

    def tick(self) -> None:
        """Publish the next values of the time series: latest snapshot and present gauges."""
        run, step = self._run, self._step
        kept, self._snapshot = self._snapshot, None
        # A run may have ended since the snapshot was taken, so check that it is of this run.
        snapshot = kept[1] if kept is not None and kept[0] is run else None
        moment: dict[str, Any] = {"at_ms": self._wall_ms()}
        if snapshot is not None:
            self._phase = snapshot.phase if run is not None else ""
            moment["cpu_percent"] = _rounded(snapshot.cpu_percent)
        # In the drain there are no new intervals; the last one has been published.
        if snapshot is not None and snapshot.phase != "drain":
            moment |= {
                "bytes_s": _rounded(snapshot.bytes_s, 0),
                "operations_s": _rounded(snapshot.operations_s, 1),
                "p99_ns": snapshot.latency_p99_ns,
                "flush_p99_ns": snapshot.flush_p99_ns,
                "heat": heat_of(snapshot.latency_bins),
            }
        gauges = self._ask()
        own = [gauge for gauge in gauges if gauge.target == self._target]
        power = next((gauge.value for gauge in own if gauge.kind == "power"), None)
        warmest = max((gauge.value for gauge in own if gauge.kind == "temperature"), default=None)
        moment |= {
            **self._moved(gauges),
            "power_w": _rounded(power),
            "celsius": _rounded(warmest),
            "phase": self._phase,
            "run": None if run is None else run["number"],
        }
        news = {"left_s": self._left_s(), "step": None if step is None else dict(step)}
        news |= self._course.goes_on(moment) | self._when_flags_held()
        values = [moment.get(name) for name in MOMENT]
        self._feed.moment(values, gauges, phase=self._phase, **news)

    def _moved(self, gauges: Sequence[Gauge]) -> dict[str, int]:
        """Return bytes/s read and written on the target's devices since the previous call."""
        before_ns, before = self._counted
        now_ns, moved = monotonic_ns(), [gauge for gauge in gauges if gauge.kind in MOVED]
        self._counted = now_ns, {(g.kind, g.target, g.place): g.value for g in moved}
        length_s = max(1, now_ns - before_ns) / NS_PER_S
        rates: dict[str, int] = {}
        for (kind, target, place), value in self._counted[1].items():
            if target == self._target and (kind, target, place) in before:
                more = max(0.0, value - before[kind, target, place]) / length_s
                rates[MOVED[kind]] = rates.get(MOVED[kind], 0) + round(more)
        return rates

    def _when_flags_held(self) -> dict[str, Any]:
        """Return the times at which each run's flags applied, as a changed field of the state.

        The result is empty unless a run with flags has ended since the previous call.
        """
        if self._held_of is None or not self._flagged:
            return {}
        held = dict(self._held)
        while self._flagged:
            number, record = self._flagged.popleft()
            start_ms = (record.window_start_ns + self._wall_ns) / NS_PER_MS
            held[number] = {
                kind: [[round(start_ms + 1000 * second) for second in span] for span in spans]
                for kind, spans in self._held_of(record).items()
            }
        self._held = dict(list(held.items())[-MOST_RUNS:])
        return {"held": self._held}

    def _live(self) -> None:
        while not self._end.wait(self._period_s):
            self.tick()

    def _ask(self) -> list[Gauge]:
        try:
            return list(self._read())
        except DEFECTS:  # a meter failed; its thread reports the error
            return []

    def _left_s(self) -> float:
        passed = 0 if self._run is None else monotonic_ns() - self._started_ns
        return round(max(0, self._left_ns - min(passed, self._expected_ns)) / NS_PER_S, 1)

    def _wall_ms(self) -> int:
        return (monotonic_ns() + self._wall_ns) // NS_PER_MS


class _Course:
    """Throughput during the present run's window, and dips in it and in earlier runs.

    Only the publishing thread adds values; the campaign's thread creates an object for each run.
    """

    def __init__(
        self, earlier: Sequence[list[int]] = (), before_ms: int = 0, *, has_dips: bool = False
    ) -> None:
        self._earlier, self._own = earlier[-MOST_MOMENTS:], list[list[int]]()
        self._has_dips = has_dips
        self._before_ms = before_ms  # time of the last values before this run's first
        self._moments: deque[tuple[int, int, float, float]] = deque(maxlen=MOST_MOMENTS)

    def next(self, *, has_dips: bool) -> _Course:
        """Return the object for the next run, which takes over the dips of earlier runs.

        Args:
            has_dips: Whether to look for dips; workloads of fixed work have none.
        """
        return _Course([*self._earlier, *self._own], self._before_ms, has_dips=has_dips)

    def goes_on(self, moment: dict[str, Any]) -> dict[str, Any]:
        """Add the newest values; return the dips of all runs if those of this run changed.

        The dips are returned as a changed field of the state; otherwise the result is empty.
        """
        before, now = self._before_ms, moment["at_ms"]
        self._before_ms = now
        moved: float | None = moment.get("bytes_s")
        done: float | None = moment.get("operations_s")
        if moment["phase"] != "measure" or not self._has_dips:
            return {}
        if moved is None or done is None:
            return {}
        self._moments.append((before, now, moved, done * (now - before) / 1000))
        if len(self._moments) < LEAST_INTERVALS:
            return {}
        dips = find_dips([m[2] for m in self._moments], [m[3] for m in self._moments])
        own = [[self._moments[dip[0]][0], self._moments[dip[-1]][1]] for dip in dips]
        if own == self._own:
            return {}
        self._own = own
        return {"dips": [*self._earlier, *own]}


class Beside(Reporter):
    """Reporter that passes every report to two others, in order."""

    def __init__(self, first: Reporter, second: Reporter) -> None:
        self._both = (first, second)
        self._stack = ExitStack()

    def __enter__(self) -> Beside:
        with ExitStack() as entered:
            for reporter in self._both:
                entered.enter_context(reporter)
            self._stack = entered.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @override
    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        for reporter in self._both:
            reporter.campaign(runs, done, left_ns)

    @override
    def step(self, text: str, total: float | None = None) -> None:
        for reporter in self._both:
            reporter.step(text, total)

    @override
    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        for reporter in self._both:
            reporter.step_progress(done, snapshot)

    @override
    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:
        for reporter in self._both:
            reporter.run_started(run, point, expected_ns)

    @override
    def run_progress(self, snapshot: Snapshot) -> None:
        for reporter in self._both:
            reporter.run_progress(snapshot)

    @override
    def run_ended(self, record: RunRecord) -> None:
        for reporter in self._both:
            reporter.run_ended(record)

    @override
    def gauges(self, read: Callable[[], Sequence[Gauge]]) -> None:
        for reporter in self._both:
            reporter.gauges(read)

    @override
    def note(self, text: str) -> None:
        for reporter in self._both:
            reporter.note(text)


def run_row(record: RunRecord, name: str, number: int | None) -> dict[str, Any]:
    """Return a stored run as a row of the live page's table.

    Args:
        record: Record of the run.
        name: Name of the run for readers.
        number: Position of the run in the campaign.
    """
    return {
        "id": record.run_id,
        "number": number,
        "target": record.target,
        "name": name,
        "status": record.status,
        "provenance": record.provenance,
        "mb_s": record.metric("throughput_mb_s"),
        "rate": record.metric(FAMILIES[record.kind].page.operations.rate.name),
        "unit": rate_unit(record.kind),
        "p99_ns": record.metric("latency_p99_ns"),
        "flush_p99_ns": record.metric("latency_p99_ns", FLUSH),
        "flags": [{"kind": flag.kind, "message": flag.message} for flag in record.flags],
        "failure": None if record.failure is None else record.failure.message,
    }


def rows_of(records: Sequence[RunRecord], plan: Plan, names: Names) -> list[dict[str, Any]]:
    """Return the table rows of the last MOST_RUNS runs of earlier sessions."""
    planned = {run.run_id: run for run in plan.runs}
    rows = []
    for record in records[-MOST_RUNS:]:
        run = planned[record.run_id]
        rows.append(run_row(record, names(run, plan.points[run.point_id]), run.order))
    return rows


def heat_of(bins: Sequence[Sequence[int]]) -> list[Any] | None:
    """Encode the latency distribution of an interval as digits, from which the page draws shades.

    Digits grow more slowly than the fraction of operations, as do the shades in the brief.

    Args:
        bins: Index and count of each non-empty bin.

    Returns:
        Index of the lowest bin, and one digit per bin; None without operations.
    """
    total = sum(count for _, count in bins)
    if not total:
        return None
    shares = {place: count / total for place, count in bins}
    low, high = min(shares), max(shares)
    shades = (shares.get(place, 0.0) ** SHADING * SHADES for place in range(low, high + 1))
    return [low, "".join(str(math.ceil(shade)) for shade in shades)]


def _rounded(value: float | None, digits: int = 2) -> float | None:
    """Round a value; return None if it is missing, or not finite and so not valid in JSON."""
    return None if value is None or not math.isfinite(value) else round(value, digits)
