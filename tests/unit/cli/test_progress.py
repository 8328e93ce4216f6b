"""Progress output: plain lines, and the live view on a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from storlab.analysis.run_names import RunNames
from storlab.lab.run.progress import (
    LiveReporter,
    PlainReporter,
    make_reporter,
    rate_unit,
    run_line,
    snapshot_figures,
)
from storlab.model.point import PlannedRun, Point
from storlab.model.result import Failure, Metric, RunRecord, Snapshot
from support.run_records import SNAPSHOT, run_record

POINT = Point(
    target="a [b]", workload="w", workload_index=0, kind="block", engine="native", params={}
)
RUN = PlannedRun(order=0, repeat=1, point_id=POINT.point_id)


def terminal(width: int = 160) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=True, width=width, markup=False), text


def record(failure: Failure | None = None) -> RunRecord:
    return run_record(RUN, POINT.target, failure)


def test_figures_of_a_snapshot() -> None:
    assert snapshot_figures(SNAPSHOT, "IOPS") == "250 MB/s, 12,345 IOPS, p99 1.50 ms, CPU 87 %"
    whole = replace(SNAPSHOT, note="slowest c07: 18 MB/s")
    assert snapshot_figures(whole, "IOPS").endswith("CPU 87 %, slowest c07: 18 MB/s")
    early = Snapshot("ramp", 0, None, 0.0, 0.0)
    assert snapshot_figures(early, "IOPS") == "0 MB/s, 0 IOPS"
    assert snapshot_figures(early, rate_unit("object")) == "0 MB/s, 0 requests/s"
    assert snapshot_figures(Snapshot("measure", 0, cpu_percent=40.0), "IOPS") == "CPU 40 %"


def test_a_run_in_one_line() -> None:
    line = run_line(record())
    assert line.startswith("a [b], w, ")
    assert run_line(record(), "a [b], 4 jobs, run 1 of 3").startswith("a [b], 4 jobs, run 1 of 3: ")
    broken = run_line(record(Failure(message="it broke")), "a [b], run 1")
    assert broken == f"a [b], run 1 ({RUN.run_id}): FAILED, it broke"
    assert line.endswith("1,235 MB/s, 56.0 IOPS, p99 2.00 ms, flags: client-bound")
    assert run_line(record(Failure(message="it broke"))).endswith("FAILED, it broke")
    rate = Metric(name="requests_s", value=78.0, unit="1/s")
    objects = record().model_copy(update={"kind": "object", "metrics": [rate], "flags": []})
    assert run_line(objects).endswith(": 78.0 requests/s")


def test_plain_lines_count_runs_and_time_left() -> None:
    text = io.StringIO()
    console = Console(file=text, width=60, markup=False)
    with PlainReporter(console) as reporter:
        reporter.campaign(5, 2, 60_000_000_000)
        reporter.step("laying out x")
        reporter.run_started(RUN, POINT, 20_000_000_000)
        reporter.run_progress(SNAPSHOT)
        reporter.run_ended(record())
    found, first, second = text.getvalue().splitlines()
    assert found == "2 of 5 runs are done, 3 remain, about 60 s"
    assert first == "laying out x"
    assert second.startswith("[3/5] a [b], w ")
    assert second.endswith("40 s left")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_failed_run_is_shown_with_its_fix_unless_quiet(quiet: bool) -> None:
    text = io.StringIO()
    with PlainReporter(Console(file=text, markup=False), quiet=quiet) as reporter:
        reporter.campaign(5, 2, 60_000_000_000)
        reporter.run_started(RUN, POINT, 20_000_000_000)
        reporter.run_ended(record(Failure(message="it broke", fix="mend it")))
    assert "it broke" in text.getvalue()
    assert ("mend it" in text.getvalue()) is not quiet
    console, live = terminal()
    with LiveReporter(console) as reporter:
        reporter.campaign(5, 2, 60_000_000_000)
        reporter.run_started(RUN, POINT, 20_000_000_000)
        reporter.run_ended(record(Failure(message="it broke", fix="mend it")))
    assert "mend it" in live.getvalue()


def test_quiet_leaves_out_the_steps() -> None:
    text = io.StringIO()
    with PlainReporter(Console(file=text, markup=False), quiet=True) as reporter:
        reporter.step("laying out x")
        reporter.note("important")
    assert text.getvalue() == "important\n"


def test_the_live_view_shows_campaign_point_and_figures() -> None:
    console, text = terminal()
    with LiveReporter(console) as reporter:
        reporter.campaign(5, 2, 60_000_000_000)
        reporter.step("laying out [x]", 100.0)
        reporter.step_progress(50.0, SNAPSHOT)
        reporter.run_started(RUN, POINT, 20_000_000_000)
        reporter.run_progress(SNAPSHOT)
        reporter.note("a note with [brackets]")
        reporter.run_ended(record())
    printed = text.getvalue()
    for part in (
        "2 of 5 runs",
        "3 of 5 runs, 40 s left",
        "laying out [x]",
        "a [b], w ",
        "measure, ",
        "12,345 IOPS",
        "p99 1.50 ms",
        "CPU 87 %",
        "a note with [brackets]",
    ):
        assert part in printed


def test_live_on_a_terminal_only() -> None:
    console, _ = terminal()
    assert isinstance(make_reporter(console, quiet=False), LiveReporter)
    assert isinstance(make_reporter(console, quiet=True), PlainReporter)
    assert isinstance(make_reporter(Console(file=io.StringIO()), quiet=False), PlainReporter)


def point(**params: object) -> Point:
    given = {"block_size": 262144, "read_percent": 70, "jobs": 8, "queue_depth": 1, **params}
    return POINT.model_copy(update={"params": given})


def test_runs_are_named_as_people_name_them() -> None:
    points = [point(block_size=s, read_percent=r) for s in (4096, 262144) for r in (30, 70)]
    names = RunNames(points, 3)
    run = PlannedRun(order=7, repeat=2, point_id=points[3].point_id)
    assert names(run, points[3]) == "256 KiB 70/30, 8 jobs, run 2 of 3"
    reads = [point(read_percent=100, jobs=jobs) for jobs in (1, 8)]
    assert RunNames(reads, 3).point(reads[1]) == "256 KiB, reads only, 8 jobs"
    deep = RunNames([*points, point(queue_depth=32)], 1)
    assert deep(run, points[3]) == "256 KiB 70/30, queue depth 1, run 2 of 1"


def test_points_that_a_search_adds_are_named_like_the_first() -> None:
    names = RunNames([point(jobs=1), point(jobs=2)], 0)
    added = point(jobs=64)
    run = PlannedRun(order=7, repeat=2, point_id=added.point_id)
    assert names(run, added) == "256 KiB 70/30, 64 jobs, run 2"


def test_workloads_and_engines_are_named_where_there_are_several() -> None:
    other = point().model_copy(update={"engine": "fio"})
    assert RunNames([point(), other], 5).point(other) == "fio: 256 KiB 70/30, 8 jobs"


def shown_at(width: int) -> list[str]:
    """Return the live view of a long run on a terminal of this width."""
    console, text = terminal(width)
    long = POINT.model_copy(update={"target": "a target whose name is as long as they get to be"})
    points = [point(block_size=size) for size in (4096, 262144)]
    reporter = LiveReporter(console, RunNames(points, 3))
    reporter.campaign(36, 12, 600_000_000_000)
    text.truncate(text.seek(0))
    reporter.run_started(RUN, points[1].model_copy(update={"target": long.target}), 20_000_000_000)
    reporter.run_progress(SNAPSHOT)
    console.print(reporter._progress.get_renderable())
    return [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in text.getvalue().splitlines()]


def test_the_live_view_counts_runs_by_target() -> None:
    console, text = terminal()
    reporter = LiveReporter(console, RunNames([point()], 3))
    reporter.campaign(6, 0, 600_000_000_000)
    for failure in (None, None, Failure(message="it broke")):
        reporter.run_started(RUN, POINT, 0)
        reporter.run_ended(record(failure))
    text.truncate(text.seek(0))
    console.print(reporter._progress.get_renderable())
    assert "a [b]: 3 runs, 1 failed, 3 flagged" in text.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_bars_survive_a_narrow_terminal(width: int) -> None:
    lines = [line for line in shown_at(width) if line.strip()]
    assert len(lines) == 3
    assert all(len(line) <= width for line in lines)
    campaign, what, current = lines
    assert "33 %" in campaign and "12 of 36 runs, 10 min left" in campaign
    assert "a target whose name" in what
    assert "measure, " in current and "250 MB/s" in current
    for line in (campaign, current):
        assert line.count("\u2501") + line.count("\u2578") + line.count("\u257a") >= 12
