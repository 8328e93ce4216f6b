"""Region of a file or device that I/O is limited to, and checks that it fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from storlab.base.errors import Problem
from storlab.base.units import format_size, parse_size, same_number_in_binary_units
from storlab.model.job import Member
from storlab.model.study import Target
from storlab.stores.filesystems import sector_bytes

REGION_GRAIN = 4096  # boundaries of regions given in percent are rounded to multiples of this
SECTOR = 512  # O_DIRECT: smallest logical block of any device
LARGE_SECTOR = 4096  # largest logical block of any device


class RegionParams(Protocol):
    """Parameters of any family whose I/O is limited to a region or a number of bytes."""

    region_start: int | str
    region_size: int | str | None
    total_bytes: int | None


P = TypeVar("P", bound=RegionParams)


def region_of(params: RegionParams, size: int) -> tuple[int, int]:
    """Return start and length in bytes of a region in a file or device of ``size`` bytes.

    The region may end beyond the file, which ``room_problem`` reports.
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
        length -= beyond  # the start was rounded up: end at the end of the file
    return begin, length


def part_of(member: Member, start: int, length: int, least: int, needs: str) -> Member:
    """Restrict a file or device to ``length`` bytes from ``start``.

    Args:
        member: File or device.
        start: Start of the part in bytes.
        length: Length of the part in bytes.
        least: Smallest allowed length in bytes.
        needs: Reason for ``least``, as a clause for the message.

    Raises:
        ValueError: The part ends beyond the file or device, or is smaller than ``least``.
    """
    if start + length > member.size or length < least:
        raise ValueError(
            f"{member.name}: region_start and region_size leave {max(0, length)} bytes of "
            f"{member.size}, and {needs}"
        )
    return member.model_copy(update={"offset": member.offset + start, "size": length})


def size_problems(values: Iterable[P], largest_block: Callable[[P], int]) -> Iterator[Problem]:
    """Yield a problem if a region or the total bytes of a point are smaller than one block."""
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
                yield Problem((field,), "leaves no bytes to use", 'set for example "25%"')
                return


def directory_problem(target: Target, example: str) -> Problem | None:
    """Return a problem if a directory target does not set the size of its files."""
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
    """Return a problem for the first size that is not a multiple of ``grain``.

    Args:
        fields: Sizes in bytes by field; other values, such as percentages, are ignored.
        grain: Number of bytes that sizes must be a multiple of.
        why: Reason, as a clause for the message.
        fix: Fix, for the message.
    """
    for field, size in fields.items():
        if isinstance(size, int) and size % grain:
            what = f"{format_size(size)} is not a multiple of {format_size(grain)}, {why}"
            twin = same_number_in_binary_units(size)
            if twin is not None and parse_size(twin) % grain == 0:
                what = f"{what}: KB and MB count in 1,000s, KiB and MiB in 1,024s"
                fix = f'write "{twin}"'
            return Problem((field,), what, fix)
    return None


def sector_of(target: Target, sizes: Iterable[int]) -> int:
    """Return the sector size in bytes that direct I/O on a local target must be a multiple of.

    Devices are queried only if a size is not a multiple of ``LARGE_SECTOR``, which is valid for all
    devices.
    """
    if not any(size % LARGE_SECTOR for size in sizes):
        return LARGE_SECTOR
    return max((sector_bytes(Path(path)) for path in target.locations), default=SECTOR)


def room_problem(
    params: RegionParams, target: Target, block: int, sharers: int = 1
) -> Problem | None:
    """Return a problem if a region is larger than the target or too small for its workers.

    Args:
        params: Parameters with the region.
        target: Target with the size of its files.
        block: Size of the largest block in bytes.
        sharers: Number of workers among which the region is divided.
    """
    if target.size is None:
        return None
    start, length = region_of(params, target.size)
    whole = format_size(target.size)
    if start >= target.size:
        what = f"leaves nothing of the {whole} to use"
        return Problem(("region_start",), what, 'use a smaller value, such as "25%"')
    if start + length > target.size:
        what = f"the region ends beyond the data set of {whole}"
        return Problem(("region_size",), what, "make region_start + region_size smaller")
    if block * sharers <= length:
        return None
    what = f"a block of {format_size(block)} is larger than"
    if sharers > 1:
        what = f"{sharers:,} workers share a file, and a block is larger than each one's part:"
    room = f"{format_size(max(0, length) // sharers)} that may be used"
    return Problem(("block_size",), f"{what} the {room}", "make size larger")
