"""Progress of a campaign on stderr: a live view on a terminal, otherwise a line per run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text
from typing_extensions import override

from storlab.base.clock import monotonic_ns
from storlab.base.errors import with_fix
from storlab.base.units import MB, NS_PER_S, format_duration, format_latency, format_number
from storlab.contracts.registry import FAMILIES
from storlab.contracts.reporter import Reporter
from storlab.model.point import PlannedRun, Point
from storlab.model.result import GroupRecord, RunRecord, Snapshot
from storlab.workloads.common.metrics import FLUSH

ROOMY = 100  # terminal width in columns; on wider terminals, bars are longer

Names = Callable[[PlannedRun, Point], str]
"""Function that returns a readable name of a run, without its target."""


def plain_name(run: PlannedRun, point: Point) -> str:
    """Return a name of a run, made of workload, point id and number of the repeat."""
    return f"{point.workload} {run.point_id}, run {run.repeat}"


@dataclass(slots=True)
class _Count:
    runs: int = 0
    done: int = 0
    left_ns: int = 0
    expected_ns: int = 0
    name: str = ""  # name of the current run, with its target
    began_ns: int = 0  # start of the first run of this session
    spent_ns: int = 0  # expected time of the runs that ended in this session
    ended: int = 0  # runs that ended in this session
    overhead_ns: int = 0  # time of a run beyond its expected time, as measured so far

    def begins(self, name: str, expected_ns: int) -> None:
        self.name, self.expected_ns = name, expected_ns
        self.began_ns = self.began_ns or monotonic_ns()

    def ends(self) -> None:
        self.done += 1
        self.ended += 1
        self.spent_ns += self.expected_ns
        self.left_ns = max(0, self.left_ns - self.expected_ns)
        self.overhead_ns = max(0, monotonic_ns() - self.began_ns - self.spent_ns) // self.ended

    def left(self, elapsed_ns: int = 0) -> str:
        """Return the estimated time left as the end of a line; empty after the last run."""
        if self.done == self.runs:
            return ""
        left_ns = max(0, self.left_ns - elapsed_ns) + self.overhead_ns * (self.runs - self.done)
        return f", {format_duration(_whole_seconds(left_ns))} left"

    def resumed(self) -> str:
        """Return a line on the progress of a resumed campaign; empty if no run is done."""
        if not self.done:
            return ""
        to_go = self.runs - self.done
        left = format_duration(_whole_seconds(self.left_ns + self.overhead_ns * to_go))
        return f"{self.done} of {self.runs} runs are done, {to_go} remain, about {left}"


_STEP_UNIT = "operations/s"


class PlainReporter(Reporter):
    """Reporter of progress that prints one line per step and run; ``quiet`` omits the steps."""

    def __init__(self, console: Console, quiet: bool = False, names: Names = plain_name) -> None:
        self._console = console
        self._quiet = quiet
        self._names = names
        self._count = _Count()

    @override
    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        first = not self._count.runs
        self._count = _Count(runs=runs, done=done, left_ns=left_ns)
        if first and self._count.resumed() and not self._quiet:
            self._line(self._count.resumed())

    @override
    def step(self, text: str, total: float | None = None) -> None:
        if not self._quiet:
            self._line(text)

    @override
    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:
        self._count.begins(f"{point.target}, {self._names(run, point)}", expected_ns)

    @override
    def run_ended(self, record: RunRecord) -> None:
        count = self._count
        count.ends()
        line = f"[{count.done}/{count.runs}] {run_line(record, count.name)}{count.left()}"
        self._line(line if self._quiet else _with_fix(line, record))

    @override
    def note(self, text: str) -> None:
        self._line(text)

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class _Bars(Progress):
    """Progress bars with the description on a separate line, so that both have enough space."""

    @override
    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            if task.description:
                yield Text(task.description, no_wrap=True, overflow="ellipsis")
            yield self.make_tasks_table([task])


class _Figures(ProgressColumn):
    """Progress column with rates; long text is truncated, so that rich keeps the bar's width."""

    def __init__(self, console: Console, beside: int) -> None:
        super().__init__()
        self._console, self._beside = console, beside

    @override
    def render(self, task: Task) -> Text:
        text = Text(task.fields["figures"], no_wrap=True)
        text.truncate(max(1, self._console.width - self._beside), overflow="ellipsis")
        return text


