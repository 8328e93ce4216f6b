"""Queues are bounded, no call waits for a watcher, and late pages see the same state."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from queue import Empty
from time import sleep
from typing import Any

import pytest

from storlab.base.clock import monotonic_ns
from storlab.contracts.reporter import Gauge
from storlab.lab.run.progress import PlainReporter
from storlab.live.feed import MOMENT, MOST_MOMENTS, MOST_RUNS, QUEUE_LENGTH, Feed, Watcher
from storlab.live.reporter import Beside, FeedReporter, heat_of, rows_of
from storlab.model.result import Failure, Snapshot
from support.live_pages import HOSTILE, a_plan, a_record, named
from support.run_records import SNAPSHOT
from unit.cli.test_progress import terminal

HOUR_NS = 3600 * 10**9


def events(watcher: Watcher) -> list[tuple[str, dict[str, Any]]]:
    found = []
    while True:
        try:
            event = watcher.take(0)
        except Empty:
            return found
        if event is None:
            return [*found, ("", {})]
        head, data, *rest = event.decode().split("\n")
        assert rest == ["", ""]
        found.append((head.removeprefix("event: "), json.loads(data.removeprefix("data: "))))


def state_of(feed: Feed) -> dict[str, Any]:
    (kind, state), *_ = events(feed.watch())
    assert kind == "state"
    return state


def test_a_watcher_who_never_reads_is_let_go_and_told() -> None:
    feed = Feed("s", "1")
    never, reads = feed.watch(), feed.watch()
    for number in range(10 * QUEUE_LENGTH):
        feed.note(str(number))
        (kind, told), *_ = [e for e in events(reads) if e[0] != "state"]
        assert (kind, told) == ("note", {"text": str(number)})
    assert never.dropped
    assert feed.watchers == [reads]
    (kind, told), last = events(never)  # queued events are dropped
    assert kind == "dropped"
    assert "too slow" in told["why"]
    assert last == ("", {})


def test_the_history_is_bounded() -> None:
    feed = Feed("s", "1")
    plan = a_plan()
    row = rows_of([a_record(plan)], plan, named)[0]
    for number in range(MOST_MOMENTS + 500):
        feed.moment([number, *[None] * (len(MOMENT) - 1)], [])
        feed.run_ended({**row, "number": number})
        feed.note("n")
    state = state_of(feed)
    assert [len(state["moments"]), len(state["runs"])] == [MOST_MOMENTS, MOST_RUNS]
    assert state["moments"][-1][0] == MOST_MOMENTS + 499
    assert len(json.dumps(state)) < 300_000


def test_who_comes_when_all_is_over_sees_it_and_is_not_kept() -> None:
    feed = Feed("s", "1")
    feed.news(over={"text": "done", "sentences": [], "brief": None})
    feed.close()
    (kind, state), last = events(feed.watch())
    assert (kind, state["over"]["text"], last) == ("state", "done", ("", {}))
    assert feed.watchers == []


def test_names_cannot_leave_their_event() -> None:
    feed = Feed(HOSTILE, "1")
    watcher = feed.watch()
    feed.note(HOSTILE)
    (_, state), (_, note) = events(watcher)
    assert [state["study"], note["text"]] == [HOSTILE, HOSTILE]


def test_dips_are_those_of_the_briefs_rule() -> None:
    """Check that the page finds the brief's dips: a fall by chance at a low rate is none."""
    plan = a_plan()
    point = plan.points[plan.runs[0].point_id]
    found = {}
    for operations_s in (1e9, 100.0):
        feed = Feed("s", "1")
        reporter = FeedReporter(feed, named)
        for planned in plan.runs[:2]:
            reporter.run_started(planned, point, HOUR_NS)
            for number in range(12):
                part = 0.01 if number == 7 else 1.0
                reporter.run_progress(
                    replace(SNAPSHOT, bytes_s=1e8 * part, operations_s=operations_s * part)
                )
                sleep(0.002)
                reporter.tick()
        state = state_of(feed)
        times = [moment[MOMENT.index("at_ms")] for moment in state["moments"]]
        found[operations_s] = [tuple(map(times.index, dip)) for dip in state["dips"]]
    assert found == {1e9: [(6, 7), (18, 19)], 100.0: []}


