"""Which values of block parameters go together, and which fit a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from storlab.base.errors import Problem
from storlab.base.units import format_size, parse_size
from storlab.model.study import Target
from storlab.workloads.common.skew import needless, skew_problems

SECTOR = 512  # O_DIRECT: no device has smaller logical blocks
LEAST_VERIFIED = 512  # a verified block holds a header

SYNC_FIELDS = ("sync", "sync_every", "final_sync")

Params = dict[str, Any]


def combination_problems(values: list[Params], given: set[str]) -> list[Problem]:
    """Problems of one workload's points; ``given`` are the fields that the study writes."""
    return [
        *_mix_problems(values),
        *_needless_problems(values, given),
        *_sync_problems(values[0], values),
        *_verify_problems(values),
        *_size_problems(values),
    ]


def needless_fields(params: Params) -> list[str]:
    """What one point has no use for, because it belongs to other values of what is swept."""
    named = needless(params["offsets"])
    return named if _writes(params) else [*named, *SYNC_FIELDS]


def _mix_problems(values: list[Params]) -> Iterable[Problem]:
    over = [v for v in values if round(v["read_percent"] + v["trim_percent"], 9) > 100]
    if over:
        read, trim = over[0]["read_percent"], over[0]["trim_percent"]
        yield Problem(
            ("trim_percent",),
            f"read_percent {read:g} and trim_percent {trim:g} add up to more than 100",
            f"set read_percent to at most {100 - trim:g}; what is left over is written",
        )


def _needless_problems(values: list[Params], given: set[str]) -> Iterable[Problem]:
    """Fields that say something about what the workload does not do."""
    offsets = {v["offsets"] for v in values}
    if offsets == {"sequential"} and "offsets" in given:
        yield Problem(
            ("offsets",), "sequential access has no other offsets", 'set access = "random"'
        )
        return
    yield from skew_problems("offsets", offsets, given)
    if values[0]["arrival"] is not None and values[0]["rate_iops"] is None:
        yield Problem(
            ("arrival",),
            "only an open loop, which has a rate, has arrivals",
            "add rate_iops = 1000, or remove arrival",
        )


def _sync_problems(first: Params, values: list[Params]) -> Iterable[Problem]:
    if first["sync"] == "none" and first["sync_every"] > 0:
        yield Problem(("sync_every",), "says how often, but sync is none", 'add sync = "fdatasync"')
    if first["sync"] != "none" and first["sync_every"] == 0 and not first["final_sync"]:
        yield Problem(("sync",), "never happens", "add sync_every = 1, or final_sync = true")
    syncs = first["sync"] != "none" or first["final_sync"]
    if syncs and not any(_writes(v) for v in values):
        field = "sync" if first["sync"] != "none" else "final_sync"
        yield Problem((field,), "needs writes", "set read_percent below 100")


def _verify_problems(values: list[Params]) -> Iterable[Problem]:
    if not values[0]["verify"]:
        return
    if not all(_writes(v) for v in values):
        yield Problem(
            ("verify",),
            "needs writes in every point: verification reads back what a run wrote",
            "set read_percent below 100, or write a workload of its own for the reads",
        )
    if any(v["trim_percent"] > 0 for v in values):
        yield Problem(("verify",), "cannot know what a trimmed block holds", "set trim_percent = 0")
    if any(v["dedupe_percent"] > 0 for v in values):
        yield Problem(
            ("verify",),
            "gives every block a header of its own, so blocks cannot repeat",
            "set dedupe_percent = 0",
        )
    if any(v["backend"] == "null" for v in values):
        yield Problem(("verify",), 'backend = "null" stores nothing', 'set backend = "auto"')
    for v in values:
        granule = math.gcd(*sizes_of(v))
        if granule < LEAST_VERIFIED:
            yield Problem(
                ("block_size",),
                f"verified blocks have at least {LEAST_VERIFIED} bytes in common, not {granule}",
                "use multiples of 4KiB",
            )
            return


def _size_problems(values: list[Params]) -> Iterable[Problem]:
    for v in values:
        largest = max(sizes_of(v))
        for field in ("region_size", "total_bytes"):
            bound = v[field]
            if isinstance(bound, int) and bound < largest:
                yield Problem(
                    (field,),
                    f"{format_size(bound)} is less than one block of {format_size(largest)}",
                    f"set {field} to at least {format_size(largest)}",
                )
                return
        if v["region_size"] == "0%":
            yield Problem(("region_size",), "leaves nothing to use", 'for example "25%"')
            return
    if values[0]["region_start"] == "100%":
        yield Problem(("region_start",), "leaves nothing to use", 'for example "25%"')


def target_problem(
    params: Params, target: Target, region_of: Callable[[Params, int], tuple[int, int]]
) -> Problem | None:
    """Why this point cannot run on this target, or None."""
    sizes = sizes_of(params)
    largest = max(sizes)
    if target.directory is not None and target.size is None:
        return Problem(("size",), "a directory needs the size of each file", 'add size = "1GiB"')
    if target.is_null and params["verify"]:
        what = '"null:" stores nothing that could be verified'
        return Problem(("verify",), what, "set verify = false")
    granule = math.gcd(*sizes)
    if params["verify"] and target.stripe_chunk is not None and target.stripe_chunk % granule:
        return Problem(
            ("verify",),
            f"the stripe_chunk of {format_size(target.stripe_chunk)} would divide a block of "
            f"{format_size(granule)}",
            "make it a multiple of that, or set verify = false",
        )
    if target.direct and not target.is_null:
        problem = _alignment_problem(params, target, sizes)
        if problem is not None:
            return problem
    if target.size is not None:
        start, length = region_of(params, target.size)
        if start >= target.size:
            return Problem(
                ("region_start",),
                f"nothing of the {format_size(target.size)} is left after it",
                'use a smaller one, such as "25%"',
            )
        if start + length > target.size:
            return Problem(
                ("region_size",),
                f"the region ends beyond the data set of {format_size(target.size)}",
                "make region_start + region_size smaller",
            )
        if largest > length:
            return Problem(
                ("block_size",),
                f"a block of {format_size(largest)} is larger than the "
                f"{format_size(max(0, length))} that may be used",
                "make size larger",
            )
    return None


def _alignment_problem(params: Params, target: Target, sizes: list[int]) -> Problem | None:
    odd = [size for size in sizes if size % SECTOR]
    if odd:
        return Problem(
            ("block_size",),
            f"{format_size(odd[0])} is not a multiple of {SECTOR} bytes, as O_DIRECT needs",
            "use such a size, or set direct = false for the target",
        )
    places = {
        "region_start": params["region_start"],
        "offset": target.offset,
        "stripe_chunk": target.stripe_chunk,
    }
    for field, value in places.items():
        if isinstance(value, int) and value % SECTOR:
            return Problem(
                (field,),
                f"{format_size(value)} is not a multiple of {SECTOR} bytes, as O_DIRECT needs",
                "use such a value, or set direct = false for the target",
            )
    return None


def sizes_of(params: Params) -> list[int]:
    """Block sizes of a point, in bytes."""
    value = params["block_size"]
    return [parse_size(text) for text in value] if isinstance(value, dict) else [value]


def write_percent(params: Params) -> float:
    """Share of writes in all operations: what is neither read nor trimmed."""
    left: float = 100.0 - params["read_percent"] - params["trim_percent"]
    return max(0.0, round(left, 9))  # 33.3 + 66.7 leaves nothing, not 1e-14


def _writes(params: Params) -> bool:
    return write_percent(params) > 0