class LiveReporter(Reporter):
    """Reporter with two live progress bars: the campaign, and the current run or step.

    Above the campaign's bar is a summary of each target: its runs, and how many of them failed or
    have flags.
    """

    def __init__(self, console: Console, names: Names = plain_name) -> None:
        self._console = console
        self._names = names
        width = 12 if console.width < ROOMY else 24
        self._progress = _Bars(
            BarColumn(width),
            TextColumn("{task.percentage:>3.0f} %"),
            _Figures(console, beside=width + len("  100 % ")),
            console=console,
            transient=True,
        )
        self._campaign: TaskID | None = None
        self._current: TaskID | None = None
        self._count = _Count()
        self._unit = _STEP_UNIT
        self._started_ns = 0
        self._ended: dict[str, Counter[str]] = {}  # counts of this session by target

    @override
    def __enter__(self) -> Self:
        self._progress.start()
        return self

    @override
    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @override
    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        first = self._campaign is None
        self._count = _Count(runs=runs, done=done, left_ns=left_ns)
        if self._campaign is None:
            self._campaign = self._progress.add_task("", total=max(runs, 1), figures="")
        if first and self._count.resumed():
            self.note(self._count.resumed())
        self._update_campaign(0)

    @override
    def step(self, text: str, total: float | None = None) -> None:
        self._replace_current(text, total)

    @override
    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        if self._current is not None:
            figures = "" if snapshot is None else snapshot_figures(snapshot, _STEP_UNIT)
            self._progress.update(self._current, completed=done, figures=figures)

    @override
    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:
        self._count.begins(f"{point.target}, {self._names(run, point)}", expected_ns)
        self._started_ns = monotonic_ns()
        self._unit = rate_unit(point.kind)
        self._replace_current(self._count.name, max(expected_ns, 1))

    @override
    def run_progress(self, snapshot: Snapshot) -> None:
        if self._current is None:
            return
        elapsed_ns = min(monotonic_ns() - self._started_ns, self._count.expected_ns)
        left = format_duration(_whole_seconds(self._count.expected_ns - elapsed_ns))
        rates = snapshot_figures(snapshot, self._unit)
        self._progress.update(
            self._current,
            completed=elapsed_ns,
            figures=", ".join(filter(None, (snapshot.phase, f"{left} left", rates))),
        )
        self._update_campaign(elapsed_ns)

    @override
    def run_ended(self, record: RunRecord) -> None:
        count = self._count
        count.ends()
        line = f"[{count.done}/{count.runs}] {run_line(record, count.name)}"
        self.note(_with_fix(line, record))
        counts = self._ended.setdefault(record.target, Counter())
        counts.update(runs=1, failed=record.status == "failed", flagged=bool(record.flags))
        self._update_campaign(0)

    @override
    def note(self, text: str) -> None:
        self._progress.print(text, highlight=False, markup=False)

    def _replace_current(self, text: str, total: float | None) -> None:
        if self._current is not None:
            self._progress.remove_task(self._current)
        self._current = self._progress.add_task(text, total=total, figures="")

    def _update_campaign(self, elapsed_ns: int) -> None:
        """Update the campaign's bar by finished runs and the elapsed part of the current run."""
        if self._campaign is not None:
            part = elapsed_ns / max(1, self._count.expected_ns) if elapsed_ns else 0.0
            self._progress.update(
                self._campaign,
                total=max(self._count.runs, 1),
                completed=self._count.done + part,
                description="; ".join(
                    f"{target}: {_counted(counts)}" for target, counts in self._ended.items()
                ),
                figures=self._campaign_figures(elapsed_ns),
            )

    def _campaign_figures(self, elapsed_ns: int = 0) -> str:
        count = self._count
        return f"{count.done} of {count.runs} runs{count.left(elapsed_ns)}"


