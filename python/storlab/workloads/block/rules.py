"""Checks of a block workload's parameters: do they fit together, and do they fit a target?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

from storlab.base.errors import Problem
from storlab.base.units import format_size, parse_size, same_number_in_binary_units
from storlab.model.study import Target
from storlab.stores.zones import zones_of
from storlab.workloads.block.params import BlockParams
from storlab.workloads.common import random_choice
from storlab.workloads.common.io_fields import arrival_problems
from storlab.workloads.common.load_levels import level_problems
from storlab.workloads.common.regions import (
    LARGE_SECTOR,
    SECTOR,
    alignment_problem,
    directory_problem,
    region_of,
    room_problem,
    sector_of,
    size_problems,
)
from storlab.workloads.common.skew import needless

REPEATED_BYTES = 1 << 20  # pattern of a job, long enough for an exact share of duplicates
LEAST_VERIFIED = 512  # a verified block must hold its header

SYNC_FIELDS = ("sync", "sync_every", "final_sync")


def combination_problems(values: list[BlockParams], given: set[str]) -> list[Problem]:
    """Check whether the parameters of a workload fit together; return the problems.

    Args:
        values: Parameters of each point of the workload.
        given: Names of the fields that the study sets.
    """
    return [
        *_mix_problems(values),
        *_needless_problems(values, given),
        *_sync_problems(values[0], values),
        *_verify_problems(values),
        *level_problems(values, "rate_iops", ("total_bytes",)),
        *size_problems(values, lambda v: max(sizes_of(v))),
    ]


def needless_fields(params: BlockParams) -> list[str]:
    """Return the fields that have no effect at a point because of its other parameters."""
    named = needless(params.offsets)
    if params.rate_iops is None and params.load_percent is None:
        named.append("arrival")
    return named if _writes(params) else [*named, *SYNC_FIELDS]


def _mix_problems(values: list[BlockParams]) -> Iterable[Problem]:
    over = [v for v in values if round(v.read_percent + v.trim_percent, 9) > 100]
    if over:
        read, trim = over[0].read_percent, over[0].trim_percent
        yield Problem(
            ("trim_percent",),
            f"read_percent {read:g} and trim_percent {trim:g} add up to more than 100",
            f"set read_percent to at most {100 - trim:g}; the rest is written",
        )


def _needless_problems(values: list[BlockParams], given: set[str]) -> Iterable[Problem]:
    """Yield a problem for each field of a feature that the workload does not use."""
    yield from random_choice.offset_problems({v.offsets for v in values}, given)
    # The first point may be the closed loop that finds the maximum for load levels.
    rate = values[-1].rate_iops or values[-1].load_percent
    yield from arrival_problems(values[0].arrival, rate, "rate_iops = 1000")


def _sync_problems(first: BlockParams, values: list[BlockParams]) -> Iterable[Problem]:
    if first.sync == "none" and first.sync_every > 0:
        yield Problem(
            ("sync_every",), "has no effect, because sync is none", 'add sync = "fdatasync"'
        )
    if first.sync != "none" and first.sync_every == 0 and not first.final_sync:
        yield Problem(("sync",), "never happens", "add sync_every = 1, or final_sync = true")
    syncs = first.sync != "none" or first.final_sync
    if syncs and not any(_writes(v) for v in values):
        field = "sync" if first.sync != "none" else "final_sync"
        yield Problem((field,), "needs writes", "set read_percent below 100")


def _verify_problems(values: list[BlockParams]) -> Iterable[Problem]:
    if not values[0].verify:
        return
    if not all(_writes(v) for v in values):
        yield Problem(
            ("verify",),
            "needs writes in every point: verification reads back what a run wrote",
            "set read_percent below 100, or move the reads to another workload",
        )
    if any(v.trim_percent > 0 for v in values):
        yield Problem(
            ("verify",),
            "cannot verify trimmed blocks, whose content is undefined",
            "set trim_percent = 0",
        )
    if any(v.dedupe_percent > 0 for v in values):
        yield Problem(
            ("verify",),
            "writes a unique header into every block, so blocks cannot be duplicates",
            "set dedupe_percent = 0",
        )
    if any(v.backend == "null" for v in values):
        yield Problem(("verify",), 'backend = "null" stores nothing', 'set backend = "auto"')
    for v in values:
        granule = math.gcd(*sizes_of(v))
        if granule < LEAST_VERIFIED:
            yield Problem(
                ("block_size",),
                f"block sizes to verify need a common divisor of at least "
                f"{format_size(LEAST_VERIFIED)}, but these have {format_size(granule)}",
                "use multiples of 4KiB",
            )
            return


def target_problem(params: BlockParams, target: Target) -> Problem | None:
    """Return the problem that prevents a point from running on a target; None if it can run."""
    sizes = sizes_of(params)
    return (
        directory_problem(target, "1GiB")
        or _verify_problem(params, target, math.gcd(*sizes))
        or _alignment_problem(params, target, sizes)
        or zones_problem([params], target)
        or room_problem(params, target, max(sizes))
    )


def _verify_problem(params: BlockParams, target: Target, granule: int) -> Problem | None:
    if not params.verify:
        return None
    if target.is_null:
        what = 'the target "null:" stores nothing that could be verified'
        return Problem(("verify",), what, "set verify = false")
    if target.stripe_chunk is not None and target.stripe_chunk % granule:
        return Problem(
            ("verify",),
            f"blocks of {format_size(granule)} would be divided by the target's stripe_chunk of "
            f"{format_size(target.stripe_chunk)}",
            f"make stripe_chunk a multiple of {format_size(granule)}, or set verify = false",
        )
    return None


def _alignment_problem(params: BlockParams, target: Target, sizes: list[int]) -> Problem | None:
    if not target.direct or target.is_null:
        return None
    sector = sector_of(target, sizes)
    blocks = {"block_size": next((size for size in sizes if size % sector), None)}
    places = {
        "region_start": params.region_start,
        "offset": target.offset,
        "stripe_chunk": target.stripe_chunk,
    }
    # As in crates/run/src/order.rs: if all block sizes are multiples of 4 KiB, offsets must be,
    # too, because the device may have sectors of 4 KiB.
    grain = SECTOR if any(size % LARGE_SECTOR for size in sizes) else LARGE_SECTOR
    grain = max(grain, sector)
    return alignment_problem(blocks, sector) or alignment_problem(places, grain)


def zones_problem(loads: list[BlockParams], target: Target) -> Problem | None:
    """Return why loads cannot run together on a target with zoned drives; None if they can.

    A zone takes one write at a time, so each write in flight needs an open zone.

    Args:
        loads: Parameters of each group of jobs, or of the only load.
        target: Target with the size of its devices.
    """
    zoned = {path: zones for path in target.locations if (zones := zones_of(path))}
    if not zoned:
        return None
    path, zones = min(zoned.items(), key=lambda item: item[1].most_written)
    writers = [load for load in loads if _writes(load)]
    for load in loads:
        if problem := _zoned_load_problem(load, target, path):
            return problem
    if _share_zones(loads, target.size or 0):
        return Problem(
            ("group",),
            f"{path} is a zoned drive, on which each group that writes needs zones of its own",
            "give each group a region of its own: region_start and region_size",
        )
    most = zones.most_written * len(zoned)
    depth = sum(int(load.jobs) * int(load.queue_depth) for load in writers)
    if depth > most:
        return Problem(
            ("queue_depth",),
            f"{depth:,} writes in flight need as many open zones, and {path} is a {zones.text}",
            f"reduce queue_depth or jobs: their product must be at most {most:,}",
        )
    return None


def _share_zones(loads: list[BlockParams], size: int) -> bool:
    """Return whether a load that writes has a region in common with another one."""
    regions = [(*region_of(load, size), _writes(load)) for load in loads]
    return any(
        (first[2] or other[2]) and max(first[0], other[0]) < min(sum(first[:2]), sum(other[:2]))
        for first, other in combinations(regions, 2)
    )


def _zoned_load_problem(load: BlockParams, target: Target, path: str) -> Problem | None:
    writes = _writes(load)
    zoned = f"{path} is a zoned drive"
    if writes and load.access != "sequential":
        return Problem(
            ("access",),
            f"{zoned}, which refuses random writes: each zone is written from its start to its end",
            'set access = "sequential", or read_percent = 100',
        )
    if writes and load.read_percent:
        return Problem(
            ("read_percent",),
            f"{zoned}, on which a job cannot read and write: its reads must stay below the write "
            "pointers of the zones",
            "use a group for reads and one for writes, with region_start and region_size",
        )
    if load.trim_percent:
        return Problem(("trim_percent",), f"{zoned}, which has no trims", "set trim_percent = 0")
    if load.verify:
        what = f"{zoned}, whose zones are reset before they are written again: that is not verified"
        return Problem(("verify",), what, "set verify = false")
    if writes and not target.direct:
        what = f"{zoned}, which the page cache does not write in order"
        return Problem(("direct",), what, "set direct = true")
    if target.layout == "stripe":
        return Problem(("layout",), f"{zoned}, which cannot be striped", 'set layout = "jbod"')
    return None


def unit_cautions(params: BlockParams, target: Target) -> tuple[str, ...]:
    """Return a warning for each decimal block size that is probably a mistake.

    For example, 64KB (64,000 bytes) works with direct I/O on some devices, but users usually mean
    64KiB.
    """
    odd = [size for size in sizes_of(params) if size % LARGE_SECTOR]
    twins = [(size, twin) for size in odd if (twin := same_number_in_binary_units(size))]
    if not target.direct or target.is_null:
        return ()
    return tuple(
        f"block_size: {format_size(size)} is {size:,} bytes, no multiple of 4KiB; "
        f'write "{twin}" if {parse_size(twin):,} bytes are meant'
        for size, twin in twins
        if parse_size(twin) % LARGE_SECTOR == 0
    )


def sizes_of(params: BlockParams) -> list[int]:
    """Return all block sizes of a point in bytes."""
    return random_choice.sizes_of(params.block_size)


def buffer_bytes(params: BlockParams, engine: str) -> int:
    """Estimate the memory of all jobs' buffers in bytes.

    The native engine has separate buffers for reads and writes. It computes this number again in
    crates/families/block/src/spec.rs, so both formulas must be equal.
    """
    largest, depth = max(sizes_of(params)), int(params.queue_depth)
    kept = -(-REPEATED_BYTES // largest) if params.dedupe_percent else 0
    writes = max(depth, kept) if _writes(params) else 0
    reads = depth if params.read_percent else 0
    slots = reads + writes if engine == "native" else depth
    return int(params.jobs) * slots * largest


def histograms(params: BlockParams) -> int:
    """Return the number of histograms per job: one per operation, twice as many in an open loop."""
    mix = (params.read_percent, write_percent(params), params.trim_percent)
    kinds = sum(share > 0 for share in mix) + (params.sync_every > 0)
    closed = params.rate_iops is None and params.load_percent is None
    return kinds * (1 if closed else 2)


def write_percent(params: BlockParams) -> float:
    """Return the percentage of writes: 100 minus the percentages of reads and trims."""
    left: float = 100.0 - params.read_percent - params.trim_percent
    return max(0.0, round(left, 9))  # 33.3 + 66.7 must leave 0, not 1e-14


def _writes(params: BlockParams) -> bool:
    return write_percent(params) > 0