def test_the_page_is_told_what_the_terminal_is() -> None:
    plan, feed = a_plan(), Feed("study", "1")
    point = plan.points[plan.runs[0].point_id]
    console, text = terminal()
    reporter = FeedReporter(feed, named)
    both = Beside(PlainReporter(console), reporter)
    watcher = feed.watch()
    counted = itertools.count(1e9, 1e9)
    both.campaign(3, 1, 3 * HOUR_NS)
    both.gauges(
        lambda: [
            Gauge("power", "disk", "wall", 40.0),
            Gauge("power", "another", "wall", 4.0),
            Gauge("temperature", "disk", "sda", 41.0),
            Gauge("temperature", "disk", "sdb", 43.0),
            Gauge("read", "disk", "sda", next(counted)),
            Gauge("read", "disk", "sdb", 7.0),
            Gauge("written", "disk", "sda", 0.0),
        ]
    )
    both.step("laying out", 10)
    both.step_progress(5)
    reporter.tick()
    both.run_started(plan.runs[0], point, HOUR_NS)
    both.run_progress(SNAPSHOT)
    reporter.tick()
    reporter.tick()  # no new snapshot: only gauges change
    both.run_ended(a_record(plan, 0))
    both.run_started(plan.runs[1], point, HOUR_NS)
    both.run_ended(a_record(plan, 1, Failure(message="gone")))
    kinds = [kind for kind, _ in events(watcher)]
    assert kinds == [
        *["state", "news", "news", "moment", "news"],
        *["moment", "moment", "run", "news", "run"],
    ]
    state = state_of(feed)
    before, first, second = (dict(zip(state["fields"], m, strict=True)) for m in state["moments"])
    assert (first["bytes_s"], first["p99_ns"], first["phase"]) == (
        250_000_000,
        1_500_000,
        "measure",
    )
    assert (first["power_w"], first["celsius"], first["run"]) == (40.0, 43.0, 0)
    assert (second["bytes_s"], second["power_w"], second["phase"]) == (None, 40.0, "measure")
    assert (before["heat"], first["heat"], second["heat"]) == (None, [30, "209000000004"], None)
    assert before["device_read_s"] is None  # no target has a run
    assert first["device_read_s"] > 0
    assert (first["device_written_s"], second["device_written_s"]) == (0, 0)
    assert (state["done"], state["failed"], state["planned"], state["earlier"]) == (3, 1, 3, 1)
    assert [(row["number"], row["failure"]) for row in state["runs"]] == [(0, None), (1, "gone")]
    assert state["runs"][0]["flags"] == [{"kind": "client-bound", "message": "m"}]
    assert state["run"] is None
    assert state["left_s"] == pytest.approx(3600)
    assert "FAILED, gone" in text.getvalue()


def test_flags_are_told_with_the_times_when_they_held() -> None:
    """Check flag times on the page's axis, including the last run's."""
    plan, feed = a_plan(), Feed("s", "1")
    point = plan.points[plan.runs[0].point_id]
    record = a_record(plan)
    spans = {"client-bound": [(0.0, 1.5), (2.0, 2.5)]}
    with FeedReporter(feed, named, lambda _: spans, period_s=1e9) as reporter:
        for number, planned in enumerate(plan.runs[:2]):
            reporter.run_started(planned, point, HOUR_NS)
            reporter.tick()
            at_ms = state_of(feed)["moments"][-1][0]
            started_ns = monotonic_ns()
            reporter.run_ended(record.model_copy(update={"window_start_ns": started_ns}))
            if number == 0:
                assert state_of(feed)["held"] == {}
                reporter.tick()
                (first,) = state_of(feed)["held"].values()
                (start, end), (again, last) = first["client-bound"]
                assert at_ms <= start
                assert [end - start, again - start, last - start] == [1500, 2000, 2500]
    assert list(state_of(feed)["held"]) == ["0", "1"]


def test_what_is_drained_has_no_rate() -> None:
    """Check that the drain shows no rate, although its snapshot repeats the last interval."""
    feed, plan = Feed("s", "1"), a_plan()
    reporter = FeedReporter(feed, named)
    reporter.run_started(plan.runs[0], plan.points[plan.runs[0].point_id], HOUR_NS)
    for phase in ("measure", "drain"):
        reporter.run_progress(replace(SNAPSHOT, phase=phase))
        reporter.tick()
    measured, drained = (dict(zip(MOMENT, m, strict=True)) for m in state_of(feed)["moments"])
    names = ("bytes_s", "operations_s", "p99_ns", "heat")
    assert None not in [measured[name] for name in names]
    assert [drained[name] for name in names] == [None] * 4
    assert (drained["phase"], drained["cpu_percent"]) == ("drain", 87.4)


def test_an_instrument_that_breaks_costs_its_values_only() -> None:
    feed = Feed("s", "1")
    reporter = FeedReporter(feed, named)

    def broken() -> list[Gauge]:
        raise OSError(5, "gone")

    reporter.gauges(broken)
    reporter.run_progress(SNAPSHOT)
    reporter.tick()
    (moment,) = state_of(feed)["moments"]
    assert moment[1] == 250_000_000


def test_shades_keep_what_is_rare_and_say_what_is_all() -> None:
    assert heat_of(()) is None
    assert heat_of([[7, 5]]) == [7, "9"]
    assert heat_of([[7, 1], [9, 10**9]]) == [7, "109"]


def test_the_thread_ends_with_the_campaign() -> None:
    feed = Feed("s", "1")
    with FeedReporter(feed, named, period_s=0.001):
        while not state_of(feed)["moments"]:
            pass
    seen = len(state_of(feed)["moments"])
    state = state_of(feed)
    assert (len(state["moments"]), state["stage"]) == (seen, "concludes")


def test_what_nobody_knows_is_no_zero_and_breaks_nothing() -> None:
    """Check that unknown rates and power are shown as missing, not as zero."""
    feed = Feed("s", "1")
    reporter = FeedReporter(feed, named)
    reporter.gauges(lambda: [Gauge("power", "", "wall", math.nan)])
    reporter.run_progress(Snapshot("measure", 5, cpu_percent=math.inf))
    reporter.tick()
    state = state_of(feed)
    moment = dict(zip(state["fields"], state["moments"][0], strict=True))
    names = ("bytes_s", "operations_s", "power_w", "cpu_percent")
    assert [moment[name] for name in names] == [None] * 4
