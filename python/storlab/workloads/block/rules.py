"""Which values of block parameters go together, and which fit a target."""

from __future__ import annotations

import math
from collections.abc import Iterable

from storlab.base.errors import Problem
from storlab.base.units import binary_twin, format_size, parse_size
from storlab.model.study import Target
from storlab.workloads.block.params import BlockParams
from storlab.workloads.common import drawn
from storlab.workloads.common.io_fields import arrival_problems
from storlab.workloads.common.regions import (
    LARGE_SECTOR,
    SECTOR,
    alignment_problem,
    directory_problem,
    room_problem,
    sector_of,
    size_problems,
)
from storlab.workloads.common.skew import needless

REPEATED_BYTES = 1 << 20  # that a job writes from, so that the share of repeated ones comes out
LEAST_VERIFIED = 512  # a verified block holds a header

SYNC_FIELDS = ("sync", "sync_every", "final_sync")


def combination_problems(values: list[BlockParams], given: set[str]) -> list[Problem]:
    """Problems of one workload's points; ``given`` are the fields that the study writes."""
    return [
        *_mix_problems(values),
        *_needless_problems(values, given),
        *_sync_problems(values[0], values),
        *_verify_problems(values),
        *size_problems(values, lambda v: max(sizes_of(v))),
    ]


def needless_fields(params: BlockParams) -> list[str]:
    """What one point has no use for, because it belongs to other values of what is swept."""
    named = needless(params.offsets)
    return named if _writes(params) else [*named, *SYNC_FIELDS]


def _mix_problems(values: list[BlockParams]) -> Iterable[Problem]:
    over = [v for v in values if round(v.read_percent + v.trim_percent, 9) > 100]
    if over:
        read, trim = over[0].read_percent, over[0].trim_percent
        yield Problem(
            ("trim_percent",),
            f"read_percent {read:g} and trim_percent {trim:g} add up to more than 100",
            f"set read_percent to at most {100 - trim:g}; what is left over is written",
        )


def _needless_problems(values: list[BlockParams], given: set[str]) -> Iterable[Problem]:
    """Fields that say something about what the workload does not do."""
    yield from drawn.offset_problems({v.offsets for v in values}, given)
    yield from arrival_problems(values[0].arrival, values[0].rate_iops, "rate_iops = 1000")


def _sync_problems(first: BlockParams, values: list[BlockParams]) -> Iterable[Problem]:
    if first.sync == "none" and first.sync_every > 0:
        yield Problem(("sync_every",), "says how often, but sync is none", 'add sync = "fdatasync"')
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
            "set read_percent below 100, or write a workload of its own for the reads",
        )
    if any(v.trim_percent > 0 for v in values):
        yield Problem(("verify",), "cannot know what a trimmed block holds", "set trim_percent = 0")
    if any(v.dedupe_percent > 0 for v in values):
        yield Problem(
            ("verify",),
            "gives every block a header of its own, so blocks cannot repeat",
            "set dedupe_percent = 0",
        )
    if any(v.backend == "null" for v in values):
        yield Problem(("verify",), 'backend = "null" stores nothing', 'set backend = "auto"')
    for v in values:
        granule = math.gcd(*sizes_of(v))
        if granule < LEAST_VERIFIED:
            yield Problem(
                ("block_size",),
                f"verified blocks need a common divisor of at least {format_size(LEAST_VERIFIED)}, "
                f"and these have {format_size(granule)}",
                "use multiples of 4KiB",
            )
            return


def target_problem(params: BlockParams, target: Target) -> Problem | None:
    """Why this point cannot run on this target, or None."""
    sizes = sizes_of(params)
    return (
        directory_problem(target, "1GiB")
        or _verify_problem(params, target, math.gcd(*sizes))
        or _alignment_problem(params, target, sizes)
        or room_problem(params, target, max(sizes))
    )


def _verify_problem(params: BlockParams, target: Target, granule: int) -> Problem | None:
    if not params.verify:
        return None
    if target.is_null:
        what = '"null:" stores nothing that could be verified'
        return Problem(("verify",), what, "set verify = false")
    if target.stripe_chunk is not None and target.stripe_chunk % granule:
        return Problem(
            ("verify",),
            f"the stripe_chunk of {format_size(target.stripe_chunk)} would divide a block of "
            f"{format_size(granule)}",
            "make it a multiple of that, or set verify = false",
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
    # As crates/run/src/order.rs: blocks of whole larger sectors lie at multiples of them, since
    # the device may have those.
    grain = SECTOR if any(size % LARGE_SECTOR for size in sizes) else LARGE_SECTOR
    grain = max(grain, sector)
    return alignment_problem(blocks, sector) or alignment_problem(places, grain)


def unit_cautions(params: BlockParams, target: Target) -> tuple[str, ...]:
    """Sizes in 1,000s that direct I/O can do, and that are hardly meant: 64KB is not 64KiB."""
    odd = [size for size in sizes_of(params) if size % LARGE_SECTOR]
    twins = [(size, twin) for size in odd if (twin := binary_twin(size))]
    if not target.direct or target.is_null:
        return ()
    return tuple(
        f"block_size: {format_size(size)} is {size:,} bytes, no multiple of 4KiB; "
        f'write "{twin}" if {parse_size(twin):,} bytes are meant'
        for size, twin in twins
        if parse_size(twin) % LARGE_SECTOR == 0
    )


def sizes_of(params: BlockParams) -> list[int]:
    """Block sizes of a point, in bytes."""
    return drawn.sizes_of(params.block_size)


def buffer_bytes(params: BlockParams, engine: str) -> int:
    """Memory of the buffers of all jobs, as crates/families/block/src/spec.rs counts them, about:
    those of reads and of writes lie apart, unless an engine other than storlab's own makes them.
    """
    largest, depth = max(sizes_of(params)), int(params.queue_depth)
    kept = -(-REPEATED_BYTES // largest) if params.dedupe_percent else 0
    writes = max(depth, kept) if _writes(params) else 0
    reads = depth if params.read_percent else 0
    slots = reads + writes if engine == "native" else depth
    return int(params.jobs) * slots * largest


def histograms(params: BlockParams) -> int:
    """Return how many latency histograms a job has: of its operations, and of due times."""
    mix = (params.read_percent, write_percent(params), params.trim_percent)
    kinds = sum(share > 0 for share in mix) + (params.sync_every > 0)
    return kinds * (1 if params.rate_iops is None else 2)


def write_percent(params: BlockParams) -> float:
    """Share of writes in all operations: what is neither read nor trimmed."""
    left: float = 100.0 - params.read_percent - params.trim_percent
    return max(0.0, round(left, 9))  # 33.3 + 66.7 leaves nothing, not 1e-14


def _writes(params: BlockParams) -> bool:
    return write_percent(params) > 0
