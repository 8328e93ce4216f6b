"""Operations, bytes and samples of a run of vdbench, computed from its printed rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from storlab._native import Histogram
from storlab.base.rounding import NEGLIGIBLE_PERCENT, Bounds
from storlab.base.units import NS_PER_S
from storlab.engines.vdbench.result import Report, Row, VdbenchFormatError
from storlab.model.result import Operation, OperationTotals, Sample

KINDS: tuple[Operation, ...] = ("read", "write")
_SECTOR_BYTES = 512
_SAME_SIZE = 0.8  # share of intervals with one mean size from which on the size is fixed
_NOTHING = Bounds(0, 0)


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals of the averaged intervals and samples that add up to them, with notes."""

    totals: dict[Operation, OperationTotals]
    samples: list[Sample]
    length_ns: int
    size: int | None  # of each operation in bytes; None if sizes differ
    notes: list[str]


@dataclass(frozen=True, slots=True)
class _Part:
    """Bounds of the operations and bytes in one interval, or in all of them, by kind."""

    length_s: float
    operations: Mapping[Operation, Bounds]
    bytes: Mapping[Operation, Bounds]


def count(report: Report) -> Counts:
    """Count operations and bytes of a run over its averaged intervals.

    If the report has all intervals and they agree with the averages, each of them is a sample.
    Otherwise there is one sample, from the averages.

    Raises:
        VdbenchFormatError: The run has no averages, or neither reads nor writes.
    """
    average = report.average
    rows, lengths = report.averaged(), report.lengths_s()
    size = _size([*rows, average])
    whole = _part(average, sum(lengths), size, report)
    parts = [_part(row, length, size, report) for row, length in zip(rows, lengths, strict=False)]
    notes = []
    if parts and not all(_agrees(parts, whole, kind) for kind in KINDS):
        notes.append("vdbench's averages differ from its intervals: the averages are used")
        parts = []
    if not parts:
        notes.append("there is no time series: one sample spans the whole window")
        parts = [whole]
    if lengths[-1] < lengths[0]:
        notes.append(f"the last interval was cut short: it lasted {lengths[-1]:.2f} s")
    samples = list(_samples(parts))
    totals = {
        kind: OperationTotals(
            operations=sum(s.operations for s in samples if s.operation == kind),
            bytes=sum(s.bytes for s in samples if s.operation == kind),
            latency_mean_ns=_latency_ns(average, kind),
        )
        for kind in KINDS
        if any(s.operation == kind for s in samples)
    }
    if not totals:
        what = "has neither reads nor writes: storlab has no workload for other operations"
        raise VdbenchFormatError(report.name, what)
    notes += _rounding_notes(parts, totals, average)
    return Counts(totals, samples, round(sum(lengths) * NS_PER_S), size, notes)


def _size(rows: Sequence[Row]) -> int | None:
    """Return the size of an operation if the mean sizes of the intervals show that it is fixed.

    vdbench prints mean sizes as whole bytes. A mix of sizes hardly ever has a multiple of 512 bytes
    as its mean, and not the same one in most intervals. Some may differ, because the last operation
    of a file or device may be shorter.
    """
    means = Counter(
        round(row.values["mean_bytes"].middle)
        for row in rows
        if "mean_bytes" in row.values and row.values["rate"].middle > 0
    )
    for mean, number in means.most_common(1):
        if mean and mean % _SECTOR_BYTES == 0 and number >= _SAME_SIZE * means.total():
            return mean
    return None


