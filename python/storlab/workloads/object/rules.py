"""Checks of an object workload's parameters: do they fit together, and do they fit a target?"""

from __future__ import annotations

from collections.abc import Iterable

from storlab.base.errors import Problem
from storlab.base.units import format_size
from storlab.model.job import MOST_IN_FLIGHT
from storlab.model.s3 import LARGEST_PART, LEAST_PART, MOST_PARTS
from storlab.model.study import Target
from storlab.workloads.common.io_fields import arrival_problems
from storlab.workloads.common.load_levels import level_problems
from storlab.workloads.common.skew import needless, skew_problems
from storlab.workloads.object.job import OBJECT_OPERATIONS
from storlab.workloads.object.params import ObjectParams
from storlab.workloads.object.sizes import bounds_of

PERCENTS = {
    "get_percent": "get",
    "head_percent": "head",
    "list_percent": "list",
    "delete_percent": "delete",
    "multi_delete_percent": "multi_delete",
}
"""Parameters with the share of each kind of request; the remainder is PUT."""
DELETES = frozenset({"delete", "multi_delete"})
POOL_USERS = frozenset({"get", "head", "list"}) | DELETES
READERS = frozenset({"get", "head"})
_USERS: dict[str, tuple[frozenset[str], str]] = {
    "objects": (POOL_USERS, "has no effect: only reads, lists and deletes need existing objects"),
    "prefixes": (POOL_USERS, "has no effect: only reads, lists and deletes need existing objects"),
    "keys": (READERS, "has no effect: only GET and HEAD choose among objects"),
    "read_written": (READERS, "has no effect: no object is read"),
    "range_size": (frozenset({"get"}), "has no effect: only GET can read a range"),
    "list_max_keys": (frozenset({"list"}), "has no effect: there are no LISTs"),
    "delete_batch": (frozenset({"multi_delete"}), "has no effect: there are no multi-deletes"),
    "verify": (frozenset({"get"}), "has no effect: only data of GETs can be verified"),
}


def shares(params: ObjectParams) -> dict[str, float]:
    """Return the percentage of each kind of request that a point sends.

    With ``concurrency_per_operation``, these are percentages of the requests in flight, for
    estimates only. How many requests of a kind are sent is a result then, as each kind is sent as
    fast as it is answered.
    """
    lanes = params.concurrency_per_operation
    if lanes is not None:
        places = sum(lanes.values())
        return {kind: 100 * lanes[kind] / places for kind in OBJECT_OPERATIONS if kind in lanes}
    drawn = {kind: getattr(params, field) for field, kind in PERCENTS.items()}
    drawn["put"] = max(0.0, round(100.0 - sum(drawn.values()), 9))  # 33.3 + 66.7 must leave 0
    return {kind: float(drawn[kind]) for kind in OBJECT_OPERATIONS if drawn[kind] > 0}


def combination_problems(values: list[ObjectParams], given: set[str]) -> list[Problem]:
    """Check whether the parameters of a workload fit together; return the problems.

    Args:
        values: Parameters of each point of the workload.
        given: Names of the fields that the study sets.
    """
    over = [*_mix_problems(values), *_lane_problems(values, given)]
    if over:
        return over  # further checks need a valid mix
    return [
        *_needless_problems(values, given),
        *_part_problems(values, given),
        *_range_problems(values),
        *level_problems(values, "rate_requests", ("concurrency_per_operation",)),
        *_prefix_problems(values),
    ]


def needless_fields(params: ObjectParams) -> list[str]:
    """Return the fields that have no effect at a point because of its other parameters."""
    kinds = set(shares(params))
    named = [field for field, (users, _) in _USERS.items() if not kinds & users]
    named += needless(params.keys if kinds & READERS else None)
    if "put" not in kinds:
        named.append("read_written")
    if not _has_parts(params):
        named += ["part_size", "part_concurrency"]
    if params.rate_requests is None and params.load_percent is None:
        named.append("arrival")
    return named


def open_connections(params: ObjectParams, target: Target) -> int:
    """Return the largest number of connections that are open at the same time.

    Each request in flight may keep a connection to every endpoint, and each multipart upload one
    per part in flight.
    """
    lanes = params.concurrency_per_operation
    places = int(params.concurrency)
    uploading = places if lanes is None else lanes.get("put", 0)
    more = uploading * (params.part_concurrency - 1) if params.part_size is not None else 0
    options = target.s3_options
    endpoints = 1 if options is None else 1 + len(options.endpoints)
    return (places + more) * endpoints


def _has_parts(params: ObjectParams) -> bool:
    part = params.part_size
    return part is not None and bounds_of(params.object_size)[1] > part


def _mix_problems(values: list[ObjectParams]) -> Iterable[Problem]:
    for v in values:
        asked = {field: value for field in PERCENTS if (value := getattr(v, field)) > 0}
        total = round(sum(asked.values()), 9)
        if v.concurrency_per_operation is None and total > 100:
            text = ", ".join(f"{field} {percent:g}" for field, percent in asked.items())
            others = total - v.get_percent
            fix = (
                f"set get_percent to at most {100 - others:g}; the rest is PUT"
                if others <= 100
                else "make them smaller; the rest is PUT"
            )
            yield Problem(("get_percent",), f"{text} add up to {total:g}, more than 100", fix)
            return


