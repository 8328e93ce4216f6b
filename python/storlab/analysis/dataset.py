"""Runs of one or more result directories; samples are read only when needed."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storlab._native import Histogram
from storlab.analysis.groups import groups_of, points_and_groups, records_by_group
from storlab.analysis.merge_directories import Work, work_of
from storlab.analysis.points import WorkloadPoint, page_of, use_cases_of
from storlab.base.collector import without_collector
from storlab.base.errors import UsageError
from storlab.base.units import NS_PER_S
from storlab.model.result import RunRecord, group_id, group_operation
from storlab.model.samples import TIMES
from storlab.model.study import Target
from storlab.results.files import read_result
from storlab.results.rounds import Rounds, rounds_of
from storlab.results.store import ResultStore


@dataclass(frozen=True, slots=True)
class IntervalPoint:
    """Throughput, latency and errors of a run in one sampling interval."""

    time_s: float  # end of the interval, from the start of the window
    throughput_mb_s: float
    latency_p99_ns: float | None  # None if no operation completed
    errors: int = 0  # failed operations, which no other field includes
    flush_p99_ns: float | None = None  # 99th percentile of flushes; None without any


@dataclass(slots=True)
class RunData:
    """Stored run whose samples are read on first use."""

    record: RunRecord
    target: str  # label of the target in the data set
    store: ResultStore
    # original run id; empty unless ``record`` has a new id, unique over all result directories
    stored_id: str = ""
    group: str = ""  # name of the group that ``record`` is about; empty for the whole run
    _values: dict[str, float] = field(default_factory=dict, repr=False)
    _reduced: Reduced | None = field(default=None, repr=False)

    @property
    def directory_name(self) -> str:
        """Name of the run within its result directory."""
        return self.stored_id or self.record.run_id

    def samples(self) -> pa.Table:
        """Read the samples of the run, or those of the group named ``group``.

        Raises:
            ResultError: The samples are damaged.
        """
        table = self.store.samples(self.directory_name)
        if not self.group:
            return table
        prefix = group_operation(self.group, "")
        table = table.filter(pc.starts_with(table["operation"], prefix))
        names = pc.utf8_slice_codeunits(table["operation"], len(prefix))
        place = table.schema.get_field_index("operation")
        return table.set_column(place, table.schema.field(place), names)

    @property
    def finished(self) -> bool:
        """Whether the run finished; the numbers of other runs are ignored."""
        return self.record.status == "finished"

    @property
    def values(self) -> Mapping[str, float]:
        """Metric values by column key; power metrics at the boundary that the run reports."""
        if not self._values:
            own = (None, self.record.power_boundary)
            for metric in reversed(self.record.metrics):  # the first metric of a key wins
                if metric.boundary in own:
                    self._values[f"{metric.name}.{metric.operation}"] = metric.value
        return self._values

    @property
    def times(self) -> dict[str, dict[str, bytes]]:
        """Merged histograms by key of ``TIMES`` and by operation, as HdrHistogram V2 bytes.

        Times that the run does not have are empty, such as intended latencies in a closed loop.

        Raises:
            ResultError: The samples are damaged. They are only read for runs of older versions.
        """
        known = self.record.histograms
        if not known and self.record.samples_sha256 is not None:
            return self.reduced.times
        return {
            time: {op: b64decode(text) for op, text in known.get(time, {}).items()}
            for time in TIMES
        }

    @property
    def series(self) -> list[IntervalPoint]:
        """Throughput, latency and errors of each interval of the run.

        Raises:
            ResultError: The samples are damaged.
        """
        return self.reduced.series

    @property
    def reduced(self) -> Reduced:
        """Merged samples of the run; they are read at the first call."""
        if self._reduced is None:
            self._reduced = _reduce(self.samples(), self.record)
        return self._reduced


@dataclass(frozen=True, slots=True)
class Reduced:
    """Merged samples of a run: histograms of the whole window and a series of intervals."""

    times: dict[str, dict[str, bytes]]
    series: list[IntervalPoint]


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """Target as a column of the comparison, with its result directory."""

    label: str
    target: Target
    store: ResultStore


@dataclass(slots=True)
class Dataset:
    """Runs, targets and points of result directories: the input of comparison and figures."""

    stores: list[ResultStore]
    targets: list[TargetColumn]
    baseline: str
    points: list[WorkloadPoint]
    runs: dict[tuple[str, str], list[RunData]]  # runs by point key and target label
    planned: dict[tuple[str, str], int]  # number of planned runs, by the same keys
    point_ids: dict[tuple[str, str], str]
    use_cases: dict[str, list[str]] = field(default_factory=dict)  # names of use cases by point key
    # rounds by target label, if the campaign ends when it is steady: ``runs`` has only those of the
    # measurement window
    rounds: dict[str, Rounds] = field(default_factory=dict)
    outside: list[RunData] = field(default_factory=list)  # runs outside the measurement window

    def of(self, point: WorkloadPoint, target: str) -> list[RunData]:
        """Return the runs of one target at one workload point, failed ones included."""
        return self.runs.get((point.key, target), [])

    @property
    def records(self) -> list[RunRecord]:
        """Records of all runs, in the order of the plans."""
        whole = (run for run in (*self.all_runs(), *self.outside) if not run.group)
        by_name = {(id(run.store), run.directory_name): run.record for run in whole}
        planned = ((id(s), run.run_id) for s in self.stores for run in s.plan.runs)
        return [by_name[name] for name in planned if name in by_name]

    def all_runs(self) -> Iterator[RunData]:
        """Yield every stored run and group, in the order of points and targets."""
        for point in self.points:
            for column in self.targets:
                yield from self.of(point, column.label)


def load_dataset(stores: Sequence[ResultStore], only: Collection[str] | None = None) -> Dataset:
    """Read all runs of these result directories; missing runs are skipped.

    Targets with the same name in two directories are distinguished by as much of the directories'
    paths as needed. The baseline is that of the first study.

    Args:
        stores: Result directories to read.
        only: Ids of the planned points to read; None for all.

    Raises:
        ResultError: A run is damaged.
        UsageError: No directory is given, one is given twice, or one is a copy of another.
    """
    if not stores:
        fix = "give the directory that `storlab run` printed"
        raise UsageError("DIR", "no result directory is given", fix)
    with without_collector():
        return _loaded(stores, only)


def _loaded(stores: Sequence[ResultStore], only: Collection[str] | None) -> Dataset:
    columns = _columns(stores)
    _refuse_copies(stores)
    labels = {(id(c.store), c.target.name): c.label for c in columns}
    data = Dataset(
        list(stores), columns, labels[id(stores[0]), stores[0].study.baseline], [], {}, {}, {}
    )
    seen: dict[str, WorkloadPoint] = {}
    work = work_of(stores)
    for store in stores:
        records = store.records()
        rounds = rounds_of(store.plan, records)
        data.rounds |= {labels[id(store), name]: own for name, own in rounds.items()}
        keys = _add_plan(data, store, labels, seen, work, only)
        for record in records:
            label = labels[id(store), record.target]
            if only is not None and record.point_id not in only:
                continue
            if label in data.rounds and record.repeat not in data.rounds[label]:
                data.outside.append(RunData(record, label, store))
                continue
            point = store.plan.points[record.point_id]
            for name, part in records_by_group(record, point).items():
                cell = (keys[part.point_id], label)
                own = work.record(store, part)
                stored = "" if own is record else record.run_id
                data.runs.setdefault(cell, []).append(RunData(own, label, store, stored, name))
    data.points = list(seen.values())
    for members in data.runs.values():
        members.sort(key=lambda run: run.record.repeat)
    return data


def _refuse_copies(stores: Sequence[ResultStore]) -> None:
    """Refuse result directories of one campaign, whose runs would be compared with themselves.

    Raises:
        UsageError: A directory is a copy of another.
    """
    if len(stores) < 2:
        return
    originals: dict[tuple[str, str], Path] = {}
    for store in stores:
        created_at = str(read_result(store.directory).get("created_at", ""))
        original = originals.setdefault((store.plan.plan_hash, created_at), store.directory)
        if original is not store.directory:
            what = f"is a copy of {original}: it has the same runs"
            fix = "give each run once, because a run that is counted twice is no repeat"
            raise UsageError(str(store.directory), what, fix)


def _columns(stores: Sequence[ResultStore]) -> list[TargetColumn]:
    names = Counter(target.name for store in stores for target in store.study.target)
    columns = []
    for store, place in zip(stores, directory_names(stores), strict=True):
        for target in store.study.target:
            label = f"{target.name} ({place})" if names[target.name] > 1 else target.name
            columns.append(TargetColumn(label, target, store))
    labels = Counter(column.label for column in columns)
    for label, count in labels.items():
        if count > 1:  # a target's name may equal another's name with its directory
            fix = "rename one of the result directories, whose names are part of labels"
            raise UsageError("DIR", f'two targets are called "{label}"', fix)
    return columns


def directory_names(stores: Sequence[ResultStore]) -> list[str]:
    """Return the shortest end of each directory's path that distinguishes it from the others."""
    paths = [store.directory.resolve() for store in stores]
    for path, count in Counter(paths).items():
        if count > 1:
            raise UsageError(
                "DIR", f"{path} is given twice", "give each result directory once: counting runs "
                "twice would make confidence intervals too narrow"
            )  # fmt: skip
    names = []
    for path in paths:
        others = [other.parts for other in paths if other != path]
        size = 1
        while size < len(path.parts) and any(o[-size:] == path.parts[-size:] for o in others):
            size += 1
        names.append("/".join(path.parts[-size:]).replace("//", "/"))
    return names


