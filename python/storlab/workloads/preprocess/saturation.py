"""Decide whether storage or the CPU is the bottleneck of fixed work, and from how many workers on.

Definitions, for one target and the swept numbers of workers (docs/method/preprocess.md):

- A larger number of workers is *faster* if the time is at least 5 % less and the interval of the
  ratio excludes 1. It is *no faster* if the time is less than 5 % less and the interval excludes a
  gain of 10 %. Otherwise, the change is within run-to-run variation.
- The *plateau* starts at the smallest number W for which every larger number is no faster. It must
  reach to 1.25 W at least, because from 23 to 24 workers, for example, even perfect scaling gains
  only 4 %.
- Workers are *busy* if they are on CPU for at least 70 % of the time that the number of parts of
  the input allows. For example, 9 workers that share 16 parts are idle for a ninth of the time.

The verdict depends on the largest number of workers:

- busy: CPU-bound, or too few parts if these allow less than 70 %
- not busy, but all cores of the machine were: others used the cores
- not busy and on a plateau: the device saturates at the start of the plateau. For this, a device
  must have moved the data, and a target without a device, if there is one, must be faster there.
- otherwise: still faster, or unknown: numbers too near to one another, single runs, or noise
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section
from storlab.analysis.stats import ratio_interval
from storlab.contracts.details import StageTimes
from storlab.model.decision import Interval, Outcome
from storlab.model.result import RunRecord
from storlab.words.outcomes import UNDECIDED
from storlab.words.text import MISSING, WITHIN_NOISE
from storlab.workloads.preprocess.details import PreprocessDetails
from storlab.workloads.preprocess.params import PreprocessParams

WORKERS = "workers"  # name of the swept parameter
NOT_SWEPT = (
    "The number of workers is not swept, so it is unknown whether storage or the CPU is "
    "the bottleneck."
)
TIME, BUSY, DEVICE = "completion_time_s", "worker_busy_percent", "device_mb_s"
MOVED = ("input_mb_s", "output_mb_s")
LEAST_GAIN = 0.05  # smallest relevant reduction of the time
DIGITS = 12  # of a ratio: further digits are floating-point noise
HIDDEN_GAIN = 0.10  # gain that the interval must exclude for "no faster"
LEAST_SPAN = 1.25  # ratio of the last to the first number of a plateau
BUSY_SHARE = 0.70  # share of the time that parts allow, from which workers count as busy
LONG_PART = 0.5  # share of a stage's time for one part, above which sizes are very unequal
MACHINE_BUSY_PERCENT = 90.0  # of all cores, by any program: above it the machine is busy
_UNKNOWN = "the bottleneck is unknown, because"
DEVICE_SHARE = 0.10  # of the bytes read and written: with less, memory served them

Verdict = Literal[
    "device", "waiting", "cpu", "parts", "open", "others", "too near", "one run", "within noise",
    "not swept", "not measured",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """Results of runs with one number of workers; times in s, rates in MB/s, fractions in %."""

    workers: int
    times: tuple[float, ...]  # time of each run
    busy: tuple[float, ...] = ()  # CPU time over time x usable cores, of each run; empty if unknown
    allowed_percent: float = 100.0  # largest possible ``busy`` with parts that do not divide evenly
    machine_percent: float | None = None  # of all cores of the machine, by any program
    device_mb_s: tuple[float, ...] = ()  # empty if not counted
    moved_mb_s: float | None = None  # read and written by the work, from any source
    point_id: str | None = None

    @property
    def is_busy(self) -> bool | None:
        """Whether the workers were busy, so that their own CPU time limits the run.

        None if CPU time was not counted, or if other programs used all cores.
        """
        if not self.busy:
            return None
        own = fmean(self.busy) >= BUSY_SHARE * self.allowed_percent
        return None if not own and self.all_cores_busy else own

    @property
    def all_cores_busy(self) -> bool:
        """Whether all cores of the machine were busy, whatever the program."""
        return self.machine_percent is not None and self.machine_percent >= MACHINE_BUSY_PERCENT

    @property
    def uses_device(self) -> bool:
        """Whether a relevant part of the data was read from or written to a device, not memory."""
        if not self.device_mb_s:
            return False
        return fmean(self.device_mb_s) > DEVICE_SHARE * (self.moved_mb_s or 0.0)


@dataclass(frozen=True, slots=True)
class Saturation:
    """Verdict on the bottleneck of one target, from a sweep of workers."""

    target: str
    steps: tuple[Step, ...]
    verdict: Verdict
    # Start of the plateau if there is one, otherwise the largest number of workers.
    workers: int | None = None

    @property
    def text(self) -> str:
        """Verdict as a phrase, such as ``the device saturates at 8 workers``."""
        at = _workers(self.workers)
        if self.verdict == "cpu" and all(step.is_busy for step in self.steps):
            return "CPU-bound at every number of workers"
        return {
            "device": f"the device saturates at {at}",
            "waiting": f"more than {at} bring nothing, and no device is known to be what they wait "
            "for",
            "cpu": f"CPU-bound at {at}",
            "parts": f"too few parts for {at}",
            "open": f"no limit reached at {at}, the most measured",
            "others": f"{_UNKNOWN} other programs kept the machine's cores busy",
            "too near": f"{_UNKNOWN} the numbers of workers lie too near to one another",
            "one run": f"{_UNKNOWN} single runs have no interval",
            "within noise": f"the effect of more workers is {WITHIN_NOISE}",
            "not swept": f"{_UNKNOWN} only one number of workers was measured",
            "not measured": MISSING,
        }[self.verdict]

    def speedup(self, step: Step) -> Interval:
        """Return the speed-up of ``step`` over the fewest workers, with its interval."""
        return ratio_interval(self.steps[0].times, step.times)

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values for JSON."""
        return {
            "target": self.target,
            "verdict": self.verdict,
            "workers": self.workers,
            "text": self.text,
            "swept": [step.workers for step in self.steps],
        }

    def word(self, step: Step) -> str:
        """Describe the result at one number of workers for a table, such as ``CPU-bound``."""
        at = self.workers or 0
        if self.verdict in ("device", "waiting") and step.workers >= at:
            if step.workers > at:
                return "no faster"
            return "the device saturates" if self.verdict == "device" else "the last gain"
        if step.is_busy:
            return "CPU-bound" if step.allowed_percent >= 100 * BUSY_SHARE else "too few parts"
        if step is self.steps[-1]:
            known = {"open": "still faster", "within noise": UNDECIDED, "not swept": "–"}
            return known.get(self.verdict, "unknown")
        return "workers wait"