def _lane_problems(values: list[ObjectParams], given: set[str]) -> Iterable[Problem]:
    lanes = values[0].concurrency_per_operation
    if lanes is None:
        return
    if sum(lanes.values()) > MOST_IN_FLIGHT:
        yield Problem(
            ("concurrency_per_operation",),
            f"adds up to {sum(lanes.values()):,} requests in flight",
            f"use at most {MOST_IN_FLIGHT:,} together",
        )
    for field in ("concurrency", *PERCENTS):
        if field in given:
            yield Problem(
                (field,),
                "conflicts with concurrency_per_operation",
                f"remove {field}, or concurrency_per_operation",
            )
    if values[0].rate_requests is not None:
        yield Problem(
            ("rate_requests",),
            "conflicts with concurrency_per_operation: an open loop draws the kind of each request",
            "remove rate_requests, or give percents instead of concurrency_per_operation",
        )


def _needless_problems(values: list[ObjectParams], given: set[str]) -> Iterable[Problem]:
    """Yield a problem for each field of a feature that no point uses."""
    kinds = {kind for v in values for kind in shares(v)}
    for field, (users, why) in _USERS.items():
        asked = field in given and any(getattr(v, field) is not False for v in values)
        if asked and not kinds & users:
            yield Problem((field,), why, f"remove {field}, or add such requests")
    keys = {v.keys for v in values}
    yield from skew_problems("keys", keys, given)
    if any(v.read_written for v in values) and "put" not in kinds:
        what = "has no effect: no object is written"
        yield Problem(("read_written",), what, "set get_percent below 100")
    # The first point may be the closed loop that finds the maximum for load levels.
    rate = values[-1].rate_requests or values[-1].load_percent
    yield from arrival_problems(values[0].arrival, rate, "rate_requests = 100")
    if values[0].retry_backoff > 0 and values[0].retries == 0:
        yield Problem(
            ("retry_backoff",),
            "has no effect, as retries is 0",
            "add retries = 3, or remove retry_backoff",
        )


def _part_problems(values: list[ObjectParams], given: set[str]) -> Iterable[Problem]:
    largest = max(bounds_of(v.object_size)[1] for v in values)
    parts = [v.part_size for v in values if v.part_size is not None]
    if "part_concurrency" in given and not parts:
        yield Problem(
            ("part_concurrency",),
            "has no effect, as uploads in parts need part_size",
            'add part_size = "16MiB", or remove part_concurrency',
        )
    for v in values:
        top, part = bounds_of(v.object_size)[1], v.part_size
        if part is None and top > LARGEST_PART:
            yield Problem(
                ("object_size",),
                f"{format_size(top)} is more than S3 accepts in one request",
                'upload it in parts: add part_size = "1GiB"',
            )
            return
        if part is not None and -(-top // part) > MOST_PARTS:
            yield Problem(
                ("part_size",),
                f"an object of {format_size(top)} would have more than {MOST_PARTS:,} parts of "
                f"{format_size(part)}, which S3 does not allow",
                "make part_size larger",
            )
            return
    for part in parts:
        if not LEAST_PART <= part <= LARGEST_PART:
            yield Problem(
                ("part_size",),
                f"{format_size(part)} is not between {format_size(LEAST_PART)} and "
                f"{format_size(LARGEST_PART)}, as S3 requires",
                'set part_size = "16MiB", for example',
            )
            return
    if parts and largest <= min(parts):
        yield Problem(
            ("part_size",),
            f"no object is larger than {format_size(min(parts))}, so none has parts",
            "set part_size below object_size, or remove it",
        )


def _range_problems(values: list[ObjectParams]) -> Iterable[Problem]:
    for v in values:
        smallest = bounds_of(v.object_size)[0]
        if v.range_size is not None and v.range_size > smallest:
            yield Problem(
                ("range_size",),
                f"{format_size(v.range_size)} is more than the smallest object, "
                f"{format_size(smallest)}",
                f"set range_size to at most {format_size(smallest)}",
            )
            return


def _prefix_problems(values: list[ObjectParams]) -> Iterable[Problem]:
    """Yield a problem if there are more prefixes than objects: LISTs would read empty ones."""
    for v in values:
        if "list" in shares(v) and v.prefixes > v.objects:
            yield Problem(
                ("prefixes",),
                f"{v.prefixes:,} prefixes for {v.objects:,} objects: "
                "LISTs of empty prefixes do not measure the store",
                f"set prefixes to at most {v.objects:,}, or raise objects",
            )
            return


def target_problem(target: Target) -> Problem | None:
    """Return the problem that prevents an object workload from running on a target, or None."""
    if target.s3 is not None:
        return None
    return Problem(
        ("targets",),
        "object requests need an S3 bucket, but this target is none",
        'name the s3 targets in targets = ["..."], or write s3 = "embedded:storlab-objects" in the '
        "target",
    )