def _add_plan(
    data: Dataset,
    store: ResultStore,
    labels: dict[tuple[int, str], str],
    seen: dict[str, WorkloadPoint],
    work: Work,
    only: Collection[str] | None,
) -> dict[str, str]:
    """Add the plan of a result directory to the data set; return its points' keys by point id."""
    points = points_and_groups(store.plan)
    keys = {name: work.points[id(store), name].key for name in points}
    for run in sorted(
        store.plan.runs, key=lambda r: (store.plan.points[r.point_id].workload_index, r.order)
    ):
        if only is not None and run.point_id not in only:
            continue
        whole = store.plan.points[run.point_id]
        label = labels[id(store), whole.target]
        if label in data.rounds and run.repeat not in data.rounds[label]:
            continue
        spec = store.study.workload[whole.workload_index]
        groups = (group_id(run.point_id, name) for name in groups_of(whole))
        for point_id in (run.point_id, *groups):
            key = keys[point_id]
            cell = (key, label)
            data.planned[cell] = data.planned.get(cell, 0) + 1
            data.point_ids[cell] = work.ids[id(store), point_id]
            if not data.use_cases.get(key):
                done = seen.setdefault(key, work.points[id(store), point_id])
                data.use_cases[key] = use_cases_of(done.page, done.params, spec.use_case)
    return keys


