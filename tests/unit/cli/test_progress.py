"""What the user sees: plain lines, and the live view on a terminal of our own."""

from __future__ import annotations

import io

from rich.console import Console

from storlab.lab.run.progress import (
    LiveReporter,
    PlainReporter,
    make_reporter,
    rate_unit,
    run_line,
    snapshot_figures,
)
from storlab.model.point import PlannedRun, Point
from storlab.model.result import EngineInfo, Failure, Flag, Metric, RunRecord, Snapshot

POINT = Point(
    target="a [b]", workload="w", workload_index=0, kind="block", engine="native", params={}
)
RUN = PlannedRun(order=0, repeat=1, point_id=POINT.point_id)
SNAPSHOT = Snapshot("measure", 500, 1000, 12_345.0, 250e6, 1_500_000, 87.4)


def terminal(width: int = 160) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=True, width=width, markup=False), text


def record(failure: Failure | None = None) -> RunRecord:
    return RunRecord(
        run_id=RUN.run_id,
        point_id=RUN.point_id,
        repeat=1,
        target=POINT.target,
        workload="w",
        kind="block",
        params={},
        status="failed" if failure else "finished",
        failure=failure,
        engine=EngineInfo(name="native", version="0"),
        started_at="now",
        window_start_ns=0,
        window_end_ns=1,
        totals={},
        metrics=[
            Metric(name="throughput_mb_s", value=1234.5, unit="MB/s"),
            Metric(name="iops", value=56.0, unit="1/s"),
            Metric(name="latency_p99_ns", value=2_000_000, unit="ns"),
        ],
        flags=[Flag(kind="client-bound", message="m")],
    )


def test_figures_of_a_snapshot() -> None:
    assert snapshot_figures(SNAPSHOT) == "250 MB/s, 12,345 IOPS, p99 1.5 ms, CPU 87 %"
    early = Snapshot("ramp", 0, None, 0.0, 0.0, None, None)
    assert snapshot_figures(early) == "0 MB/s, 0 IOPS"
    assert snapshot_figures(early, rate_unit("object")) == "0 MB/s, 0 requests/s"


def test_a_run_in_one_line() -> None:
    line = run_line(record())
    assert line.startswith("a [b], w, ")
    assert line.endswith("1,234 MB/s, 56 IOPS, p99 2 ms, flags: client-bound")
    assert run_line(record(Failure(message="it broke"))).endswith("FAILED, it broke")
    rate = Metric(name="requests_s", value=78.0, unit="1/s")
    objects = record().model_copy(update={"kind": "object", "metrics": [rate], "flags": []})
    assert run_line(objects).endswith(": 78 requests/s")


def test_plain_lines_count_runs_and_time_left() -> None:
    text = io.StringIO()
    console = Console(file=text, width=60, markup=False)
    with PlainReporter(console) as reporter:
        reporter.campaign(5, 2, 60_000_000_000)
        reporter.step("laying out x")
        reporter.run_started(RUN, POINT, 20_000_000_000)
        reporter.run_progress(SNAPSHOT)
        reporter.run_ended(record())
    first, second = text.getvalue().splitlines()
    assert first == "laying out x"
    assert second.startswith("[3/5] a [b], w, ")
    assert second.endswith("40 s left")


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
    said = text.getvalue()
    for part in (
        "2 of 5 runs",
        "3 of 5 runs, 40 s left",
        "laying out [x]",
        "a [b], w ",
        "measure, ",
        "12,345 IOPS",
        "p99 1.5 ms",
        "CPU 87 %",
        "a note with [brackets]",
    ):
        assert part in said


def test_live_on_a_terminal_only() -> None:
    console, _ = terminal()
    assert isinstance(make_reporter(console, quiet=False), LiveReporter)
    assert isinstance(make_reporter(console, quiet=True), PlainReporter)
    assert isinstance(make_reporter(Console(file=io.StringIO()), quiet=False), PlainReporter)
