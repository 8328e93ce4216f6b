"""Preflight: do limits of control groups, or of threads, bound the load that a study makes?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from storlab.base.units import format_bytes_si
from storlab.contracts.check import Check
from storlab.lab.site.limits import limits_of
from storlab.stores.devices import Device

OWN_THREADS = 64  # of storlab itself: libraries, meters, watches


def limit_checks(
    facts: Mapping[str, Any], cores: int, workers: int, memory_bytes: int
) -> Iterator[Check]:
    """Judge the limits of one client.

    Args:
        facts: As :func:`storlab.lab.site.limits.limit_facts` returns them.
        cores: That the client may run on.
        workers: Threads of the run that has most of them.
        memory_bytes: Of the run that needs most of it.
    """
    quota = facts["quota_cores"]
    if quota is not None and quota < cores:
        yield Check(
            name="CPU quota",
            status="warning",
            what=f"the control group {facts['quota_group']} allows {quota:.3g} of {cores} cores: "
            "the load generator is stopped when it has used them, and results may be its limit",
            fix="remove the quota: cpu.max, cpu.cfs_quota_us, or --cpus of the container",
        )
    if facts["memory_limit_bytes"] is not None:
        limit = format_bytes_si(facts["memory_limit_bytes"])
        what = f"limited to {limit} by {facts['memory_group']}; the page cache is part of it"
        yield Check(name="memory limit", status="ok", what=what)
    left = facts["memory_left_bytes"]
    if memory_bytes > left:
        yield Check(
            name="memory",
            status="error",
            what=f"a run needs about {format_bytes_si(memory_bytes)} for buffers and histograms, "
            f"and {format_bytes_si(left)} are available",
            fix="use fewer jobs or smaller buffers, end other programs, or raise memory.max",
        )
    need = workers + OWN_THREADS
    if workers and need > facts["threads"]:
        yield Check(
            name="threads",
            status="error",
            what=f"a run needs about {need:,} threads, and {facts['threads']:,} may be started",
            fix="use fewer jobs, or raise the limit: pids.max of the control group, ulimit -u, "
            "kernel.threads-max",
        )


def io_limit_checks(device: Device) -> Iterator[Check]:
    """Name the I/O limits that control groups set on a device."""
    for limit, _ in limits_of([device]):
        bounds = [
            f"{words} {text}"
            for words, value, text in (
                ("reads", limit.read_bytes_s, f"{format_bytes_si(limit.read_bytes_s or 0)}/s"),
                ("writes", limit.write_bytes_s, f"{format_bytes_si(limit.write_bytes_s or 0)}/s"),
                ("reads", limit.read_iops, f"{limit.read_iops or 0:,}/s"),
                ("writes", limit.write_iops, f"{limit.write_iops or 0:,}/s"),
            )
            if value is not None
        ]
        yield Check(
            name="I/O limit",
            status="warning",
            what=f"a control group limits device {limit.device}: {', '.join(bounds)}",
            fix="remove it: io.max, or blkio.throttle of version 1",
        )
