"""Counts, sizes and options of fio jobs, derived from fio's human-readable or terse output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from storlab.base.rounding import NEGLIGIBLE_PERCENT, Bounds

NOTES = "notes"
"""Field of documents and of their jobs for notes on the values that were read or are missing."""
JOBS = "number of jobs"
"""Field of a document's job for the number of jobs whose sum it is, if fio printed it."""
PARTIAL = "partial options"
"""Field of documents whose jobs have only some of their options, because fio printed no others."""
_KINDS = ("read", "write", "trim")
_SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True)
class Section:
    """Options of one job as fio prints them beside its results.

    ``sizes`` are the smallest and largest block size of reads, writes and trims, in bytes.
    """

    name: str
    group: int
    rw: str
    sizes: Sequence[tuple[int, int]]
    engine: str | None
    depth: int | None
    is_by_order: bool = False  # whether ``sizes`` are of sequential and random I/O instead


@dataclass(slots=True)
class Moved:
    """Operations and bytes of one kind of I/O: as printed, and as `count` derives them."""

    kind: str
    runtime_ms: int
    bytes: Bounds | None
    issued: int | None = None  # exact number of I/Os
    counted: Bounds | None = None  # number of I/Os computed from the printed rate
    is_short: bool = False  # whether some I/Os moved fewer bytes than asked for
    block_size: int | None = None
    is_varied: bool = False  # whether I/Os are known to have several sizes
    operations: int = field(default=0, init=False)
    total_bytes: int = field(default=0, init=False)

    def count(self) -> Iterable[str]:
        """Derive block size, number and bytes of I/Os; yield notes on rounded values."""
        if self.block_size is None and not self.is_varied:
            self.block_size = self._inferred_size()
        number = self._number()
        if number is None:
            yield f"{self.kind}: the number of I/Os is missing and cannot be computed"
            return
        moved, size = self.bytes, self.block_size
        if self.issued and size and moved and self.issued * size > moved.high and not self.is_short:
            yield f"{self.kind}: fio issued {self.issued:,} I/Os; by their bytes, fewer completed"
            number = moved.scaled(1 / size)
        self.operations = round(number.middle)
        if number.percent > NEGLIGIBLE_PERCENT:
            yield f"{self.kind}: the number of I/Os is rounded by fio (±{number.percent:.2g} %)"
        exact = self.operations * size if size and not self.is_short else None
        if moved is None:
            self.total_bytes = exact or 0
        elif exact is not None and moved.low <= exact <= moved.high:
            self.total_bytes = exact
        else:
            self.total_bytes = round(moved.middle)
            if moved.percent > NEGLIGIBLE_PERCENT:
                yield (
                    f"{self.kind}: bytes and throughput are rounded by fio (±{moved.percent:.2g} %)"
                )

    def _number(self) -> Bounds | None:
        if self.issued is not None:
            return Bounds(self.issued, self.issued)
        if self.block_size and self.bytes is not None:
            number = self.bytes.scaled(1 / self.block_size).overlap(self.counted)
            nearest = round(number.middle)
            if number.high - number.low < 1 and number.low <= nearest <= number.high:
                return Bounds(nearest, nearest)
            return number
        return self.counted

    def _inferred_size(self) -> int | None:
        """Return the block size if printed bytes and counts allow only one, else None.

        Candidates are powers of two or, if none fits, multiples of 512 bytes.
        """
        number = Bounds(self.issued, self.issued) if self.issued else self.counted
        if self.bytes is None or number is None or number.low <= 0:
            return None
        low, high = self.bytes.low / number.high, self.bytes.high / number.low
        powers = [1 << power for power in range(9, 31) if low <= 1 << power <= high]
        if len(powers) == 1:
            return powers[0]
        first = -(-round(low) // _SECTOR_BYTES) * _SECTOR_BYTES
        is_only = low <= first <= high < first + _SECTOR_BYTES
        return first if is_only and not powers and first else None


def with_sizes(sections: Sequence[Section], moved: Iterable[Moved]) -> None:
    """Set the block size of each kind of I/O for which all sections have the same size."""
    for one in moved:
        sizes = {size for section in sections for size in _size_range(section, one.kind)}
        one.is_varied = len(sizes) > 1
        one.block_size = next(iter(sizes)) if len(sizes) == 1 else None


def _size_range(section: Section, kind: str) -> tuple[int, int] | tuple[()]:
    index = int("rand" in section.rw) if section.is_by_order else _index(kind)
    return section.sizes[index] if index < len(section.sizes) else ()


def _index(kind: str) -> int:
    return _KINDS.index(kind) if kind in _KINDS else 0


def options(
    sections: Sequence[Section],
    moved: Mapping[str, Moved],
    jobs: int,
    syncs: int,
    notes: list[str],
) -> dict[str, str]:
    """Return the printed options of a job in the form of fio's JSON.

    Args:
        sections: Printed options of the sections whose results are added up in the job.
        moved: I/O by kind.
        jobs: Number of jobs whose results were added.
        syncs: Number of flushes.
        notes: List to which notes on inferred options are added.

    Returns:
        The options; empty if no section is given.
    """
    if not sections:
        return {}
    first = sections[0]
    found: dict[str, str] = {"rw": _rw(sections, moved, notes), **_sizes(sections, moved, notes)}
    if len(sections) > 1:
        names = ", ".join(dict.fromkeys(section.name for section in sections))
        notes.append(f"fio merged the results of {len(sections)} sections ({names}) into one")
    found["ioengine"] = first.engine or "unknown"
    if first.depth is not None:
        found["iodepth"] = str(first.depth)
    if jobs > 1:
        found |= {"numjobs": str(jobs), "group_reporting": "1"}
    reads, writes = (moved[kind].operations if kind in moved else 0 for kind in ("read", "write"))
    if reads and writes:
        share = round(100 * reads / (reads + writes))
        found["rwmixread"] = str(share)
        notes.append(f"rwmixread is not in the file: {share} is the share of reads as measured")
    if syncs and writes:
        found["fsync"] = str(max(1, round(writes / syncs)))
        notes.append(
            "the file does not show whether and when fio called fsync or fdatasync: one fsync per "
            f"{found['fsync']} writes, the mean, is assumed"
        )
    return found


def _rw(sections: Sequence[Section], moved: Mapping[str, Moved], notes: list[str]) -> str:
    kinds = {section.rw for section in sections}
    if len(kinds) == 1:
        return kinds.pop()
    is_random = any("rand" in kind for kind in kinds)
    if len({"rand" in kind for kind in kinds}) > 1:
        notes.append("random and sequential I/O are merged: recorded as random")
    done = [kind for kind in _KINDS if kind in moved]
    plain = "rw" if {"read", "write"} <= set(done) else (done or ["read"])[0]
    return f"rand{plain}" if is_random else plain


def _sizes(
    sections: Sequence[Section], moved: Mapping[str, Moved], notes: list[str]
) -> dict[str, str]:
    """Return the option ``bs`` with the block sizes, or ``bsrange`` if they vary."""
    known = {kind: one.block_size for kind, one in moved.items()}
    if all(known.values()):
        given = [str(known.get(kind) or next(iter(known.values()), "")) for kind in _KINDS]
        if not known:
            return {}
        return {"bs": given[0] if len(set(given)) == 1 else ",".join(given)}
    ranges = [[_size_range(section, kind) for kind in _KINDS] for section in sections]
    if ranges and all(ranges[0]) and all(one == ranges[0] for one in ranges):
        texts = [f"{size[0]}-{size[1]}" for size in ranges[0] if size]
        return {"bsrange": texts[0] if len(set(texts)) == 1 else ",".join(texts)}
    means = [
        round(one.total_bytes / one.operations) if one.operations else 4096
        for one in (moved.get(kind) or next(iter(moved.values())) for kind in _KINDS)
    ]
    notes.append("block sizes differ between sections: block_size is the mean size of an I/O")
    texts = [str(max(1, size)) for size in means]
    return {"bs": texts[0] if len(set(texts)) == 1 else ",".join(texts)}