def _workers(number: int | None) -> str:
    return "1 worker" if number == 1 else f"{number or 0:,} workers"


def change(few: Sequence[float], many: Sequence[float]) -> Outcome:
    """Decide whether more workers are faster (better) or no faster (equivalent).

    Args:
        few: Times of runs with fewer workers, in s.
        many: Times of runs with more workers, in s.
    """
    ratio = ratio_interval(many, few)
    if ratio.low is None or ratio.high is None:
        return "one run"
    if round(ratio.estimate, DIGITS) <= 1 - LEAST_GAIN:
        return "better" if ratio.high < 1 else "within noise"
    return "equivalent" if ratio.low > 1 - HIDDEN_GAIN else "within noise"


def judge(steps: Sequence[Step]) -> tuple[Verdict, int | None]:
    """Return the verdict on a sweep of workers, and the number of workers that it is about."""
    if not steps:
        return "not measured", None
    last = steps[-1]
    if len(steps) < 2:
        return "not swept", last.workers
    if last.all_cores_busy and not last.is_busy:
        return "others", last.workers
    if last.is_busy:
        return ("cpu" if last.allowed_percent >= 100 * BUSY_SHARE else "parts"), last.workers
    unknown = last.workers < LEAST_SPAN * steps[0].workers
    for place, step in enumerate(steps[:-1]):
        if last.workers < LEAST_SPAN * step.workers:
            break
        changes = {change(step.times, more.times) for more in steps[place + 1 :]}
        if changes == {"equivalent"}:
            certain = last.is_busy is False and last.uses_device
            return ("device" if certain else "waiting"), step.workers
        unknown |= "better" not in changes
    if not unknown:
        return "open", last.workers
    if last.workers < LEAST_SPAN * steps[0].workers:
        return "too near", last.workers
    single = any(len(step.times) < 2 for step in steps)
    return ("one run" if single else "within noise"), last.workers


def _saturation(
    comparison: Comparison, section: Section, facet: Any, target: str, operation: str
) -> Saturation:
    cells = [
        (PreprocessParams.of(point.params).workers, comparison.row(point).cells[target])
        for point in section.of_facet(facet)
    ]
    steps = [step for workers, cell in cells if (step := _step(workers, cell, operation))]
    verdict, workers = judge(steps)
    return Saturation(target, tuple(steps), verdict, workers)


