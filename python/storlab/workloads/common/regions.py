"""Which part of a file or device a point does its I/O in, and whether there is room for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from storlab.base.errors import Problem
from storlab.base.units import binary_twin, format_size, parse_size
from storlab.model.job import Member
from storlab.model.study import Target
from storlab.stores.filesystems import sector_bytes

REGION_GRAIN = 4096  # regions given in percent begin and end on multiples of this
SECTOR = 512  # O_DIRECT: no device has smaller logical blocks
LARGE_SECTOR = 4096  # nor larger ones


class RegionParams(Protocol):
    """What a point says of its region and of the bytes that end it."""

    region_start: int | str
    region_size: int | str | None
    total_bytes: int | None


P = TypeVar("P", bound=RegionParams)


def region_of(params: RegionParams, size: int) -> tuple[int, int]:
    """Start and length, in bytes, of the region that a point uses of ``size`` bytes.

    It may end beyond them: whether there is room for it is for ``room_problem``.
    """

    def resolve(value: int | str, round_up: bool) -> int:
        if isinstance(value, int):
            return value
        exact = size * float(value[:-1]) / 100 / REGION_GRAIN
        return (math.ceil(exact) if round_up else math.floor(exact)) * REGION_GRAIN

    wanted = params.region_size
    begin = resolve(params.region_start, round_up=True)
    length = size - begin if wanted is None else resolve(wanted, round_up=False)
    beyond = begin + length - size
    if isinstance(wanted, str) and 0 < beyond <= REGION_GRAIN:
        length -= beyond  # the start was rounded up; what is more than that was asked for
    return begin, length


def part_of(member: Member, start: int, length: int, least: int, needs: str) -> Member:
    """That part of a file or device alone.

    Raises ValueError where it has no such part, or fewer than the ``least`` bytes; ``needs`` says
    what they are for.
    """
    if start + length > member.size or length < least:
        raise ValueError(
            f"{member.name}: region_start and region_size leave {max(0, length)} bytes of "
            f"{member.size}, and {needs}"
        )
    return member.model_copy(update={"offset": member.offset + start, "size": length})


def size_problems(values: Iterable[P], largest_block: Callable[[P], int]) -> Iterator[Problem]:
    """Regions and totals that leave less than a block to any point of a workload."""
    for v in values:
        least = format_size(largest_block(v))
        for field in ("region_size", "total_bytes"):
            bound = getattr(v, field)
            if isinstance(bound, int) and bound < largest_block(v):
                what = f"{format_size(bound)} is less than one block of {least}"
                yield Problem((field,), what, f"set {field} to at least {least}")
                return
        for field, nothing in (("region_size", "0%"), ("region_start", "100%")):
            if getattr(v, field) == nothing:
                yield Problem((field,), "leaves nothing to use", 'for example "25%"')
                return


def directory_problem(target: Target, example: str) -> Problem | None:
    """Nobody says how large the files of a directory are to be."""
    if target.directory is None or target.size is not None:
        return None
    what = "a directory needs the size of each file"
    return Problem(("size",), what, f'add size = "{example}"')


def alignment_problem(
    fields: Mapping[str, object],
    grain: int = SECTOR,
    why: str = "as O_DIRECT needs",
    fix: str = "use such a size, or set direct = false for the target",
) -> Problem | None:
    """The first of these sizes, in bytes, that is not a multiple; a share of a size is."""
    for field, size in fields.items():
        if isinstance(size, int) and size % grain:
            what = f"{format_size(size)} is not a multiple of {format_size(grain)}, {why}"
            twin = binary_twin(size)
            if twin is not None and parse_size(twin) % grain == 0:
                what = f"{what}: KB and MB count in 1,000s, KiB and MiB in 1,024s"
                fix = f'write "{twin}"'
            return Problem((field,), what, fix)
    return None


def sector_of(target: Target, sizes: Iterable[int]) -> int:
    """Return what direct I/O of these sizes has to be a multiple of on this machine's target.

    The device is only asked where it matters: a multiple of ``LARGE_SECTOR`` fits every one.
    """
    if not any(size % LARGE_SECTOR for size in sizes):
        return LARGE_SECTOR
    return max((sector_bytes(Path(path)) for path in target.locations), default=SECTOR)


def room_problem(
    params: RegionParams, target: Target, block: int, sharers: int = 1
) -> Problem | None:
    """Why the region does not fit into the target, or has no block for each of its sharers."""
    if target.size is None:
        return None
    start, length = region_of(params, target.size)
    whole = format_size(target.size)
    if start >= target.size:
        what = f"nothing of the {whole} is left after it"
        return Problem(("region_start",), what, 'use a smaller one, such as "25%"')
    if start + length > target.size:
        what = f"the region ends beyond the data set of {whole}"
        return Problem(("region_size",), what, "make region_start + region_size smaller")
    if block * sharers <= length:
        return None
    what = f"a block of {format_size(block)} is larger than"
    if sharers > 1:
        what = f"the {sharers:,} workers of a file have a part each, and a block is larger than"
    room = f"{format_size(max(0, length) // sharers)} that may be used"
    return Problem(("block_size",), f"{what} the {room}", "make size larger")