def make_reporter(console: Console, quiet: bool, names: Names = plain_name) -> Reporter:
    """Return a reporter of progress: with live bars on a terminal, else a plain one.

    With ``quiet``, it is always a plain one.
    """
    return (
        LiveReporter(console, names)
        if console.is_terminal and not quiet
        else PlainReporter(console, quiet, names)
    )


def rate_unit(kind: str) -> str:
    """Return the short unit of a family's rate, such as ``IOPS`` or ``requests/s``."""
    return FAMILIES[kind].page.operations.rate_short


def snapshot_figures(snapshot: Snapshot, unit: str) -> str:
    """Format the rates, p99 latency and CPU use of a running load for display.

    For a cluster, the text also names the slowest client.
    """
    parts = []
    if snapshot.bytes_s is not None:
        parts.append(f"{format_number(snapshot.bytes_s / MB)} MB/s")
    if snapshot.operations_s is not None:
        parts.append(f"{format_number(snapshot.operations_s)} {unit}")
    if snapshot.latency_p99_ns is not None:
        parts.append(f"p99 {format_latency(snapshot.latency_p99_ns)}")
    if snapshot.flush_p99_ns is not None:
        parts.append(f"flush p99 {format_latency(snapshot.flush_p99_ns)}")
    if snapshot.cpu_percent is not None:
        parts.append(f"CPU {snapshot.cpu_percent:.0f} %")
    if snapshot.note:
        parts.append(snapshot.note)
    return ", ".join(parts)


def run_line(record: RunRecord, name: str = "") -> str:
    """Return a line about a finished run: its name, and its results or why it failed.

    Args:
        record: Record of the run.
        name: Name of the run with its target; if empty, target, workload and run id are used.
    """
    what = name or f"{record.target}, {record.workload}, {record.run_id}"
    if record.failure is not None:
        which = f" ({record.run_id})" if name else ""
        return f"{what}{which}: FAILED, {record.failure.message}"
    figures = [
        f"{format_number(value)} {unit}"
        for value, unit in (
            (record.metric("throughput_mb_s"), "MB/s"),
            (
                record.metric(FAMILIES[record.kind].page.operations.rate.name),
                rate_unit(record.kind),
            ),
        )
        if value is not None
    ]
    p99 = record.metric("latency_p99_ns")
    if p99 is not None:
        figures.append(f"p99 {format_latency(p99)}")
    flush_p99 = record.metric("latency_p99_ns", FLUSH)
    if flush_p99 is not None:
        figures.append(f"flush p99 {format_latency(flush_p99)}")
    figures += [_group_figures(name, group, record.kind) for name, group in record.groups.items()]
    if record.provenance != "measured":
        figures.append(record.provenance)
    flags = sorted({flag.kind for flag in record.flags})
    if flags:
        figures.append(f"flags: {', '.join(flags)}")
    return f"{what}: {', '.join(figures) or record.status}"


def _counted(counts: Counter[str]) -> str:
    """Format counts above 0, such as ``12 runs, 1 failed``."""
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _group_figures(name: str, group: GroupRecord, kind: str) -> str:
    """Format the results of a group, such as ``readers 250 IOPS p99 3 ms``."""
    values = {m.name: m.value for m in reversed(group.metrics) if m.operation == "all"}
    rate = values.get(FAMILIES[kind].page.operations.rate.name, 0.0)
    text = f"{name} {format_number(rate)} {rate_unit(kind)}"
    p99 = values.get("latency_p99_ns")
    return text if p99 is None else f"{text} p99 {format_latency(p99)}"


def _with_fix(line: str, record: RunRecord) -> str:
    return with_fix(line, record.failure.fix if record.failure else "")


def _whole_seconds(duration_ns: int) -> int:
    return round(duration_ns / NS_PER_S) * NS_PER_S