def _reduce(table: pa.Table, record: RunRecord) -> Reduced:
    """Merge a run's samples into histograms and time series."""
    page = page_of(record.kind)
    times: dict[str, dict[str, Histogram]] = {time: {} for time in TIMES}
    intervals: dict[int, list[tuple[dict[str, Any], Histogram]]] = {}
    flushes: dict[int, Histogram] = {}
    for row in _rows(table):
        operation = row["operation"]
        histograms = {
            time: Histogram.from_v2(row[name]) for time, name in TIMES.items() if row[name]
        }
        for time, histogram in histograms.items():
            times[time].setdefault(operation, Histogram()).add(histogram)
        if operation in page.operations.main:
            latency = histograms.get("latency", Histogram())
            intervals.setdefault(row["interval"], []).append((row, latency))
        elif operation in page.operations.auxiliary and "latency" in histograms:
            flushes.setdefault(row["interval"], Histogram()).add(histograms["latency"])
    start_ns, moved = record.window_start_ns, page.operations.transferred
    series = [_interval(intervals[i], start_ns, moved, flushes.get(i)) for i in sorted(intervals)]
    return Reduced({t: _encoded(h) for t, h in times.items()}, series)


def _encoded(histograms: dict[str, Histogram]) -> dict[str, bytes]:
    return {op: h.to_v2() for op, h in histograms.items() if h.count}


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows to merge; columns that an older version did not write are None."""
    wanted = ["interval", "start_ns", "end_ns", "operation", "bytes", "errors", *TIMES.values()]
    absent = dict.fromkeys((n for n in wanted if n not in table.column_names), None)
    present = [name for name in wanted if name not in absent]
    for batch in table.select(present).to_batches(max_chunksize=256):
        for row in batch.to_pylist():
            yield {**absent, **row}


def _interval(
    parts: list[tuple[dict[str, Any], Histogram]],
    window_start_ns: int,
    moved: Sequence[str],
    flushes: Histogram | None,
) -> IntervalPoint:
    start_ns = min(row["start_ns"] for row, _ in parts)
    end_ns = max(row["end_ns"] for row, _ in parts)
    together = Histogram()
    for _, histogram in parts:
        together.add(histogram)
    length_s = (end_ns - start_ns) / NS_PER_S
    transferred = sum(row["bytes"] for row, _ in parts if row["operation"] in moved)
    return IntervalPoint(
        time_s=(end_ns - window_start_ns) / NS_PER_S,
        throughput_mb_s=transferred / 1e6 / length_s if length_s > 0 else 0.0,
        latency_p99_ns=float(together.percentile(99.0)) if together.count else None,
        errors=sum(row["errors"] or 0 for row, _ in parts),
        flush_p99_ns=float(flushes.percentile(99.0)) if flushes and flushes.count else None,
    )


def merge(histograms: Sequence[bytes]) -> Histogram | None:
    """Merge HdrHistogram V2 encodings; None for no input. Percentiles are never averaged."""
    if not histograms:
        return None
    total = Histogram()
    for encoded in histograms:
        total.add(Histogram.from_v2(encoded))
    return total
