"""How reports present object requests: axes, order, sections, titles and phrases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.base.units import exact_number, format_size
from storlab.contracts import question
from storlab.contracts.page import (
    RUNS,
    Load,
    Metrics,
    Operations,
    Page,
    Parameters,
    Quantity,
    Text,
    margins,
    rate,
)
from storlab.contracts.question import Question
from storlab.model.result import Operation
from storlab.workloads.common.costs import CPU_PER_GB
from storlab.workloads.common.groups import BESIDE, describe_groups
from storlab.workloads.common.load_levels import IN_CLOSED_LOOP, LEVEL_TITLE, describe_level
from storlab.workloads.common.load_levels import NAME as LOAD_LEVEL
from storlab.workloads.common.skew import OWNERS
from storlab.workloads.object.flags import OBJECT_FLAGS
from storlab.workloads.object.job import OBJECT_OPERATIONS
from storlab.workloads.object.params import ObjectParams
from storlab.workloads.object.rules import PERCENTS, shares
from storlab.workloads.object.sizes import describe_sizes

MOVED: tuple[Operation, ...] = ("get", "put")
MIX = "get_percent"
LANES = "concurrency_per_operation"
WORDS = {
    "get": "GET",
    "put": "PUT",
    "head": "HEAD",
    "list": "LIST",
    "delete": "DELETE",
    "multi_delete": "multi-DELETE",
}
"""Display names of operations."""


def phrase(name: str, params: Mapping[str, Any]) -> str | None:
    """Return a parameter as a phrase, such as ``70/30 GET/PUT`` or ``concurrency 16``.

    None means that reports print its name and value. "" means that the phrase for another
    parameter includes it, as the phrase for GETs includes all percentages of the mix.
    """
    value = params[name]
    if name == "group":
        return describe_groups(params, value, describe_group)
    if name == BESIDE:
        return f"beside {describe_groups(params, value, describe_group)}"
    if params.get("group") and name in PERCENTS:
        return ""  # groups may differ in other shares of their mixes, so each has its own phrase
    if name == MIX:
        return mix_text(_asked(params))
    if name in PERCENTS or name == LANES:
        return "" if MIX in params else None
    if name == "concurrency":
        return "" if params.get(LANES) else f"concurrency {value}"
    if name == "object_size":
        return describe_sizes(value)
    if name == LOAD_LEVEL:
        return describe_level(value)
    if name == "rate_requests" and value is not None:
        return f"{exact_number(value)} requests/s"
    return None


def mix_text(params: ObjectParams) -> str:
    """Describe a mix: ``70/30 GET/PUT``, ``GETs only`` or ``8 GET + 8 PUT at once``."""
    lanes = params.concurrency_per_operation
    if lanes:
        parts = [f"{lanes[kind]} {WORDS[kind]}" for kind in OBJECT_OPERATIONS if kind in lanes]
        return f"{' + '.join(parts)} at once"
    asked = shares(params)
    if len(asked) == 1:
        return f"{WORDS[next(iter(asked))]}s only"
    percents = "/".join(exact_number(percent) for percent in asked.values())
    return f"{percents} {'/'.join(WORDS[kind] for kind in asked)}"


def describe_group(params: Mapping[str, Any]) -> str:
    """Describe a group of requests, such as ``PUTs only, 64 MiB, concurrency 4, 2 requests/s``."""
    values = ObjectParams.of(params)
    size = values.object_size
    parts = [
        mix_text(values),
        format_size(size) if isinstance(size, int) else str(describe_sizes(size)),
        f"concurrency {values.concurrency}",
    ]
    if values.rate_requests is not None:
        parts.append(f"{exact_number(values.rate_requests)} requests/s")
    if values.part_size is not None:
        parts.append(f"parts of {format_size(values.part_size)}")
    return ", ".join(parts)


def _asked(params: Mapping[str, Any]) -> ObjectParams:
    """Make parameters from a subset of fields; missing percentages are 0."""
    return ObjectParams.of({**dict.fromkeys(PERCENTS, 0.0), **params})


def is_relevant(name: str, params: Mapping[str, Any]) -> bool:
    """Return whether a parameter affects a point, so that reports print it."""
    return any(_affects(name, load) for load in _asked(params).loads().values())


def _affects(name: str, work: ObjectParams) -> bool:
    """Return whether a parameter affects the load of a point or of one of its groups."""
    asked = shares(work)
    if name in PERCENTS and name != MIX:
        return PERCENTS[name] in asked
    if name in OWNERS:
        return work.keys == OWNERS[name]
    needs = {
        "list_max_keys": "list" in asked,
        "delete_batch": "multi_delete" in asked,
        "part_concurrency": work.part_size is not None,
        "retry_backoff": work.retries > 0,
        "read_written": "put" in asked,
    }
    return needs.get(name, True)


OBJECT_COSTS = (
    Quantity("cpu_us_per_request", "client CPU per request", "us", "less", "", short="client CPU"),
    CPU_PER_GB,
    Quantity("server_cpu_s_per_gb", "server CPU per GB", "s/GB", "less", RUNS, short="server CPU"),
)
OBJECT_QUESTIONS = (
    *question.USUAL,
    question.latency(
        ("latency_p99_ns.get", "latency_p99_ns.put"),
        "answers the slowest of a hundred requests {times} as fast as {other}",
    ),
    Question(
        "first_byte",
        "Time to first byte",
        ("ttfb_p99_ns.get", "ttfb_mean_ns.get"),
        "sends the first byte of the slowest of a hundred GETs {times} as fast as {other}",
    ),
)
OBJECT_PAGE = Page(
    operations=Operations(
        main=OBJECT_OPERATIONS,
        moved=MOVED,
        rate=rate("requests_s", "requests/s", "requests/s"),
        names=WORDS,
        by_operation=True,
        percentiles=("p50", "p90", "p99", "p999"),
        first_byte=("get",),
    ),
    parameters=Parameters(
        axes=("concurrency", "rate_requests"),
        model=ObjectParams,
        facet="object_size",
        mix=MIX,
        titles={
            MIX: "mix (GET/PUT)",
            "object_size": "object size",
            "concurrency": "concurrency",
            LANES: "concurrency per operation",
            "rate_requests": "rate (requests/s)",
            "objects": "objects in the pool",
            "read_written": "reads what it wrote",
            "list_max_keys": "keys of a LIST",
            "delete_batch": "keys of a multi-DELETE",
            "group": "groups",
            LOAD_LEVEL: LEVEL_TITLE,
        },
        phrase=phrase,
        is_relevant=is_relevant,
        absent={LOAD_LEVEL: IN_CLOSED_LOOP},
        mix_words="GET/PUT",
    ),
    load=Load(
        workers="threads",
        concurrency="concurrency",
        outstanding={"concurrency": ("concurrency", "concurrent")},
        open_loop="rate_requests",
        level=LOAD_LEVEL,
    ),
    metrics=Metrics(
        costs=OBJECT_COSTS,
        questions=OBJECT_QUESTIONS,
        margins=margins(
            rates={"requests_s": 0.05},
            times={"ttfb_mean_ns": 0.10},
            reported=("cpu_us_per_request",),
        ),
    ),
    text=Text(
        work="S3 requests",
        stated=("object_size", "concurrency"),
        last_point="the highest concurrency",
    ),
    flags=OBJECT_FLAGS,
    additions="storlab.workloads.object.findings:Findings",
)