def _part(row: Row, length_s: float, size: int | None, report: Report) -> _Part:
    values = row.values
    operations: dict[Operation, Bounds] = {}
    moved: dict[Operation, Bounds] = {}
    if row.is_file_system:
        for kind in KINDS:
            operations[kind] = values.get(f"{kind}_rate", _NOTHING).scaled(length_s)
            moved[kind] = values.get(f"mb_{kind}", _NOTHING).scaled(length_s * report.mb_bytes)
    else:
        rate, reads = values.get("rate"), values.get("read_percent")
        if rate is None or reads is None or "mb" not in values:
            raise VdbenchFormatError(
                report.name, "lacks the columns of rate, MB or read percentage"
            )
        total = rate.scaled(length_s)
        share = Bounds(max(0.0, reads.low) / 100, min(100.0, reads.high) / 100)
        if round(reads.middle, 6) in (0, 100):
            share = Bounds(reads.middle / 100, reads.middle / 100)
        operations["read"] = _product(total, share)
        operations["write"] = _product(total, Bounds(1 - share.high, 1 - share.low))
        every = values["mb"].scaled(length_s * report.mb_bytes)
        for kind in KINDS:
            part = operations[kind].middle / total.middle if total.middle else 0.0
            moved[kind] = every.scaled(part)
    operations = {kind: _whole(bounds) for kind, bounds in operations.items()}
    if size is not None:
        moved = {kind: _exact(moved[kind], operations[kind], size) for kind in KINDS}
    return _Part(length_s, operations, moved)


def _product(left: Bounds, right: Bounds) -> Bounds:
    return Bounds(left.low * right.low, left.high * right.high)


def _whole(bounds: Bounds) -> Bounds:
    """Return the only whole number inside of narrow bounds, or else the bounds."""
    nearest = round(bounds.middle)
    if bounds.high - bounds.low < 1 and bounds.low <= nearest <= bounds.high:
        return Bounds(nearest, nearest)
    return bounds


def _exact(moved: Bounds, operations: Bounds, size: int) -> Bounds:
    """Return operations times their size, unless the printed bytes rule that out."""
    by_size = operations.scaled(size)
    slack = size  # one operation, because the last of a file may be shorter
    if moved.low - slack <= by_size.high and by_size.low <= moved.high + slack:
        return by_size
    return moved


def _agrees(parts: Sequence[_Part], whole: _Part, kind: Operation) -> bool:
    """Return whether intervals add up to the averages, within the rounding of both."""
    low = sum(part.operations[kind].low for part in parts)
    high = sum(part.operations[kind].high for part in parts)
    slack = 1 + 0.001 * high
    return low - slack <= whole.operations[kind].high and (
        whole.operations[kind].low <= high + slack
    )


def _samples(parts: Sequence[_Part]) -> Iterable[Sample]:
    empty = Histogram().to_v2()
    done = [kind for kind in KINDS if any(round(p.operations[kind].middle) for p in parts)]
    begin = 0.0
    for number, part in enumerate(parts):
        end = begin + part.length_s
        for kind in done:
            yield Sample(
                interval=number,
                start_ns=round(begin * NS_PER_S),
                end_ns=round(end * NS_PER_S),
                operation=kind,
                operations=round(part.operations[kind].middle),
                bytes=round(part.bytes[kind].middle),
                latency=empty,
            )
        begin = end


def _latency_ns(average: Row, kind: Operation) -> float | None:
    """Return the mean response time of reads or writes; None if vdbench printed 0."""
    value = average.values.get(f"{kind}_resp")
    return value.middle * 1e6 if value is not None and value.middle > 0 else None


def _rounding_notes(
    parts: Sequence[_Part], totals: Mapping[Operation, OperationTotals], average: Row
) -> Iterable[str]:
    for kind in totals:
        for what, bounds in (
            ("the number of operations", [part.operations[kind] for part in parts]),
            ("the number of bytes", [part.bytes[kind] for part in parts]),
        ):
            percent = Bounds(sum(b.low for b in bounds), sum(b.high for b in bounds)).percent
            if percent > NEGLIGIBLE_PERCENT:
                yield f"{kind}: {what} is rounded by vdbench (±{percent:.2g} %)"
        response = average.values.get(f"{kind}_resp")
        if response is not None and response.middle > 0:
            if response.percent > NEGLIGIBLE_PERCENT:
                digit_us = 1000 * (response.high - response.low)
                yield f"{kind}: the response time is rounded by vdbench to {digit_us:.3g} µs"
        else:
            yield f"{kind}: vdbench printed no response time above 0"
