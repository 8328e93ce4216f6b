"""What the user sees of a campaign: a live view on a terminal, else a line per run; on stderr."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from storlab.base.clock import monotonic_ns
from storlab.base.units import MB, NS_PER_S, format_duration, format_latency, format_number
from storlab.contracts.registry import FAMILIES
from storlab.contracts.reporter import Reporter
from storlab.model.point import PlannedRun, Point
from storlab.model.result import RunRecord, Snapshot


@dataclass(slots=True)
class _Count:
    runs: int = 0
    done: int = 0
    left_ns: int = 0
    expected_ns: int = 0


_STEP_UNIT = "operations/s"


class PlainReporter:
    """One line per step and run. ``quiet`` leaves out the steps."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._count = _Count()

    def __enter__(self) -> PlainReporter:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        """As in Reporter."""
        self._count = _Count(runs=runs, done=done, left_ns=left_ns)

    def step(self, text: str, total: float | None = None) -> None:  # noqa: ARG002
        """As in Reporter."""
        if not self._quiet:
            self._line(text)

    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        """As in Reporter."""

    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:  # noqa: ARG002
        """As in Reporter."""
        self._count.expected_ns = expected_ns

    def run_progress(self, snapshot: Snapshot) -> None:
        """As in Reporter."""

    def run_ended(self, record: RunRecord) -> None:
        """As in Reporter."""
        count = self._count
        count.done += 1
        count.left_ns = max(0, count.left_ns - count.expected_ns)
        self._line(
            f"[{count.done}/{count.runs}] {run_line(record)}, {format_duration(count.left_ns)} left"
        )

    def note(self, text: str) -> None:
        """As in Reporter."""
        self._line(text)

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class LiveReporter:
    """Two bars: the campaign with its time left, and the current run or step with live figures."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[figures]}"),
            console=console,
            transient=True,
        )
        self._campaign: TaskID | None = None
        self._current: TaskID | None = None
        self._count = _Count()
        self._unit = _STEP_UNIT
        self._started_ns = 0

    def __enter__(self) -> LiveReporter:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        """As in Reporter."""
        self._count = _Count(runs=runs, done=done, left_ns=left_ns)
        total, figures = max(left_ns, 1), self._campaign_figures()
        if self._campaign is None:
            self._campaign = self._progress.add_task("campaign", total=total, figures=figures)
        else:
            self._progress.reset(self._campaign, total=total, figures=figures)

    def step(self, text: str, total: float | None = None) -> None:
        """As in Reporter."""
        self._replace_current(text, total)

    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        """As in Reporter."""
        if self._current is not None:
            figures = "" if snapshot is None else snapshot_figures(snapshot, _STEP_UNIT)
            self._progress.update(self._current, completed=done, figures=figures)

    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:
        """As in Reporter."""
        self._count.expected_ns = expected_ns
        self._started_ns = monotonic_ns()
        self._unit = rate_unit(point.kind)
        text = f"{point.target}, {point.workload} {run.point_id}, run {run.repeat}"
        self._replace_current(text, max(expected_ns, 1))

    def run_progress(self, snapshot: Snapshot) -> None:
        """As in Reporter."""
        if self._current is None:
            return
        elapsed_ns = min(monotonic_ns() - self._started_ns, self._count.expected_ns)
        left = format_duration(_whole_seconds(self._count.expected_ns - elapsed_ns))
        self._progress.update(
            self._current,
            completed=elapsed_ns,
            figures=f"{snapshot.phase}, {left} left, {snapshot_figures(snapshot, self._unit)}",
        )
        self._update_campaign(elapsed_ns)

    def run_ended(self, record: RunRecord) -> None:
        """As in Reporter."""
        count = self._count
        count.done += 1
        count.left_ns = max(0, count.left_ns - count.expected_ns)
        self._progress.print(
            f"[{count.done}/{count.runs}] {run_line(record)}", highlight=False, markup=False
        )
        self._update_campaign(0)

    def note(self, text: str) -> None:
        """As in Reporter."""
        self._progress.print(text, highlight=False, markup=False)

    def _replace_current(self, text: str, total: float | None) -> None:
        if self._current is not None:
            self._progress.remove_task(self._current)
        self._current = self._progress.add_task(escape(text), total=total, figures="")

    def _update_campaign(self, elapsed_ns: int) -> None:
        if self._campaign is not None:
            total = self._progress.tasks[0].total or 1
            done = total - self._count.left_ns + elapsed_ns
            self._progress.update(
                self._campaign, completed=done, figures=self._campaign_figures(elapsed_ns)
            )

    def _campaign_figures(self, elapsed_ns: int = 0) -> str:
        count = self._count
        left = format_duration(_whole_seconds(max(0, count.left_ns - elapsed_ns)))
        return f"{count.done} of {count.runs} runs, {left} left"


def make_reporter(console: Console, quiet: bool) -> Reporter:
    """Live on a terminal, plain elsewhere or when quiet."""
    return (
        LiveReporter(console)
        if console.is_terminal and not quiet
        else PlainReporter(console, quiet)
    )


def rate_unit(kind: str) -> str:
    """What the rate of a workload family counts, in short: ``IOPS``, ``requests/s``."""
    return FAMILIES[kind].page.rate_short


def snapshot_figures(snapshot: Snapshot, unit: str = "IOPS") -> str:
    """Throughput, rate, p99 and client CPU of the last interval."""
    parts = [f"{snapshot.bytes_s / MB:,.0f} MB/s", f"{snapshot.operations_s:,.0f} {unit}"]
    if snapshot.latency_p99_ns is not None:
        parts.append(f"p99 {format_latency(snapshot.latency_p99_ns)}")
    if snapshot.cpu_percent is not None:
        parts.append(f"CPU {snapshot.cpu_percent:.0f} %")
    return ", ".join(parts)


def run_line(record: RunRecord) -> str:
    """One run in one line: what it was, and what it gave or why it failed."""
    what = f"{record.target}, {record.workload}, {record.run_id}"
    if record.failure is not None:
        return f"{what}: FAILED, {record.failure.message}"
    figures = [
        f"{format_number(value)} {unit}"
        for value, unit in (
            (record.metric("throughput_mb_s"), "MB/s"),
            (record.metric(FAMILIES[record.kind].page.rate), rate_unit(record.kind)),
        )
        if value is not None
    ]
    p99 = record.metric("latency_p99_ns")
    if p99 is not None:
        figures.append(f"p99 {format_latency(p99)}")
    flags = sorted({flag.kind for flag in record.flags})
    if flags:
        figures.append(f"flags: {', '.join(flags)}")
    return f"{what}: {', '.join(figures) or record.status}"


def _whole_seconds(duration_ns: int) -> int:
    return round(duration_ns / NS_PER_S) * NS_PER_S