def saturations(
    comparison: Comparison, section: Section, facet: Any, operation: str = "all"
) -> list[Saturation]:
    """Return the verdict on each measured target; empty if workers are not swept.

    Args:
        comparison: Comparison with the values.
        section: Section of the workload.
        facet: Data set size (or other facet) of the points.
        operation: Stage to judge, or "all" for whole runs.
    """
    if section.axes.x != WORKERS:
        return []
    searched = (
        _saturation(comparison, section, facet, target, operation)
        for target in comparison.planned(section.points)
    )
    known = [saturation for saturation in searched if saturation.steps]
    return [_beside(saturation, known) for saturation in known]


def _beside(saturation: Saturation, every: Sequence[Saturation]) -> Saturation:
    """Change the verdict "device" to "waiting" if a target that uses no device is no faster.

    In this case, workers wait for something other than the device.
    """
    if saturation.verdict != "device":
        return saturation
    largest = saturation.steps[-1]
    for other in every:
        reference = next((step for step in other.steps if step.workers == largest.workers), None)
        if other.verdict != "waiting" or reference is None or reference.uses_device:
            continue
        if change(largest.times, reference.times) != "better":
            return replace(saturation, verdict="waiting")
    return saturation


def bounds(comparison: Comparison, sections: Sequence[Section]) -> Iterator[tuple[str, str, str]]:
    """Yield for each workload and target: name of the target, verdict as a phrase, workload."""
    if all(section.axes.x != WORKERS for section in sections):
        yield "", NOT_SWEPT, ""
    for section in sections:
        for facet in section.facets():
            place = ", ".join(t for t in (section.own, section.facet_text(facet)) if t)
            for saturation in saturations(comparison, section, facet):
                yield saturation.target, saturation.text, place


def verdict_words(compared: Sequence[Saturation]) -> str:
    """Join verdicts: ``disk: the device saturates at 8 workers; memory: CPU-bound ...``."""
    targets: dict[str, list[str]] = {}
    for saturation in compared:
        targets.setdefault(saturation.text, []).append(saturation.target)
    return "; ".join(f"{' and '.join(names)}: {text}" for text, names in targets.items())


def _step(workers: int, cell: Cell, operation: str) -> Step | None:
    records = [run.record for run in cell.runs]
    times = _values(records, TIME, operation)
    if not times:
        return None
    machine = [
        record.cpu.machine_busy_percent
        for record in records
        if record.cpu is not None and record.cpu.machine_busy_percent is not None
    ]
    moved = [rates for name in MOVED if (rates := _values(records, name, operation))]
    return Step(
        workers=workers,
        times=times,
        busy=_values(records, BUSY, operation),
        allowed_percent=100
        * fmean(allowed_share(record, workers, operation) for record in records),
        machine_percent=fmean(machine) if machine and operation == "all" else None,
        device_mb_s=_values(records, DEVICE, operation),
        moved_mb_s=math.fsum(fmean(rates) for rates in moved) if moved else None,
        point_id=cell.point_id,
    )


def _values(records: Sequence[RunRecord], name: str, operation: str) -> tuple[float, ...]:
    values = (record.metric(name, operation) for record in records)
    return tuple(value for value in values if value is not None)


def allowed_share(record: RunRecord, workers: int, operation: str = "all") -> float:
    """Return the largest fraction of time (0 to 1) for which workers can have parts to process."""
    at_once = workers if record.cpu is None else min(workers, record.cpu.cores)
    shares = [
        (float(stage.end_ns - stage.start_ns), _stage_share(record, stage, workers, at_once))
        for stage in PreprocessDetails.of(record).stages
        if operation in ("all", stage.name) and stage.parts
    ]
    whole_ns = math.fsum(took_ns for took_ns, _ in shares)
    if whole_ns <= 0:
        return 1.0
    return math.fsum(took_ns * share for took_ns, share in shares) / whole_ns


def _stage_share(record: RunRecord, stage: StageTimes, workers: int, at_once: int) -> float:
    """Return the largest fraction of a stage's time for which its tasks can keep workers busy.

    N tasks of one size on W workers take ceil(N / W) rounds, and some workers are idle in the last
    one. If a single task takes most of the stage, sizes are very unequal. Then Little's law gives
    the mean number of tasks in progress.
    """
    tasks, took_ns = stage.tasks or stage.parts, stage.end_ns - stage.start_ns
    share = min(1.0, tasks / math.ceil(tasks / workers) / max(at_once, 1))
    totals = record.totals.get(stage.name)
    if took_ns <= 0 or totals is None or totals.latency is None:
        return share
    if totals.latency.max_ns < LONG_PART * took_ns:
        return share
    in_hand = totals.operations * totals.latency.mean_ns / took_ns
    return min(share, in_hand / max(at_once, 1))
